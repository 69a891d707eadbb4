#include "server/cors.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"
#include "base/json.h"
#include "base/memory.h"

enum { LIST_MAX = 1000 };

static const char all_methods[] = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

/* What every page may send, listed or not (the Fetch standard, 2.2.2). */
static const char *const safe_headers[] = {"Accept", "Accept-Language", "Content-Language", "Content-Type"};

/* As it can stand in a header's list. */
static bool is_word(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || *at == ',') {
            return false;
        }
    }
    return text[0] != '\0';
}

static qn_status parse_list(const char *text, const char *flag, json_t **out, bool *any, qn_error *err)
{
    json_t *list = NULL;
    qn_status status = qn_json_parse(text, strlen(text), flag, &list, err);
    if (status != QN_OK) {
        return err->status = status == QN_BAD_INPUT ? QN_USAGE : status;
    }
    *out = list;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > LIST_MAX) {
        return qn_fail(err, QN_USAGE, "%s: not a list of 1 to %d strings: give JSON such as [\"*\"]", flag, LIST_MAX);
    }
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *word = json_string_value(item);
        if (word == NULL || strlen(word) != json_string_length(item) || !is_word(word)) {
            return qn_fail(err, QN_USAGE, "%s[%zu]: not a string of visible ASCII characters without commas", flag, i);
        }
        *any = *any || strcmp(word, "*") == 0;
    }
    return QN_OK;
}

static bool contains(const json_t *list, const char *word, size_t bytes)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        if (json_string_length(item) == bytes && strncasecmp(json_string_value(item), word, bytes) == 0) {
            return true;
        }
    }
    return false;
}

/* Scheme, host and port, which is all that browsers send: anything else would never match. */
static qn_status check_origins(const qn_cors *cors, qn_error *err)
{
    size_t i;
    json_t *item;
    json_array_foreach(cors->origins, i, item)
    {
        const char *origin = json_string_value(item);
        const char *host = strstr(origin, "://");
        bool special = strcmp(origin, "*") == 0 || strcmp(origin, "null") == 0;
        if (!special && (host == NULL || host == origin || host[3] == '\0' || strpbrk(host + 3, "/?#*") != NULL)) {
            return qn_fail_field(err, QN_USAGE, "allowed-origins",
                                 "--allowed-origins[%zu]: '%.200s': give scheme://host or scheme://host:port, or *", i,
                                 origin);
        }
    }
    if (cors->any_origin && cors->credentials) {
        return qn_fail_field(err, QN_USAGE, "allow-credentials",
                             "--allow-credentials: not for every origin: name those that may in --allowed-origins");
    }
    return QN_OK;
}

static void add_word(qn_buffer *out, const char *word)
{
    qn_buffer_format(out, "%s%s", out->size > 0 ? ", " : "", word);
}

static void add_list(qn_buffer *out, const json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(uintptr_t)list, i, item)
    {
        add_word(out, json_string_value(item));
    }
}

static qn_status write_lists(qn_cors *cors, qn_error *err)
{
    qn_buffer methods = {0}, headers = {0};
    if (cors->any_method) {
        add_word(&methods, all_methods);
    } else {
        add_list(&methods, cors->methods);
    }
    for (size_t i = 0; i < sizeof safe_headers / sizeof safe_headers[0]; i++) {
        add_word(&headers, safe_headers[i]);
    }
    if (!cors->any_header) {
        add_list(&headers, cors->headers);
    }
    cors->method_list = methods.data;
    cors->header_list = headers.data;
    return methods.failed || headers.failed ? qn_fail_memory(err, "--allowed-methods", methods.size + headers.size)
                                            : QN_OK;
}

qn_status qn_cors_open(const char *origins, const char *methods, const char *headers, bool credentials, qn_cors *out,
                       qn_error *err)
{
    static const char all[] = "[\"*\"]";
    *out = (qn_cors){.credentials = credentials};
    qn_status status = parse_list(origins, "--allowed-origins", &out->origins, &out->any_origin, err);
    if (status == QN_OK) {
        status = parse_list(methods != NULL ? methods : all, "--allowed-methods", &out->methods, &out->any_method, err);
    }
    if (status == QN_OK) {
        status = parse_list(headers != NULL ? headers : all, "--allowed-headers", &out->headers, &out->any_header, err);
    }
    if (status == QN_OK) {
        status = check_origins(out, err);
    }
    if (status == QN_OK) {
        status = write_lists(out, err);
    }
    if (status != QN_OK) {
        qn_cors_close(out);
    }
    return status;
}

void qn_cors_close(qn_cors *cors)
{
    json_decref(cors->origins);
    json_decref(cors->methods);
    json_decref(cors->headers);
    qn_free(cors->method_list);
    qn_free(cors->header_list);
    *cors = (qn_cors){0};
}

const char *qn_cors_origin(const qn_cors *cors, const char *origin)
{
    if (cors->any_origin) {
        return "*";
    }
    return contains(cors->origins, origin, strlen(origin)) ? origin : NULL;
}

bool qn_cors_allows_method(const qn_cors *cors, const char *method)
{
    return cors->any_method || contains(cors->methods, method, strlen(method));
}

static bool is_safe(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof safe_headers / sizeof safe_headers[0]; i++) {
        if (strlen(safe_headers[i]) == bytes && strncasecmp(safe_headers[i], name, bytes) == 0) {
            return true;
        }
    }
    return false;
}

bool qn_cors_allows_headers(const qn_cors *cors, const char *names)
{
    if (cors->any_header || names == NULL) {
        return true;
    }
    for (const char *at = names; *at != '\0';) {
        at += strspn(at, " \t,");
        size_t bytes = strcspn(at, " \t,");
        if (bytes > 0 && !is_safe(at, bytes) && !contains(cors->headers, at, bytes)) {
            return false;
        }
        at += bytes;
    }
    return true;
}
