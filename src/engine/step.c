/* One step: forward, logits, sampling, verification of drafts, and what follows from the new tokens.
 *
 * The target's token at each row is sampled as if the drafts before it stood; it does while each equals the target's
 * own sample before it, so what comes out is what the target alone would have said, whatever was drafted
 * (docs/engine.md). Tokens go to their readers before the next drafts are made; the end of an answer after its blocks
 * are shared. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "engine/choose.h"
#include "engine/drafting.h"
#include "engine/engine_internal.h"

enum { DRAFTS_BEFORE_WARNING = 400, WARN_BELOW_ONE_IN = 50 };

static void end_part(qn_part *part, qn_finish finish)
{
    part->ends = true;
    part->end = (qn_job_end){.status = QN_OK, .finish = finish, .stop_token = -1};
}

static void fail_part(qn_part *part, const qn_error *err)
{
    end_part(part, QN_FINISH_CANCELLED);
    part->end.status = err->status;
    part->end.err = *err;
}

/* ---- the model ---- */

/* Of a part's first rows, how many are there for what they leave in the caches alone. */
static size_t count_unwanted(const qn_engine *engine, const qn_part *part)
{
    const qn_job *job = part->job;
    const bool drafts = engine->max_drafts > 0 && !job->without_drafts; /* the MTP layer takes them all */
    const bool tells_prompt = job->request.has_prompt_logprobs && !part->decodes;
    return drafts || tells_prompt ? 0 : part->count - part->sampled;
}

static qn_status forward_parts(qn_engine *engine, const qn_part *parts, size_t count, qn_error *err)
{
    qn_batch *b = &engine->batch;
    for (size_t i = 0; i < count; i++) {
        b->segments[i] = (qn_segment){.sequence = &parts[i].job->slot->sequence,
                                      .ids = parts[i].job->tokens + parts[i].start,
                                      .start = parts[i].start,
                                      .count = parts[i].count,
                                      .unwanted = count_unwanted(engine, &parts[i])};
    }
    uint64_t start = qn_now_us();
    qn_status status = qn_model_forward(engine->model, b->segments, count, b->hidden, NULL, err);
    b->model_us += qn_now_us() - start;
    return status;
}

/* When a step fails by a request's rows, the parts that fail alone too end with their own error, and the others are
 * computed again in the next step. False: nothing of this step can be used. */
static bool forward(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    qn_error err;
    qn_status status = forward_parts(engine, b->parts, b->part_count, &err);
    if (qn_batch_is_machines_fault(status)) {
        status = forward_parts(engine, b->parts, b->part_count, &err);
    }
    if (status == QN_OK) {
        return true;
    }
    bool alone = !qn_batch_is_machines_fault(status);
    size_t failed = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        qn_error own;
        b->parts[i].kept = 0;
        if (alone && forward_parts(engine, &b->parts[i], 1, &own) != QN_OK) {
            fail_part(&b->parts[i], &own);
            failed++;
        }
    }
    for (size_t i = 0; i < b->part_count && failed == 0; i++) {
        fail_part(&b->parts[i], &err);
    }
    return false;
}

static void run_head(qn_engine *engine, size_t rows)
{
    qn_batch *b = &engine->batch;
    uint64_t start = qn_now_us();
    qn_model_logits(engine->model, b->head_rows, rows, b->logit_rows);
    b->model_us += qn_now_us() - start;
}

static void fail_logits(qn_part *part, size_t position)
{
    qn_error err;
    qn_fail(&err, QN_FAILED, "logits: a value is not finite at position %zu: the checkpoint's lm_head is damaged",
            position);
    fail_part(part, &err);
}

/* ---- logprobs of the prompt ---- */

/* Of tokens that the part's rows predict; rows that were told before (the request was put back) are passed over. */
static void tell_prompt(qn_engine *engine, qn_part *part)
{
    qn_batch *b = &engine->batch;
    qn_job *job = part->job;
    size_t width = engine->config->hidden_size, top = job->request.prompt_logprobs;
    size_t first = part->start + 1 > job->prompt_logprobs_to ? part->start + 1 : job->prompt_logprobs_to;
    size_t end = qn_min_size(part->start + part->count + 1, job->request.prompt_count);
    for (size_t token = first, rows; token < end; token += rows) {
        rows = qn_min_size(b->logit_row_count, end - token);
        for (size_t r = 0; r < rows; r++) {
            b->head_rows[r] = b->hidden + (part->first_row + token + r - 1 - part->start) * width;
        }
        run_head(engine, rows);
        qn_tell_logprobs(engine, b->logit_rows, job->tokens + token, rows, top, b->logprobs, b->ranks);
        for (size_t r = 0; r < rows; r++) {
            if (b->ranks[r] == 0) {
                fail_logits(part, token + r - 1);
                return;
            }
        }
        if (!qn_job_deliver_prompt(job, b->logprobs, b->ranks, rows)) {
            qn_error err;
            qn_fail_memory(&err, "prompt_logprobs", end * (1 + top) * sizeof(qn_logprob));
            fail_part(part, &err);
            return;
        }
        job->prompt_logprobs_to = token + rows;
    }
}

