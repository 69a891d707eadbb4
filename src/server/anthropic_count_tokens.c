/* POST /v1/messages/count_tokens: how many tokens a request's prompt has. */
#include "base/log.h"
#include "server/anthropic_endpoints.h"
#include "server/anthropic_error.h"
#include "server/request_body.h"

static void reply_error(qn_http_reply *reply, qn_api_error error, const qn_error *err)
{
    if (error.status == 0) {
        error = qn_api_error_of(err);
    }
    if (error.status == 500) {
        qn_log_error(err);
    }
    qn_reply_error_as(reply, qn_anthropic_error_write, error, err);
}

void qn_handle_count_tokens(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    qn_anthropic_request parsed;
    qn_tokens prompt = {0};
    qn_api_error error = {0};
    qn_error err;
    size_t memory = qn_budget_take(&server->body_memory, qn_request_body_cost(request->body, request->body_bytes));
    qn_status status = qn_anthropic_prompt(server, request, true, &parsed, &prompt, &error, &err);
    if (status == QN_OK) {
        qn_anthropic_request_free(&parsed);
        reply->status = 200;
        reply->content_type = "application/json";
        qn_buffer_format(&reply->body, "{\"input_tokens\":%zu}", prompt.count);
    } else {
        reply_error(reply, error, &err);
    }
    qn_tokens_free(&prompt);
    qn_budget_give(&server->body_memory, memory);
}
