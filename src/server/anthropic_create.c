/* POST /v1/messages: a message, streamed or not. */
#include "base/memory.h"
#include "base/size.h"
#include "server/anthropic_endpoints.h"
#include "server/anthropic_error.h"
#include "server/anthropic_response.h"
#include "server/generate.h"
#include "server/sse.h"

static void body(void *writer, const qn_answer *answer, qn_buffer *out)
{
    qn_answer_choice choice = qn_answer_choice_at(answer, 0);
    qn_anthropic_write_message(writer, choice.parts, choice.part_count, &choice.result, out);
}

static void begin(void *writer, const qn_answer *answer, qn_buffer *out)
{
    (void)answer;
    qn_anthropic_write_start(writer, out);
}

static void news(void *writer, const qn_answer *answer, const qn_answer_choice *choice, qn_buffer *out)
{
    (void)answer;
    for (size_t i = 0; i < choice->part_count; i++) {
        qn_anthropic_write_part(writer, &choice->parts[i], out);
    }
    if (choice->over) {
        qn_anthropic_write_end(writer, &choice->result, out);
    }
}

static void end(void *writer, const qn_answer *answer, qn_buffer *out)
{
    (void)writer, (void)answer, (void)out; /* the news of the only choice's end were all */
}

static void fail(void *writer, const qn_api_error *error, const qn_error *err, qn_buffer *out)
{
    (void)writer;
    qn_sse_open(out, "error");
    qn_anthropic_error_write(error, err, out);
    qn_sse_close(out);
}

static void idle(void *writer, qn_buffer *out)
{
    (void)writer;
    qn_anthropic_write_ping(out);
}

static const qn_answer_api api = {
    .write_error = qn_anthropic_error_write,
    .body = body,
    .begin = begin,
    .news = news,
    .end = end,
    .fail = fail,
    .idle = idle,
    .free = qn_free,
};

/* Clients must say max_tokens and say one number for all prompts: more than the context has left is no mistake. The
 * sentence about the prompt begins as Anthropic's does, by which agents know that they have to shorten it. */
static qn_status fit_context(const qn_server *server, size_t prompt_count, qn_generation_fields *fields, bool *cut,
                             qn_error *err)
{
    size_t most = qn_engine_max_model_len(server->engine);
    if (prompt_count >= most) {
        return qn_fail_field(err, QN_USAGE, "messages",
                             "prompt is too long: %zu tokens > %zu maximum: send a shorter one", prompt_count,
                             most - 1);
    }
    size_t room = most - prompt_count;
    *cut = fields->max_tokens > room;
    fields->max_tokens = qn_min_size(fields->max_tokens, room);
    return QN_OK;
}

static qn_status new_writer(const qn_server *server, const qn_anthropic_request *r, const char *request_id,
                            size_t prompt_tokens, bool cut, void **out, qn_error *err)
{
    qn_anthropic_message *message = qn_alloc_zero(1, sizeof *message);
    if (message == NULL) {
        return qn_fail_memory(err, "request", sizeof *message);
    }
    *message = (qn_anthropic_message){.model = server->options.model_names[0],
                                      .prompt_details = server->options.prompt_details,
                                      .cut_by_context = cut,
                                      .hides_thoughts = r->hides_thoughts,
                                      .prompt_tokens = prompt_tokens};
    qn_anthropic_message_start(message, request_id);
    *out = message;
    return QN_OK;
}

static qn_status start_answer(qn_server *server, qn_anthropic_request *r, const char *request_id,
                              const qn_tokens *prompt, qn_answer **out, qn_error *err)
{
    bool cut = false;
    qn_status status = fit_context(server, prompt->count, &r->generation, &cut, err);
    if (status != QN_OK) {
        return status;
    }
    void *writer = NULL;
    status = new_writer(server, r, request_id, prompt->count, cut, &writer, err);
    return status == QN_OK
               ? qn_generate_answer(
                     server, &api, writer, &r->tools, &r->form.format,
                     (qn_answer_options){.generation = &r->generation, .logprobs = -1, .mid_text = r->prefill}, prompt,
                     1, out, err)
               : status;
}

static qn_status start(qn_server *server, const qn_http_request *request, qn_answer **out, bool *stream,
                       qn_api_error *error, qn_error *err)
{
    qn_anthropic_request parsed;
    qn_tokens prompt = {0};
    qn_status status = qn_anthropic_prompt(server, request, false, &parsed, &prompt, error, err);
    if (status == QN_OK) {
        *stream = parsed.stream;
        status = start_answer(server, &parsed, qn_http_request_id(request->exchange), &prompt, out, err);
        qn_anthropic_request_free(&parsed);
    }
    qn_tokens_free(&prompt);
    return status;
}

void qn_handle_messages(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    static const qn_endpoint endpoint = {.api = &api, .start = start};
    qn_generate(context, &endpoint, request, reply);
}
