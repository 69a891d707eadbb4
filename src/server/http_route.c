/* The table of routes: which one a request is for, and what is said when there is none. */
#include <stdio.h>
#include <string.h>

#include "server/http_internal.h"

static bool route_matches(const qn_http_route *route, const char *path)
{
    size_t length = strlen(route->path);
    if (!route->prefix) {
        return strcmp(route->path, path) == 0;
    }
    if (strncmp(route->path, path, length) != 0 || path[length] == '\0') {
        return false;
    }
    size_t part = strcspn(path + length, "/");
    return route->below == NULL || (part > 0 && strcmp(path + length + part, route->below) == 0);
}

static void add_method(qn_http_reply *reply, const char *method)
{
    size_t used = strlen(reply->allow);
    snprintf(reply->allow + used, sizeof reply->allow - used, "%s%s", used > 0 ? ", " : "", method);
}

static bool is_served(const qn_http_options *options, const char *path)
{
    for (size_t i = 0; i < options->route_count; i++) {
        if (route_matches(&options->routes[i], path)) {
            return true;
        }
    }
    return false;
}

/* What is served where a path has /v1 too often, or not at all, as base URLs easily make it; else "". */
static void find_meant(const qn_http_options *options, const char *path, char *out, size_t bytes)
{
    static const char version[] = "/v1";
    size_t skipped = strncmp(path, version, sizeof version - 1) == 0 ? sizeof version - 1 : 0;
    int length = snprintf(out, bytes, "%s%s", skipped > 0 ? "" : version, path + skipped);
    if (length < 0 || (size_t)length >= bytes || !is_served(options, out)) {
        out[0] = '\0';
    }
}

static void reply_no_endpoint(const qn_http_exchange *exchange, qn_http_reply *reply)
{
    char meant[128], message[256];
    find_meant(&exchange->http->options, exchange->path, meant, sizeof meant);
    if (meant[0] != '\0') {
        snprintf(message, sizeof message, "path: there is no such endpoint: did you mean %s?", meant);
    } else {
        snprintf(message, sizeof message, "path: there is no such endpoint: GET /openapi.json lists those there are");
    }
    qn_http_reply_error(exchange, 404, message, reply);
}

const qn_http_route *qn_http_find_route(qn_http_exchange *exchange, qn_http_reply *reply)
{
    const qn_http_options *options = &exchange->http->options;
    for (size_t i = 0; i < options->route_count; i++) {
        const qn_http_route *route = &options->routes[i];
        if (!route_matches(route, exchange->path)) {
            continue;
        }
        if (strcmp(route->method, exchange->method) == 0) {
            return route;
        }
        add_method(reply, route->method);
        if (strcmp(route->method, "GET") == 0) {
            add_method(reply, "HEAD");
        }
    }
    if (reply->allow[0] == '\0') {
        reply_no_endpoint(exchange, reply);
        return NULL;
    }
    add_method(reply, "OPTIONS");
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        reply->status = 204;
        return NULL;
    }
    char message[128];
    snprintf(message, sizeof message, "method: not one of this endpoint's: use one of %s", reply->allow);
    qn_http_reply_error(exchange, 405, message, reply);
    return NULL;
}

bool qn_http_is_open(const qn_http_exchange *exchange)
{
    const qn_http_options *options = &exchange->http->options;
    for (size_t i = 0; i < options->route_count; i++) {
        if (route_matches(&options->routes[i], exchange->path)) {
            return options->routes[i].open;
        }
    }
    return false;
}
