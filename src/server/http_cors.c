/* What answers tell browsers about pages of other origins: see cors.h. */
#include <string.h>

#include "server/http_internal.h"

/* A browser asks again after so many seconds. */
static const char max_age[] = "600";

static void add(qn_http_headers *headers, const char *name, const char *value)
{
    headers->items[headers->count++] = (qn_http_header_item){.name = name, .value = value};
}

static const char *asked_method(const qn_http_exchange *exchange)
{
    return qn_http_header(exchange, "Access-Control-Request-Method");
}

bool qn_http_is_preflight(const qn_http_exchange *exchange)
{
    return exchange->http->options.cors != NULL && strcmp(exchange->method, "OPTIONS") == 0 &&
           qn_http_header(exchange, "Origin") != NULL && asked_method(exchange) != NULL;
}

void qn_http_answer_preflight(const qn_http_exchange *exchange, qn_http_reply *reply)
{
    const qn_cors *cors = exchange->http->options.cors;
    reply->status = 204;
    if (qn_cors_origin(cors, qn_http_header(exchange, "Origin")) == NULL) {
        qn_http_reply_error(exchange, 400, "Origin: its pages may not use this server: see --allowed-origins", reply);
    } else if (!qn_cors_allows_method(cors, asked_method(exchange))) {
        qn_http_reply_error(exchange, 400,
                            "Access-Control-Request-Method: not for pages of other origins: see --allowed-methods",
                            reply);
    } else if (!qn_cors_allows_headers(cors, qn_http_header(exchange, "Access-Control-Request-Headers"))) {
        qn_http_reply_error(exchange, 400,
                            "Access-Control-Request-Headers: not for pages of other origins: see --allowed-headers",
                            reply);
    }
}

static void add_permissions(const qn_http_exchange *exchange, qn_http_headers *out)
{
    const qn_cors *cors = exchange->http->options.cors;
    const char *asked = qn_http_header(exchange, "Access-Control-Request-Headers");
    add(out, "Access-Control-Allow-Methods", cors->method_list);
    bool mirror = cors->any_header && asked != NULL && strchr(asked, '\t') == NULL; /* libmicrohttpd sends no tabs */
    add(out, "Access-Control-Allow-Headers", mirror ? asked : cors->header_list);
    add(out, "Access-Control-Max-Age", max_age);
}

void qn_http_list_cors_headers(const qn_http_exchange *exchange, unsigned status, qn_http_headers *out)
{
    const qn_cors *cors = exchange->http->options.cors;
    *out = (qn_http_headers){0};
    if (cors == NULL) {
        return;
    }
    if (!cors->any_origin) {
        add(out, "Vary", "Origin"); /* a cache must not give one origin what another was told */
    }
    const char *origin = qn_http_header(exchange, "Origin");
    const char *allowed = origin != NULL ? qn_cors_origin(cors, origin) : NULL;
    if (allowed == NULL) {
        return;
    }
    add(out, "Access-Control-Allow-Origin", allowed);
    if (cors->credentials) {
        add(out, "Access-Control-Allow-Credentials", "true");
    }
    if (!qn_http_is_preflight(exchange)) {
        add(out, "Access-Control-Expose-Headers", "Retry-After, X-Request-Id");
    } else if (status == 204) {
        add_permissions(exchange, out);
    }
}
