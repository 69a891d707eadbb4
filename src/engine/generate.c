/* One request, from prompt to end.
 *
 * The prompt runs in chunks of max_rows. Then each step makes drafts, computes the last token and all drafts in one
 * call of the model, samples the target's token at each row, and accepts while the draft equals it: what comes out is
 * what the target alone would have said, whatever was drafted. The MTP layer's entries for the positions of a call are
 * written at the start of the next step (`pending`), when all the tokens behind them are known. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/finite.h"
#include "base/memory.h"
#include "base/progress.h"
#include "engine/engine_internal.h"

enum { DRAFTS_BEFORE_WARNING = 400, WARN_BELOW_ONE_IN = 50 };

typedef struct generation {
    qn_engine *engine;
    const qn_request *request;
    const qn_listener *listener;
    qn_result *result;
    qn_output_stream *text;              /* NULL: the engine has no tokenizer */
    size_t length;                       /* tokens of the sequence: engine->tokens[0 .. length) */
    size_t limit;                        /* length never passes it */
    size_t pending_start, pending_count; /* positions whose MTP entries are not written; hidden is in engine->hidden */
    bool finished;
} generation;

static void finish(generation *g, qn_finish why)
{
    g->result->finish = why;
    g->finished = true;
}

static bool is_eos(const qn_engine *engine, int32_t token)
{
    for (size_t i = 0; i < engine->generation.eos_count; i++) {
        if (engine->generation.eos_token_id[i] == token) {
            return true;
        }
    }
    return false;
}

/* The token at `length` is decided: counts it, shows its text, and sees whether the answer ends with it. */
static qn_status take_token(generation *g, qn_error *err)
{
    int32_t token = g->engine->tokens[g->length++];
    g->result->completion_tokens++;
    if (!g->request->ignore_eos && is_eos(g->engine, token)) {
        finish(g, QN_FINISH_STOP);
        return QN_OK;
    }
    if (g->text != NULL) {
        qn_status status = qn_output_stream_feed(g->text, token, err);
        if (status != QN_OK) {
            return status;
        }
        int stopped = qn_output_stream_stopped(g->text);
        if (stopped >= 0) {
            g->result->stop_matched = g->request->stop[stopped];
            finish(g, QN_FINISH_STOP);
            return QN_OK;
        }
    }
    if (g->length == g->limit) {
        finish(g, QN_FINISH_LENGTH);
    }
    return QN_OK;
}

static void tell_channel(generation *g, qn_channel channel)
{
    const qn_buffer *text = qn_output_stream_text(g->text, channel);
    if (text->size == 0 || g->listener->on_output == NULL || g->result->finish == QN_FINISH_CANCELLED) {
        return;
    }
    const qn_output output = {.channel = channel,
                              .text = text->data,
                              .bytes = text->size,
                              .reasoning_tokens = qn_output_stream_reasoning_tokens(g->text)};
    if (!g->listener->on_output(g->listener->context, &output)) {
        finish(g, QN_FINISH_CANCELLED);
    }
}

/* Hands out the text of a step; at the end of the answer, what was held back too. */
static qn_status tell_text(generation *g, qn_error *err)
{
    if (g->text == NULL) {
        return QN_OK;
    }
    if (g->finished && g->result->finish != QN_FINISH_CANCELLED) {
        qn_status status = qn_output_stream_finish(g->text, err);
        if (status != QN_OK) {
            return status;
        }
    }
    tell_channel(g, QN_CHANNEL_REASONING);
    tell_channel(g, QN_CHANNEL_CONTENT);
    qn_output_stream_clear(g->text);
    g->result->reasoning_tokens = qn_output_stream_reasoning_tokens(g->text);
    return QN_OK;
}

/* Positions start .. start + count - 1 of engine->tokens through the model, into engine->hidden. */
static qn_status forward(generation *g, size_t start, size_t count, qn_error *err)
{
    qn_engine *engine = g->engine;
    qn_status status = qn_kv_sequence_reserve(&engine->sequence, start + count, err);
    if (status != QN_OK) {
        return status;
    }
    const qn_segment segment = {
        .sequence = &engine->sequence, .ids = engine->tokens + start, .start = start, .count = count};
    return qn_model_forward(engine->model, &segment, 1, engine->hidden, NULL, err);
}

