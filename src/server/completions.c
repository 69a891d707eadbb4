/* POST /v1/completions. */
#include "base/memory.h"
#include "server/completion_writer.h"
#include "server/generate.h"
#include "server/openai_completion.h"
#include "server/tool_choice.h"

static qn_status start_answer(qn_server *server, const qn_completion_request *completion, const char *request_id,
                              const qn_tokens *prompts, qn_answer **out, qn_error *err)
{
    const qn_generation_fields *generation = &completion->generation;
    const qn_answer_options options = {
        .generation = generation,
        .logprobs = completion->logprobs,
        .keep_prompts = completion->echo || completion->return_token_ids,
        .raw_text = true,
        .at_most = QN_COMPLETION_DEFAULT_MAX_TOKENS,
        .prompt_only = generation->max_tokens_field != NULL && generation->max_tokens == 0,
    };
    void *writer = NULL;
    qn_status status = qn_completion_writer_new(server, completion, request_id, &writer, err);
    return status == QN_OK
               ? qn_generate_answer(server, &qn_completion_api, writer, &(qn_tool_choice){0}, &completion->form.format,
                                    options, prompts, completion->prompt_count, out, err)
               : status;
}

static qn_status start_prompts(qn_server *server, const qn_completion_request *completion, const char *request_id,
                               qn_tokens *prompts, qn_answer **out, qn_api_error *error, qn_error *err)
{
    qn_status status = qn_completion_prompts(completion, qn_engine_tokenizer(server->engine), prompts, err);
    for (size_t i = 0; i < completion->prompt_count && status == QN_OK; i++) {
        status = qn_generate_check_length(server, prompts[i].count, "prompt", &completion->generation, error, err);
    }
    return status == QN_OK ? start_answer(server, completion, request_id, prompts, out, err) : status;
}

static qn_status start_parsed(qn_server *server, const qn_completion_request *completion, const char *request_id,
                              qn_answer **out, qn_api_error *error, qn_error *err)
{
    qn_status status = qn_generate_check_model(server, completion->model, error, err);
    if (status != QN_OK) {
        return status;
    }
    qn_tokens *prompts = qn_alloc_zero(completion->prompt_count, sizeof *prompts);
    if (prompts == NULL) {
        return qn_fail_memory(err, "prompts", completion->prompt_count * sizeof *prompts);
    }
    status = start_prompts(server, completion, request_id, prompts, out, error, err);
    for (size_t i = 0; i < completion->prompt_count; i++) {
        qn_tokens_free(&prompts[i]);
    }
    qn_free(prompts);
    return status;
}

static qn_status start(qn_server *server, const qn_http_request *request, qn_answer **out, bool *stream,
                       qn_api_error *error, qn_error *err)
{
    const qn_generation_limits limits = qn_generate_limits(server);
    qn_completion_request completion;
    qn_status status = qn_completion_request_parse(request->body, request->body_bytes, &limits, &completion, err);
    if (status != QN_OK) {
        return status;
    }
    qn_server_report_fields(server, "", &completion.unknown);
    qn_generate_report(server, &completion.generation);
    *stream = completion.streaming.stream;
    status = qn_generate_name_request(request, completion.generation.request_id, err);
    if (status == QN_OK) {
        status = start_parsed(server, &completion, qn_http_request_id(request->exchange), out, error, err);
    }
    qn_completion_request_free(&completion);
    return status;
}

void qn_handle_completions(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    static const qn_endpoint endpoint = {.api = &qn_completion_api, .start = start};
    qn_generate(context, &endpoint, request, reply);
}