static void tell_prompts(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    for (size_t i = 0; i < b->part_count; i++) {
        if (b->parts[i].job->request.has_prompt_logprobs && !b->parts[i].decodes) {
            tell_prompt(engine, &b->parts[i]);
        }
    }
}

/* ---- sampling ---- */

static void sample(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t rows = 0, width = engine->config->hidden_size;
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_part *part = &b->parts[i];
        for (size_t r = 0; r < part->sampled; r++, rows++) {
            size_t row = part->first_row + part->count - part->sampled + r;
            b->head_rows[rows] = b->hidden + row * width;
            b->choices[rows] = (qn_choice){.job = part->job,
                                           .logits = b->logit_rows[rows],
                                           .ahead = r,
                                           .out = &b->sampled[rows],
                                           .logprobs = b->logprobs + rows * (1 + QN_MAX_LOGPROBS),
                                           .rank = &b->ranks[rows]};
        }
    }
    if (rows > 0) {
        run_head(engine, rows);
        qn_choose(engine, b->choices, rows);
    }
}

/* ---- verification ---- */

static bool is_one_of(int32_t token, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == token) {
            return true;
        }
    }
    return false;
}

/* No token came of a row: the answer ends, or fails. */
static void end_without_token(qn_part *part, int32_t why)
{
    qn_job *job = part->job;
    qn_error err;
    if (why == QN_NOT_FINITE) {
        fail_logits(part, job->length - 1);
    } else if (why == QN_NO_TOKEN && (job->request.ignore_eos || qn_job_answered(job) < job->request.min_tokens)) {
        /* only the end is left, and no token that stands for it */
        end_part(part, QN_FINISH_STOP);
    } else if (why == QN_MASK_NO_MEMORY) {
        qn_fail(&err, QN_RESOURCE,
                "answer: out of memory for what may follow at position %zu: send the request again later", job->length);
        fail_part(part, &err);
    } else {
        /* the request's own doing: a client that took it for the server's would send it again */
        qn_fail(&err, QN_USAGE, "answer: %s at position %zu: %s",
                why == QN_MASK_FAILED ? "what may follow is not known" : "no token may follow", job->length,
                why == QN_MASK_FAILED ? "its grammar has too many readings at once: simplify it"
                                      : "the constraints leave none: loosen them");
        fail_part(part, &err);
    }
}

/* The token at `length` is decided. */
static void take_token(qn_engine *engine, qn_part *part, int32_t token)
{
    qn_job *job = part->job;
    const qn_request *request = &job->request;
    job->tokens[job->length++] = token;
    part->emitted++;
    qn_error err;
    if (job->counts != NULL && qn_token_counts_add(job->counts, token, &err) != QN_OK) {
        fail_part(part, &err);
        return;
    }
    bool repeats = qn_repetition_add(&job->guard, token);
    if (!request->ignore_eos && is_one_of(token, engine->generation.eos_token_id, engine->generation.eos_count)) {
        end_part(part, QN_FINISH_STOP);
        part->end.by_token = true;
    } else if (is_one_of(token, request->stop_token_ids, request->stop_token_count)) {
        end_part(part, QN_FINISH_STOP);
        part->end.stop_token = token;
        part->end.by_token = true;
    } else if (repeats) {
        end_part(part, QN_FINISH_REPETITION);
    } else if (job->length == job->limit) {
        end_part(part, QN_FINISH_LENGTH);
    }
}