/* Logits of rows first .. first + count - 1 of engine->hidden, whose first row is at `position`. */
static qn_status compute_logits(generation *g, size_t first, size_t count, size_t position, qn_error *err)
{
    qn_engine *engine = g->engine;
    for (size_t i = 0; i < count; i++) {
        engine->hidden_rows[i] = engine->hidden + (first + i) * engine->config->hidden_size;
    }
    qn_model_logits(engine->model, engine->hidden_rows, count, engine->logit_rows);
    for (size_t i = 0; i < count; i++) {
        if (!qn_all_finite(engine->logit_rows[i], engine->config->vocab_size)) {
            return qn_fail(err, QN_FAILED,
                           "logits: a value is not finite at position %zu: the checkpoint's lm_head is damaged",
                           position + i);
        }
    }
    return QN_OK;
}

static int32_t sample(generation *g, size_t row, size_t position)
{
    return qn_sample(g->engine->sampler, &g->request->sampling, g->engine->logit_rows[row], position);
}

/* Writes the MTP entries of the last call's positions. */
static qn_status follow(generation *g, qn_error *err)
{
    qn_engine *engine = g->engine;
    size_t start = g->pending_start, count = g->pending_count;
    g->pending_count = 0;
    if (engine->drafter == NULL || count == 0) {
        return QN_OK;
    }
    /* The entry of position p lies in slot p + 1 (kv/sequence.h). */
    qn_status status = qn_kv_sequence_reserve(&engine->sequence, start + count + 1, err);
    if (status == QN_OK) {
        status = qn_drafter_follow(engine->drafter, &engine->sequence, engine->tokens + start + 1, engine->hidden,
                                   start, count, err);
    }
    return status;
}

static bool still_wanted(const generation *g)
{
    return g->listener->on_idle == NULL || g->listener->on_idle(g->listener->context);
}

/* Computes the prompt and samples the first token into tokens[prompt_count]. */
static qn_status prefill(generation *g, qn_progress *progress, qn_error *err)
{
    qn_engine *engine = g->engine;
    size_t prompt = g->request->prompt_count;
    for (size_t start = 0; start < prompt; start += g->pending_count) {
        if (!still_wanted(g)) {
            finish(g, QN_FINISH_CANCELLED);
            return QN_OK;
        }
        qn_status status = follow(g, err);
        size_t left = prompt - start, count = left < engine->max_rows ? left : engine->max_rows;
        if (status == QN_OK) {
            status = forward(g, start, count, err);
        }
        if (status != QN_OK) {
            return status;
        }
        g->pending_start = start;
        g->pending_count = count;
        qn_progress_update(progress, start + count);
    }
    qn_status status = compute_logits(g, g->pending_count - 1, 1, prompt - 1, err);
    if (status == QN_OK) {
        engine->tokens[prompt] = sample(g, 0, prompt);
    }
    return status;
}

static qn_status run_prefill(generation *g, qn_error *err)
{
    qn_progress progress;
    /* one chunk is over before a bar tells anything */
    bool shown = g->request->show_progress && g->request->prompt_count > g->engine->max_rows;
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "prompt",
                                                      .unit = "tokens",
                                                      .total = g->request->prompt_count,
                                                      .style = shown ? QN_PROGRESS_AUTO : QN_PROGRESS_OFF});
    uint64_t start = qn_now_us();
    qn_status status = prefill(g, &progress, err);
    qn_progress_finish(&progress);
    g->result->prefill_us = qn_now_us() - start;
    return status;
}

/* Counts first drafts of steps; says once when hardly any is ever right. */
static void watch_acceptance(qn_engine *engine, size_t accepted)
{
    engine->first_drafts++;
    engine->first_drafts_accepted += accepted > 0;
    if (!engine->warned_of_acceptance && engine->first_drafts >= DRAFTS_BEFORE_WARNING &&
        engine->first_drafts_accepted * WARN_BELOW_ONE_IN < engine->first_drafts) {
        engine->warned_of_acceptance = true;
        qn_log("speculation: only %zu of %zu drafts accepted: it costs time and gains none: the checkpoint's MTP "
               "weights may be wrong: run without --speculative-config",
               engine->first_drafts_accepted, engine->first_drafts);
    }
}

