/* From a request to streams: each choice becomes a request of the engine's, held to its form. */
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/size.h"
#include "server/answer_internal.h"

/* Of a prompt, among which thoughts may have been closed: white space follows. */
enum { LAST_TOKENS = 3 };

/* Stop strings back to back with NULs, so that one block holds them. */
static qn_status copy_stop(qn_answer *answer, const qn_generation_fields *fields, qn_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < fields->stop_count; i++) {
        bytes += strlen(fields->stop[i]) + 1;
    }
    answer->stop_text = qn_alloc(bytes, 1);
    if (answer->stop_text == NULL) {
        return qn_fail_memory(err, "stop", bytes);
    }
    char *at = answer->stop_text;
    for (size_t i = 0; i < fields->stop_count; i++) {
        size_t length = strlen(fields->stop[i]) + 1;
        memcpy(at, fields->stop[i], length);
        answer->stop[i] = at;
        at += length;
    }
    return QN_OK;
}

/* The sooner of the request's own deadline and the server's; 0: none. */
static uint64_t timeout_of(const qn_server *server, const qn_generation_fields *fields)
{
    uint64_t own = fields->timeout_us, given = server->options.request_timeout_us;
    return own == 0 || (given > 0 && given < own) ? given : own;
}

static qn_request request_of(const qn_answer *answer, const qn_answer_options *options)
{
    const qn_generation_fields *fields = options->generation;
    qn_request request = {
        .sampling = fields->sampling,
        .max_tokens = fields->max_tokens,
        .min_tokens = fields->min_tokens,
        .stop_token_ids = fields->stop_token_ids,
        .stop_token_count = fields->stop_token_count,
        .ignore_eos = fields->ignore_eos,
        .priority = fields->priority,
        .timeout_us = timeout_of(answer->server, fields),
        .cache_salt = fields->cache_salt,
        .has_logprobs = options->logprobs >= 0,
        .logprobs = options->logprobs >= 0 ? (size_t)options->logprobs : 0,
        .stop = answer->stop,
        .stop_count = fields->stop_count,
        .raw_text = options->raw_text,
        .mid_text = options->mid_text,
        .tools = options->tools,
    };
    if (options->prompt_only) {
        request.max_tokens = 1;
        request.min_tokens = 0;
    }
    if (!fields->seed_given) {
        request.sampling.seed = qn_random_told_seed();
    }
    return request;
}

/* Does the answer to this prompt begin in its thoughts, behind them, or as the model likes? A form that is asked of raw
 * text is that of all of it. */
static qn_thoughts thoughts_of(const qn_answer *answer, const qn_answer_options *options, const qn_tokens *prompt)
{
    const int32_t think_end = qn_tokenizer_find_added(qn_answer_tokenizer(answer), "</think>");
    if (options->mid_text || (options->raw_text && answer->grammar != NULL)) {
        return QN_THOUGHTS_NONE;
    }
    if (qn_engine_opens_reasoning(answer->server->engine, prompt->ids, prompt->count)) {
        return QN_THOUGHTS_OPEN;
    }
    for (size_t i = 0; i < LAST_TOKENS && i < prompt->count; i++) {
        if (prompt->ids[prompt->count - 1 - i] == think_end) {
            return QN_THOUGHTS_NONE;
        }
    }
    return QN_THOUGHTS_OPTIONAL;
}

static bool is_constrained(const qn_answer *answer, const qn_answer_options *options)
{
    return answer->grammar != NULL || options->generation->has_thinking_budget;
}

/* What the choices of a prompt are held to, where they are. */
static qn_constraint_options constraint_of(const qn_answer *answer, const qn_answer_options *options,
                                           const qn_tokens *prompt)
{
    const qn_engine *engine = answer->server->engine;
    qn_constraint_options held = {.tokenizer = qn_answer_tokenizer(answer),
                                  .vocab_size = qn_engine_config(engine)->vocab_size,
                                  .thought_mask = answer->server->thought_mask,
                                  .thoughts = thoughts_of(answer, options, prompt),
                                  .has_budget = options->generation->has_thinking_budget,
                                  .budget = options->generation->thinking_budget};
    held.eos = qn_engine_eos(engine, &held.eos_count);
    if (answer->grammar != NULL) {
        held.grammar = qn_answer_grammar_of(answer->grammar);
        held.cache = qn_answer_grammar_masks(answer->grammar);
        /* it ends where its form does, without a token */
        held.eos_count = options->generation->ignore_eos ? 0 : held.eos_count;
    }
    return held;
}

