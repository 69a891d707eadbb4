#include "server/admission.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "server/server_internal.h"

const char *qn_bearer_token(const char *authorization)
{
    static const char scheme[] = "bearer";
    size_t length = strlen(scheme);
    if (strncasecmp(authorization, scheme, length) != 0 || authorization[length] != ' ') {
        return NULL;
    }
    return authorization + length + strspn(authorization + length, " ");
}

static long find_key(const qn_api_keys *keys, const char *text)
{
    return text != NULL ? qn_api_keys_find(keys, text, strlen(text)) : QN_API_KEY_NONE;
}

/* Clients may send both headers, and one of them for somebody else. */
static long key_of(const qn_api_keys *keys, const qn_http_exchange *exchange)
{
    const char *authorization = qn_http_header(exchange, "Authorization");
    long found = find_key(keys, authorization != NULL ? qn_bearer_token(authorization) : NULL);
    return found != QN_API_KEY_NONE ? found : find_key(keys, qn_http_header(exchange, "x-api-key"));
}

static bool refuse_key(const qn_http_request *head, qn_http_reply *reply)
{
    bool has_any = qn_http_header(head->exchange, "Authorization") != NULL ||
                   qn_http_header(head->exchange, "x-api-key") != NULL;
    qn_error err;
    qn_fail(&err, QN_USAGE, "API key: %s: send one of the server's as Authorization: Bearer KEY, or as x-api-key: KEY",
            has_any ? "not one of the server's" : "missing");
    qn_reply_path_error(reply, head->path, (qn_api_error){.status = 401, .code = "invalid_api_key"}, &err);
    reply->asks_for_key = true;
    return false;
}

static bool refuse_rate(const qn_http_request *head, unsigned wait_s, qn_http_reply *reply)
{
    qn_error err;
    qn_fail(&err, QN_USAGE, "requests: more than this client may send in a minute: send it again in %u s", wait_s);
    qn_reply_path_error(reply, head->path, (qn_api_error){.status = 429, .code = "rate_limit_exceeded"}, &err);
    reply->retry_after_s = wait_s;
    return false;
}

long qn_admission_client_key(const qn_admission *admission, const qn_http_exchange *exchange)
{
    return admission->keys != NULL ? key_of(admission->keys, exchange) : QN_API_KEY_NONE;
}

bool qn_admission_check(const qn_admission *admission, const qn_http_request *head, qn_http_reply *reply)
{
    long key = qn_admission_client_key(admission, head->exchange);
    if (admission->keys != NULL && key == QN_API_KEY_NONE) {
        return refuse_key(head, reply);
    }
    if (admission->rate == NULL) {
        return true;
    }
    uint64_t client = admission->keys != NULL ? (uint64_t)key : qn_http_client(head->exchange);
    unsigned wait_s = qn_rate_limit_take(admission->rate, client, qn_now_us());
    return wait_s == 0 || refuse_rate(head, wait_s, reply);
}