/* The target's token at each row while the draft there equals it: writes them into tokens[length ...]; returns how many
 * drafts were accepted (so that accepted + 1 tokens are new). */
static size_t verify(generation *g, const int32_t *drafts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int32_t token = sample(g, i, g->length + i);
        g->engine->tokens[g->length + i] = token;
        if (token != drafts[i]) {
            return i;
        }
    }
    g->engine->tokens[g->length + count] = sample(g, count, g->length + count);
    return count;
}

static qn_status propose(generation *g, int32_t *drafts, size_t count, qn_error *err)
{
    qn_engine *engine = g->engine;
    qn_status status = follow(g, err);
    if (status == QN_OK) {
        status = qn_kv_sequence_reserve(&engine->sequence, g->length + count, err);
    }
    if (status == QN_OK) {
        status = qn_drafter_propose(engine->drafter, &engine->sequence, engine->sampler, &g->request->sampling,
                                    g->length, count, drafts, err);
    }
    return status;
}

static void tell_step(generation *g, const int32_t *drafts, size_t count, size_t accepted, size_t from)
{
    g->result->steps++;
    g->result->drafts_proposed += count;
    g->result->drafts_accepted += accepted;
    if (count > 0) {
        watch_acceptance(g->engine, accepted);
    }
    if (g->listener->on_step == NULL) {
        return;
    }
    const qn_step step = {.position = from,
                          .drafts = drafts,
                          .draft_count = count,
                          .accepted = accepted,
                          .tokens = g->engine->tokens + from,
                          .token_count = g->length - from,
                          .logits = (const float *const *)g->engine->logit_rows,
                          .draft_logits = count > 0 ? qn_drafter_logits(g->engine->drafter) : NULL};
    if (!g->listener->on_step(g->listener->context, &step)) {
        finish(g, QN_FINISH_CANCELLED);
    }
}

static qn_status decode_step(generation *g, qn_error *err)
{
    qn_engine *engine = g->engine;
    int32_t drafts[QN_MAX_SPECULATIVE_TOKENS];
    size_t room = g->limit - g->length - 1; /* accepted drafts and one more token must fit */
    size_t count = room < engine->max_drafts ? room : engine->max_drafts;
    size_t from = g->length, last = from - 1;
    if (count > 0) {
        qn_status status = propose(g, drafts, count, err);
        if (status != QN_OK) {
            return status;
        }
        memcpy(engine->tokens + from, drafts, count * sizeof *drafts);
    }
    qn_status status = forward(g, last, count + 1, err);
    if (status == QN_OK) {
        status = compute_logits(g, 0, count + 1, last, err);
    }
    if (status != QN_OK) {
        return status;
    }
    size_t accepted = verify(g, drafts, count);
    g->pending_start = last;
    g->pending_count = accepted + 1;
    for (size_t i = 0; i <= accepted && !g->finished; i++) {
        status = take_token(g, err);
        if (status != QN_OK) {
            return status;
        }
    }
    tell_step(g, drafts, count, accepted, from);
    return tell_text(g, err);
}

static qn_status run_decode(generation *g, qn_error *err)
{
    uint64_t start = qn_now_us();
    qn_status status = take_token(g, err);
    if (status == QN_OK) {
        status = tell_text(g, err);
    }
    while (status == QN_OK && !g->finished) {
        status = decode_step(g, err);
    }
    g->result->decode_us = qn_now_us() - start;
    return status;
}

qn_status qn_engine_check_length(const qn_engine *engine, size_t prompt_count, size_t max_tokens,
                                 const char *max_tokens_field, qn_error *err)
{
    size_t limit = engine->max_model_len;
    if (prompt_count >= limit) {
        return qn_fail_field(err, QN_USAGE, "messages",
                             "prompt: %zu tokens leave no room for an answer: max_model_len is %zu: shorten the prompt",
                             prompt_count, limit);
    }
    if (max_tokens > limit - prompt_count) {
        return qn_fail_field(err, QN_USAGE, max_tokens_field,
                             "%s: %zu after a prompt of %zu tokens exceeds max_model_len %zu: ask for at most %zu",
                             max_tokens_field, max_tokens, prompt_count, limit, limit - prompt_count);
    }
    return QN_OK;
}