static qn_status open_choice(qn_answer *answer, size_t index, qn_request request, const qn_constraint_options *held,
                             qn_error *err)
{
    qn_choice_state *c = &answer->choices[index];
    request.sampling.choice = (uint32_t)(index % answer->choices_each);
    if (request.sampling.choice == 0 && answer->prompt_logprobs >= 0) { /* the same for all: the first tells them */
        request.has_prompt_logprobs = true;
        request.prompt_logprobs = (size_t)answer->prompt_logprobs;
    }
    qn_status status = QN_OK;
    if (held != NULL) {
        status = qn_constraint_new(held, &c->constraint, err);
        request.mask = (qn_token_mask){.context = c->constraint, .fill = qn_constraint_fill};
    }
    return status == QN_OK ? qn_stream_open(answer->server->engine, &request, &c->stream, err) : status;
}

/* The choices of one prompt. */
static qn_status open_prompt(qn_answer *answer, size_t which, const qn_answer_options *options, qn_request request,
                             const qn_tokens *prompt, qn_error *err)
{
    const qn_engine *engine = answer->server->engine;
    request.prompt_ids = prompt->ids;
    request.prompt_count = prompt->count;
    if (answer->at_most > 0) {
        request.max_tokens = qn_min_size(answer->at_most, qn_engine_max_model_len(engine) - prompt->count);
    }
    request.in_reasoning = !request.raw_text && qn_engine_opens_reasoning(engine, prompt->ids, prompt->count);
    bool constrained = is_constrained(answer, options);
    qn_constraint_options held = constrained ? constraint_of(answer, options, prompt) : (qn_constraint_options){0};
    qn_status status = QN_OK;
    for (size_t i = 0; i < answer->choices_each && status == QN_OK; i++) {
        status = open_choice(answer, which * answer->choices_each + i, request, constrained ? &held : NULL, err);
    }
    return status;
}

static qn_status make_room(qn_answer *answer, const qn_answer_options *options, const qn_tokens *prompts,
                           size_t prompt_count, qn_error *err)
{
    answer->choices_each = options->generation->n;
    size_t count = prompt_count * answer->choices_each;
    answer->choices = qn_alloc_zero(count, sizeof *answer->choices);
    answer->prompts = qn_alloc_zero(prompt_count, sizeof *answer->prompts);
    if (answer->choices == NULL || answer->prompts == NULL) {
        return qn_fail_memory(err, "choices", count * sizeof *answer->choices);
    }
    answer->count = count;
    answer->prompt_count = prompt_count;
    for (size_t i = 0; options->keep_prompts && i < prompt_count; i++) {
        if (!qn_tokens_append(&answer->prompts[i], prompts[i].ids, prompts[i].count)) {
            return qn_fail_memory(err, "prompt", prompts[i].count * sizeof *prompts[i].ids);
        }
    }
    return copy_stop(answer, options->generation, err);
}

static qn_status submit(qn_answer *answer, const qn_answer_options *options, const qn_tokens *prompts,
                        size_t prompt_count, qn_error *err)
{
    qn_status status = make_room(answer, options, prompts, prompt_count, err);
    if (status != QN_OK) {
        return status;
    }
    qn_request request = request_of(answer, options);
    answer->seed = (int64_t)request.sampling.seed;
    answer->totals.seed = answer->seed;
    const qn_request_log *log = &answer->server->options.request_log;
    if (log->requests) {
        qn_request_log_describe(log, qn_answer_tokenizer(answer), &request, prompts, prompt_count, answer->choices_each,
                                &answer->description);
    }
    for (size_t i = 0; i < prompt_count && status == QN_OK; i++) {
        status = open_prompt(answer, i, options, request, &prompts[i], err);
    }
    return status;
}

qn_status qn_answer_start(qn_server *server, const qn_answer_api *api, void *writer, const qn_answer_options *options,
                          const qn_tokens *prompts, size_t prompt_count, qn_answer **out, qn_error *err)
{
    qn_answer *answer = qn_alloc_zero(1, sizeof *answer);
    if (answer == NULL) {
        api->free(writer);
        qn_tool_list_free(options->tools);
        return qn_fail_memory(err, "request", sizeof *answer);
    }
    answer->server = server;
    answer->api = api;
    answer->writer = writer;
    answer->tools = options->tools;
    answer->logprobs = options->logprobs;
    answer->prompt_logprobs = options->generation->prompt_logprobs;
    answer->prompt_only = options->prompt_only;
    answer->form_field = options->form_field;
    answer->grammar = options->grammar != NULL ? qn_answer_grammar_share(options->grammar) : NULL;
    answer->at_most = options->generation->max_tokens == 0 && !options->prompt_only ? options->at_most : 0;
    qn_status status = submit(answer, options, prompts, prompt_count, err);
    if (status != QN_OK) {
        qn_answer_free(answer);
        return status;
    }
    *out = answer;
    return QN_OK;
}
