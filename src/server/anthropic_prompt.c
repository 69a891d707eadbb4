#include "server/anthropic_endpoints.h"
#include "server/generate.h"

static void report(qn_server *server, const qn_anthropic_request *r)
{
    qn_server_report_fields(server, "", &r->unknown);
    qn_server_report_fields(server, "messages[].", &r->unknown_message);
    qn_server_report_fields(server, "tools[].", &r->unknown_tool);
    qn_server_report_unread(server, r->kwargs.values);
    qn_generate_report(server, &r->generation);
}

qn_status qn_anthropic_prompt(qn_server *server, const qn_http_request *request, bool counting,
                              qn_anthropic_request *out, qn_tokens *prompt, qn_api_error *error, qn_error *err)
{
    const qn_chat_defaults defaults = {.limits = qn_generate_limits(server), .kwargs = server->options.template_kwargs};
    qn_status status = qn_anthropic_request_parse(request->body, request->body_bytes, counting, &defaults, out, err);
    if (status != QN_OK) {
        return status;
    }
    report(server, out);
    status = qn_generate_name_request(request, out->generation.request_id, err);
    if (status == QN_OK) {
        status = qn_generate_check_model(server, out->model, error, err);
    }
    if (status == QN_OK) {
        status = qn_engine_chat_prompt_ending(server->engine, out->messages, qn_tool_choice_shown(&out->tools),
                                              out->kwargs.values,
                                              out->prefill ? QN_PROMPT_CONTINUES : QN_PROMPT_OPENS_MESSAGE, prompt,
                                              err);
    }
    if (status != QN_OK) {
        qn_anthropic_request_free(out);
    }
    return status;
}
