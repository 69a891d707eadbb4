#include "bench/serve_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "bench/serve_client.h"

enum { CONNECT_S = 30, MODELS_S = 60, MODELS_BYTES = 1 << 20, SHOWN_BYTES = 300 };

/* As with vLLM's client; the second for a server that was started in the same environment. */
static void bring_key(CURL *easy)
{
    const char *key = getenv("OPENAI_API_KEY");
    key = key != NULL && key[0] != '\0' ? key : getenv("VLLM_API_KEY");
    if (key != NULL && key[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, key);
    }
}

CURL *qn_serve_easy_new(qn_error *err)
{
    /* again does nothing but count; what it holds lives as long as the process */
    CURL *easy = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    if (!easy) {
        qn_fail_memory(err, "HTTP client", sizeof easy);
        return NULL;
    }
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "quern-bench/" QUERN_VERSION);
    bring_key(easy);
    return easy;
}

struct curl_slist *qn_serve_headers_new(qn_error *err)
{
    /* without "Expect: 100-continue", which would hold a long prompt back for up to a second */
    static const char *const lines[] = {"Content-Type: application/json", "Accept: text/event-stream", "Expect:"};
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct curl_slist *longer = curl_slist_append(list, lines[i]);
        if (!longer) {
            curl_slist_free_all(list);
            qn_fail_memory(err, "HTTP headers", strlen(lines[i]));
            return NULL;
        }
        list = longer;
    }
    return list;
}

qn_status qn_serve_http_error(long http, const qn_buffer *body, qn_error *err)
{
    json_t *root = NULL;
    const char *message = NULL;
    if (qn_json_parse(qn_buffer_string(body), body->size, "error", &root, err) == QN_OK)
        message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));
    qn_status status = qn_fail(err, QN_FAILED, "server: HTTP %ld: %.*s", http, SHOWN_BYTES,
                               message ? message : qn_buffer_string(body));
    json_decref(root);
    return status;
}

/* ---- the server and its model ---- */

static qn_status set_url(const char *base_url, qn_serve_target *out, qn_error *err)
{
    static const char version[] = "/v1";
    size_t bytes = strlen(base_url);
    while (bytes > 0 && base_url[bytes - 1] == '/')
        bytes--;
    if (bytes >= sizeof version - 1 &&
        memcmp(base_url + bytes - (sizeof version - 1), version, sizeof version - 1) == 0)
        bytes -= sizeof version - 1;
    if (strncmp(base_url, "http://", 7) != 0 && strncmp(base_url, "https://", 8) != 0)
        return qn_fail_field(err, QN_USAGE, "base-url",
                             "--base-url: '%.200s' is no HTTP address: give one like http://127.0.0.1:8000", base_url);
    if (bytes + sizeof version > sizeof out->url)
        return qn_fail_field(err, QN_USAGE, "base-url", "--base-url: longer than %zu bytes: give a shorter one",
                             sizeof out->url - sizeof version);
    snprintf(out->url, sizeof out->url, "%.*s%s", (int)bytes, base_url, version);
    return QN_OK;
}

static size_t keep(char *bytes, size_t size, size_t count, void *context)
{
    qn_buffer *body = context;
    qn_buffer_append(body, bytes, size * count);
    return body->failed ? CURL_WRITEFUNC_ERROR : size * count;
}

static qn_status get_models(const qn_serve_target *target, qn_buffer *body, qn_error *err)
{
    char url[QN_SERVE_URL_BYTES + 32], reason[CURL_ERROR_SIZE] = "";
    CURL *easy = qn_serve_easy_new(err);
    if (!easy)
        return err->status;
    snprintf(url, sizeof url, "%s/models", target->url);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, keep);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)MODELS_S);
    CURLcode code = curl_easy_perform(easy);
    long http = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http);
    curl_easy_cleanup(easy);
    if (code != CURLE_OK)
        return qn_fail(err, QN_RESOURCE, "%s: %s: is the server running there?", url,
                       reason[0] ? reason : curl_easy_strerror(code));
    if (http == 200)
        return QN_OK;
    qn_serve_http_error(http, body, err);
    err->status = QN_BAD_INPUT;
    return qn_error_prefix(err, "%s", url);
}

static qn_status read_model(const qn_buffer *body, qn_serve_target *out, qn_error *err)
{
    json_t *root = NULL;
    qn_status status = qn_json_parse(qn_buffer_string(body), body->size, "/v1/models", &root, err);
    if (status == QN_OK) {
        const char *id = json_string_value(json_object_get(json_array_get(json_object_get(root, "data"), 0), "id"));
        int length = id ? snprintf(out->model, sizeof out->model, "%s", id) : 0;
        if (length <= 0 || (size_t)length >= sizeof out->model)
            status = qn_fail(err, QN_BAD_INPUT, "/v1/models: it lists no model: name one with --model");
    }
    json_decref(root);
    return status;
}

qn_status qn_serve_target_open(const char *base_url, const char *model, double patience_s, qn_serve_target *out,
                               qn_error *err)
{
    *out = (qn_serve_target){.patience_s = patience_s};
    qn_status status = set_url(base_url, out, err);
    if (status != QN_OK)
        return status;
    if (model) {
        int length = snprintf(out->model, sizeof out->model, "%s", model);
        if (length <= 0 || (size_t)length >= sizeof out->model || !qn_utf8_valid(model, (size_t)length))
            return qn_fail_field(err, QN_USAGE, "model", "--model: give 1 to %zu bytes of UTF-8",
                                 sizeof out->model - 1);
        return QN_OK;
    }
    qn_buffer body = {.limit = MODELS_BYTES};
    status = get_models(out, &body, err);
    if (status == QN_OK)
        status = read_model(&body, out, err);
    qn_buffer_free(&body);
    return status;
}
