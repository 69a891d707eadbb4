/* The public header over the engine: translates types, and fills in what the checkpoint asks for. */
#include <quern/quern.h>

#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "engine/engine.h"

struct qn_quern {
    qn_engine *engine;
};

/* A request on its way through the engine. */
typedef struct call {
    qn_quern_on_text on_text;
    void *context;
} call;

static int report(const qn_error *err, qn_quern_error *error)
{
    error->status = (int)err->status;
    memcpy(error->message, err->message, sizeof err->message);
    return error->status;
}

_Static_assert(sizeof((qn_quern_error *)0)->message >= QN_ERROR_MESSAGE_BYTES, "a message fits");

const char *qn_quern_version(void)
{
    return QUERN_VERSION;
}

void qn_quern_set_log(void (*sink)(void *context, const char *line), void *context)
{
    qn_log_set_sink(sink, context);
}

qn_quern *qn_quern_open(const char *model_dir, const qn_quern_options *options, qn_quern_error *error)
{
    static const qn_quern_options defaults = {0};
    qn_error err;
    options = options != NULL ? options : &defaults;
    qn_quern *quern = qn_alloc_zero(1, sizeof *quern);
    if (quern == NULL) {
        qn_fail_memory(&err, "quern", sizeof *quern);
        report(&err, error);
        return NULL;
    }
    const qn_engine_options engine = {.model_dir = model_dir,
                                      .chat_template = options->chat_template,
                                      .threads = options->threads,
                                      .max_model_len = options->max_model_len,
                                      .max_num_seqs = options->max_num_seqs,
                                      .prefix_caching = true,
                                      .num_speculative_tokens = options->num_speculative_tokens};
    if (qn_engine_open(&engine, &quern->engine, &err) != QN_OK) {
        report(&err, error);
        qn_free(quern);
        return NULL;
    }
    error->status = 0;
    error->message[0] = '\0';
    return quern;
}

void qn_quern_close(qn_quern *quern)
{
    if (quern != NULL) {
        qn_engine_close(quern->engine);
        qn_free(quern);
    }
}

static qn_status add_message(json_t *messages, const char *role, const char *text, qn_error *err)
{
    if (text != NULL && json_array_append_new(messages, json_pack("{s:s, s:s}", "role", role, "content", text)) != 0) {
        return qn_fail(err, QN_USAGE, "%s message: it is not valid UTF-8, or memory ran out", role);
    }
    return QN_OK;
}

static qn_status read_messages(const qn_quern_request *request, json_t **out, qn_error *err)
{
    if (request->messages != NULL) {
        qn_status status = qn_json_parse(request->messages, strlen(request->messages), "messages", out, err);
        if (status == QN_BAD_INPUT) {
            err->status = status = QN_USAGE;
        }
        return status;
    }
    *out = json_array();
    if (*out == NULL) {
        return qn_fail_memory(err, "messages", sizeof(json_t));
    }
    qn_status status = add_message(*out, "system", request->system, err);
    return status == QN_OK ? add_message(*out, "user", request->prompt, err) : status;
}

static qn_status make_prompt(qn_engine *engine, const qn_quern_request *request, qn_tokens *out, qn_error *err)
{
    if ((request->prompt == NULL) == (request->messages == NULL) ||
        (request->system != NULL && request->prompt == NULL) ||
        (request->raw && (request->prompt == NULL || request->system != NULL))) {
        return qn_fail(err, QN_USAGE, "request: give a prompt (raw: and nothing else), or messages");
    }
    if (request->raw) {
        return qn_tokenizer_encode(qn_engine_tokenizer(engine), request->prompt, strlen(request->prompt), NULL, 0, out,
                                   err);
    }
    json_t *messages = NULL;
    qn_status status = read_messages(request, &messages, err);
    if (status == QN_OK) {
        status = qn_engine_chat_prompt(engine, messages, NULL, NULL, out, err);
    }
    json_decref(messages);
    return status;
}

static qn_sampling choose_sampling(const qn_engine *engine, const qn_quern_request *request)
{
    qn_sampling sampling = qn_engine_default_sampling(engine);
    if (!(request->temperature < 0.0)) {
        sampling.temperature = (float)request->temperature;
    }
    if (!(request->top_p <= 0.0)) {
        sampling.top_p = (float)request->top_p;
    }
    if (!(request->min_p < 0.0)) {
        sampling.min_p = (float)request->min_p;
    }
    if (request->top_k >= 0) {
        sampling.top_k = request->top_k;
    }
    sampling.seed = request->has_seed ? request->seed : qn_random_told_seed();
    return sampling;
}

static bool pass_text(void *context, const qn_output_event *output)
{
    const call *c = context;
    qn_quern_channel channel = output->kind == QN_OUTPUT_REASONING ? QN_QUERN_REASONING : QN_QUERN_CONTENT;
    return c->on_text == NULL || c->on_text(c->context, channel, output->text, output->bytes);
}

static qn_quern_finish finish_of(qn_finish finish)
{
    switch (finish) {
    case QN_FINISH_LENGTH:
        return QN_QUERN_LENGTH;
    case QN_FINISH_CANCELLED:
        return QN_QUERN_CANCELLED;
    case QN_FINISH_STOP:
    case QN_FINISH_REPETITION: /* the C API has no guard */
        break;
    }
    return QN_QUERN_STOP;
}

static qn_status generate(qn_engine *engine, const qn_quern_request *asked, const qn_tokens *prompt, call *c,
                          qn_quern_result *out, qn_error *err)
{
    const qn_request request = {.prompt_ids = prompt->ids,
                                .prompt_count = prompt->count,
                                .sampling = choose_sampling(engine, asked),
                                .max_tokens = asked->max_tokens,
                                .stop = asked->stop,
                                .stop_count = asked->stop_count,
                                .raw_text = asked->raw,
                                .in_reasoning = qn_engine_opens_reasoning(engine, prompt->ids, prompt->count)};
    const qn_listener listener = {.context = c, .on_output = pass_text};
    qn_result result;
    qn_status status = qn_engine_generate(engine, &request, &listener, &result, err);
    if (status == QN_OK && out != NULL) {
        *out = (qn_quern_result){.finish = finish_of(result.finish),
                                 .prompt_tokens = result.prompt_tokens,
                                 .completion_tokens = result.completion_tokens,
                                 .reasoning_tokens = result.reasoning_tokens,
                                 .drafts_proposed = result.timings.drafts_proposed,
                                 .drafts_accepted = result.timings.drafts_accepted,
                                 .seed = request.sampling.seed,
                                 .prefill_us = result.timings.prefill_us,
                                 .decode_us = result.timings.decode_us};
    }
    if (status == QN_OK) {
        qn_result_free(&result);
    }
    return status;
}

int qn_quern_generate(qn_quern *quern, const qn_quern_request *request, qn_quern_on_text on_text, void *context,
                      qn_quern_result *result, qn_quern_error *error)
{
    qn_error err;
    qn_tokens prompt = {0};
    call c = {.on_text = on_text, .context = context};
    qn_status status = make_prompt(quern->engine, request, &prompt, &err);
    if (status == QN_OK) {
        status = generate(quern->engine, request, &prompt, &c, result, &err);
    }
    qn_tokens_free(&prompt);
    if (status != QN_OK) {
        return report(&err, error);
    }
    error->status = 0;
    error->message[0] = '\0';
    return 0;
}