static qn_status check_request(const qn_engine *engine, const qn_request *request, qn_error *err)
{
    if (request->prompt_count == 0) {
        return qn_fail_field(err, QN_USAGE, "messages", "prompt: it has no tokens: give some text");
    }
    qn_status status = qn_engine_check_length(engine, request->prompt_count, request->max_tokens, "max_tokens", err);
    if (status != QN_OK) {
        return status;
    }
    for (size_t i = 0; i < request->prompt_count; i++) {
        if (request->prompt_ids[i] < 0 || (size_t)request->prompt_ids[i] >= engine->config->vocab_size) {
            return qn_fail_field(err, QN_USAGE, "messages", "prompt: id %ld at %zu is no token of a vocabulary of %zu",
                                 (long)request->prompt_ids[i], i, engine->config->vocab_size);
        }
    }
    return qn_sampling_check(&request->sampling, err);
}

/* Inside the turnstile. */
static qn_status run(generation *g, qn_error *err)
{
    qn_engine *engine = g->engine;
    const qn_request *request = g->request;
    qn_kv_sequence_truncate(&engine->sequence, 0);
    memcpy(engine->tokens, request->prompt_ids, request->prompt_count * sizeof *request->prompt_ids);
    g->length = request->prompt_count;
    g->limit = request->max_tokens > 0 ? request->prompt_count + request->max_tokens : engine->max_model_len;
    qn_status status = run_prefill(g, err);
    if (status == QN_OK && !g->finished && g->listener->on_start != NULL &&
        !g->listener->on_start(g->listener->context)) {
        finish(g, QN_FINISH_CANCELLED);
    }
    if (status == QN_OK && !g->finished) {
        status = run_decode(g, err);
    }
    if (status == QN_OK) {
        size_t count = g->result->completion_tokens;
        g->result->tokens = qn_alloc(count, sizeof *g->result->tokens);
        if (g->result->tokens == NULL) {
            return qn_fail_memory(err, "the answer's tokens", count * sizeof *g->result->tokens);
        }
        memcpy(g->result->tokens, engine->tokens + request->prompt_count, count * sizeof *g->result->tokens);
    }
    return status;
}

static qn_status open_text(generation *g, qn_error *err)
{
    if (g->engine->tokenizer == NULL) {
        return g->request->stop_count == 0
                   ? QN_OK
                   : qn_fail_field(err, QN_USAGE, "stop", "stop: the engine was opened without a tokenizer");
    }
    const qn_output_options options = {.split = !g->request->raw_text,
                                       .in_reasoning = g->request->in_reasoning,
                                       .stop = g->request->stop,
                                       .stop_count = g->request->stop_count};
    if (qn_output_stream_new(g->engine->tokenizer, &options, &g->text, err) != QN_OK) {
        qn_error cause = *err;
        return cause.status == QN_USAGE ? qn_fail_field(err, QN_USAGE, "stop", "%s", cause.message) : cause.status;
    }
    return QN_OK;
}

qn_status qn_engine_generate(qn_engine *engine, const qn_request *request, const qn_listener *listener,
                             qn_result *result, qn_error *err)
{
    static const qn_listener nobody = {.context = NULL};
    generation g = {
        .engine = engine, .request = request, .listener = listener != NULL ? listener : &nobody, .result = result};
    *result = (qn_result){.prompt_tokens = request->prompt_count};
    qn_status status = check_request(engine, request, err);
    if (status == QN_OK) {
        status = open_text(&g, err);
    }
    if (status == QN_OK) {
        uint64_t arrived = qn_now_us();
        bool inside = qn_turnstile_enter(&engine->turnstile, g.listener->on_idle, g.listener->context);
        result->queue_us = qn_now_us() - arrived;
        if (inside) {
            status = run(&g, err);
            qn_turnstile_leave(&engine->turnstile);
        } else {
            finish(&g, QN_FINISH_CANCELLED);
        }
    }
    qn_output_stream_free(g.text);
    if (status != QN_OK) {
        qn_result_free(result);
    }
    return status;
}

void qn_result_free(qn_result *result)
{
    qn_free(result->tokens);
    result->tokens = NULL;
}