static void verify(qn_engine *engine, qn_part *part)
{
    qn_job *job = part->job;
    part->from = job->length;
    job->draft_count = 0;
    for (size_t i = 0; i < part->sampled && !part->ends; i++) {
        int32_t token = engine->batch.sampled[part->first_sampled + i];
        int32_t draft = i + 1 < part->sampled ? job->tokens[job->length] : QN_NO_TOKEN;
        if (token < 0) {
            end_without_token(part, token);
            break;
        }
        take_token(engine, part, token);
        if (token != draft) {
            break;
        }
        part->accepted++;
    }
    if (part->sampled > 0) {
        /* what stands in the cache is what lies before the last token */
        size_t computed = part->emitted > 0 ? job->length - 1 : part->start;
        part->kept = computed - part->start;
    }
    job->computed = part->start + part->kept;
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

static void count_tokens(qn_engine *engine, qn_part *part, uint64_t now_us)
{
    qn_job *job = part->job;
    size_t drafts = part->sampled > 0 ? part->sampled - 1 : 0;
    if (part->decodes) {
        job->timings.steps++;
        job->timings.drafts_proposed += drafts;
        job->timings.drafts_accepted += part->accepted;
        if (drafts > 0) {
            watch_acceptance(engine, part->accepted);
            qn_draft_history_learn(&job->history, drafts, part->accepted);
        }
    }
    if (part->emitted == 0) {
        return;
    }
    job->timings.completion_tokens = qn_job_answered(job);
    if (job->started_us == 0) {
        job->started_us = now_us;
        job->timings.prefill_us = now_us - job->admitted_us;
        qn_metrics_on_first_token(engine->metrics, now_us - job->submitted_us);
    } else {
        uint64_t gap_us = now_us - job->last_token_us;
        job->timings.longest_gap_us = gap_us > job->timings.longest_gap_us ? gap_us : job->timings.longest_gap_us;
        qn_metrics_on_token_gap(engine->metrics, gap_us, part->emitted);
    }
    job->last_token_us = now_us;
    job->timings.decode_us = now_us - job->started_us;
}

static void trace(qn_engine *engine, qn_part *part)
{
    qn_job *job = part->job;
    const qn_batch *b = &engine->batch;
    if (job->request.trace.on_step == NULL || !part->decodes || part->emitted == 0) {
        return;
    }
    size_t drafts = part->sampled - 1, slot = (size_t)(job->slot - engine->slots);
    const qn_step step = {
        .position = part->from,
        .drafts = part->drafts,
        .draft_count = drafts,
        .accepted = part->accepted,
        .tokens = job->tokens + part->from,
        .token_count = part->emitted,
        .logits = (const float *const *)b->logit_rows + part->first_sampled,
        .draft_logits = drafts > 0 && b->keeps_draft_logits
                            ? (const float *const *)b->draft_rows + slot * engine->max_drafts
                            : NULL,
    };
    if (!job->request.trace.on_step(job->request.trace.context, &step) && !part->ends) {
        end_part(part, QN_FINISH_CANCELLED);
    }
}

/* ---- handing out ---- */

static void deliver(qn_engine *engine, qn_part *part, bool with_end)
{
    qn_batch *b = &engine->batch;
    qn_job *job = part->job;
    const qn_logprob *rows[QN_MAX_SPECULATIVE_TOKENS + 1];
    for (size_t i = 0; i < part->emitted; i++) {
        rows[i] = b->logprobs + (part->first_sampled + i) * (1 + QN_MAX_LOGPROBS);
    }
    const qn_delivery delivery = {.tokens = job->tokens + part->from,
                                  .count = part->emitted,
                                  .logprobs = rows,
                                  .ranks = b->ranks + part->first_sampled,
                                  .end = with_end ? &part->end : NULL};
    if (part->emitted == 0 && !with_end) {
        qn_job_tell_progress(job);
    } else if (!qn_job_deliver(job, &delivery) && !with_end) {
        qn_error err;
        qn_fail_memory(&err, "the answer's tokens", job->length * sizeof(int32_t));
        part->emitted = 0;
        fail_part(part, &err);
    }
}

/* Blocks that the step filled are shared; then those whose answers are over leave. */
static void settle(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        if (part->kept > 0) {
            qn_share_blocks(engine, part->job);
        }
        if (part->ends) {
            qn_vacate(engine, part->job);
            deliver(engine, part, true);
        }
    }
}

static void report(qn_engine *engine, uint64_t started_us)
{
    const qn_batch *b = &engine->batch;
    qn_metrics_step told = {.step_us = qn_now_us() - started_us, .waiting = qn_engine_get_load(engine).waiting};
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_part *part = &b->parts[i];
        told.emitted_tokens += part->emitted;
        if (part->decodes) {
            told.decode_rows++;
            told.draft_rows += part->count - 1;
            told.drafting_requests += part->count > 1;
            for (size_t d = 0; d < part->accepted; d++) {
                told.accepted_at[d]++;
            }
        } else {
            told.prefill_tokens += part->count;
        }
    }
    uint64_t busy_us = b->model_us + b->sampling_us;
    told.host_us = told.step_us > busy_us ? told.step_us - busy_us : 0;
    told.running = engine->running_count;
    told.kv_usage = qn_kv_pool_usage(engine->blocks);
    qn_metrics_on_step(engine->metrics, &told);
}

void qn_run_step(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    uint64_t started_us = qn_now_us();
    b->model_us = b->sampling_us = b->follow_us = 0;
    bool computed = forward(engine);
    if (computed) {
        tell_prompts(engine);
        sample(engine);
        uint64_t now_us = qn_now_us();
        for (size_t i = 0; i < b->part_count; i++) {
            qn_part *part = &b->parts[i];
            memcpy(part->drafts, part->job->tokens + part->job->length, sizeof part->drafts);
            if (part->ends) { /* its prompt's logprobs failed */
                part->kept = 0;
                continue;
            }
            verify(engine, part);
            count_tokens(engine, part, now_us);
            trace(engine, part);
            if (!part->ends) {
                deliver(engine, part, false);
            }
        }
        qn_follow(engine);
    }
    settle(engine);
    uint64_t drafting_us = qn_now_us();
    qn_propose(engine);
    uint64_t end_us = qn_now_us();
    if (computed) { /* else several attempts were made */
        const qn_step_shape shape = qn_fairness_shape(&b->decode, b->prefills, b->prefill_count);
        qn_fairness_learn(&engine->fairness, &engine->cost, &b->decode, b->prefills, b->prefill_count,
                          drafting_us - started_us - b->follow_us, end_us - started_us);
        qn_cost_learn(&engine->cost, &shape, drafting_us - started_us - b->follow_us);
    }
    report(engine, started_us);
}
