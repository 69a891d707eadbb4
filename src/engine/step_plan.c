/* Who gets how many rows of a step. Decoding requests come first, each with the drafts it has proposed; what is left of
 * the step goes to prompts as schedule/fairness.h says. When blocks run out, drafts are given up first, and then the
 * request that is least entitled to them is put back. */
#include <string.h>

#include "base/size.h"
#include "engine/engine_internal.h"

static bool decodes(const qn_job *job)
{
    return job->computed + 1 == job->length && qn_job_answered(job) > 0;
}

/* The running job that is put back first. */
static qn_job *choose_victim(const qn_engine *engine)
{
    qn_job *victim = NULL;
    for (size_t i = 0; i < engine->running_count; i++) {
        qn_job *job = engine->running[i]->job;
        if (job->state != QN_JOB_RUNNING) {
            continue; /* the store is filling its blocks */
        }
        if (victim == NULL || qn_victim_order(&(qn_place){job->request.priority, job->arrival},
                                              &(qn_place){victim->request.priority, victim->arrival},
                                              engine->fairness.limits.by_priority) < 0) {
            victim = job;
        }
    }
    return victim;
}

static void forget_part(qn_engine *engine, const qn_job *job)
{
    qn_batch *b = &engine->batch;
    for (size_t i = 0; i < b->prefill_count; i++) {
        if (b->prefill_jobs[i] == job) {
            b->prefills[i].rows = 0;
        }
    }
    for (size_t i = 0; i < b->part_count; i++) {
        if (b->parts[i].job == job) {
            memmove(b->parts + i, b->parts + i + 1, (b->part_count - 1 - i) * sizeof *b->parts);
            b->part_count--;
            return;
        }
    }
}

/* Slots [0, tokens) for the job, others put back for it where need be. False: it was put back itself, or it is the only
 * one there is and the store still holds blocks that it needs. */
static bool make_room(qn_engine *engine, qn_job *job, size_t tokens, bool *preempted)
{
    qn_error err;
    while (qn_kv_sequence_reserve(&job->slot->sequence, tokens, &err) != QN_OK) {
        qn_job *victim = choose_victim(engine);
        if (victim == job && engine->running_count == 1) {
            return false;
        }
        forget_part(engine, victim);
        qn_preempt(engine, victim);
        *preempted = true;
        if (victim == job) {
            return false;
        }
    }
    return true;
}

static void add_part(qn_engine *engine, qn_job *job, size_t count, bool decoding)
{
    qn_batch *b = &engine->batch;
    b->parts[b->part_count++] = (qn_part){
        .job = job, .start = job->computed, .count = count, .kept = count, .decodes = decoding};
}

/* The first running job in this state of decoding that this plan has not looked at; NULL: none. */
static qn_job *next_to_plan(qn_engine *engine, bool decoding)
{
    for (size_t i = 0; i < engine->running_count; i++) {
        qn_job *job = engine->running[i]->job;
        if (job->state == QN_JOB_RUNNING && job->planned != engine->plan && decodes(job) == decoding) {
            job->planned = engine->plan;
            return job;
        }
    }
    return NULL;
}

static size_t count_decodes(const qn_engine *engine)
{
    size_t count = 0;
    for (size_t i = 0; i < engine->running_count; i++) {
        count += engine->running[i]->job->state == QN_JOB_RUNNING && decodes(engine->running[i]->job);
    }
    return count;
}

/* Every decoding job's row and drafts. max_rows holds a row for every seat. */
static void plan_decodes(qn_engine *engine, bool *preempted)
{
    size_t spare = engine->max_rows - count_decodes(engine);
    for (qn_job *job = next_to_plan(engine, true); job != NULL; job = next_to_plan(engine, true)) {
        qn_error err;
        job->draft_count = qn_min_size(job->draft_count, spare);
        if (job->draft_count > 0 &&
            qn_kv_sequence_reserve(&job->slot->sequence, job->length + 1 + job->draft_count, &err) != QN_OK) {
            job->draft_count = 0;
        }
        if (make_room(engine, job, job->length + 1, preempted)) {
            add_part(engine, job, 1 + job->draft_count, true);
            spare -= job->draft_count;
        }
    }
}

/* The decode rows of the plan: a row at position p scans p keys and itself. */
static qn_step_shape decode_shape(const qn_batch *b)
{
    qn_step_shape shape = {.decode_rows = 0};
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_part *part = &b->parts[i];
        if (part->decodes) {
            shape.decode_rows += part->count;
            shape.scanned_keys += (double)part->count * ((double)part->start + (double)(part->count - 1) / 2);
        }
    }
    return shape;
}

/* How long the decoding request that has waited longest for its next token waits. */
static uint64_t oldest_gap_us(const qn_batch *b, uint64_t now_us)
{
    uint64_t oldest = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        uint64_t gap = now_us - b->parts[i].job->last_token_us;
        oldest = gap > oldest ? gap : oldest;
    }
    return oldest;
}

/* Chunks of the prompts that are not computed, as many rows as the policy gives each. */
static void plan_prefills(qn_engine *engine, uint64_t now_us, bool *preempted)
{
    qn_batch *b = &engine->batch;
    b->decode = decode_shape(b);
    for (qn_job *job = next_to_plan(engine, false); job != NULL; job = next_to_plan(engine, false)) {
        b->prefills[b->prefill_count] = (qn_prefill){.priority = job->request.priority,
                                                     .arrival = job->arrival,
                                                     .prompt_tokens = job->length,
                                                     .computed = job->computed,
                                                     .remaining = job->length - job->computed};
        b->prefill_jobs[b->prefill_count++] = job;
    }
    qn_fairness_plan(&engine->fairness, &engine->cost, now_us, &b->decode, oldest_gap_us(b, now_us), b->prefills,
                     b->prefill_count);
    for (size_t i = 0; i < b->prefill_count; i++) {
        qn_job *job = b->prefill_jobs[i];
        qn_prefill *prefill = &b->prefills[i];
        /* a prompt before it may have cost it its seat */
        if (prefill->rows > 0 && job->slot != NULL &&
            make_room(engine, job, job->computed + prefill->rows + 1, preempted)) {
            add_part(engine, job, prefill->rows, false);
        } else {
            prefill->rows = 0;
        }
    }
    b->decode = decode_shape(b); /* prompts may have cost some their seats */
}

/* Rows of the model and of the logits, in the order of the parts. */
static void number_rows(qn_batch *b)
{
    size_t row = 0, sampled = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        bool at_end = part->start + part->count >= part->job->length;
        part->first_row = row;
        part->first_sampled = sampled;
        part->sampled = part->decodes ? part->count : at_end ? 1 : 0;
        row += part->count;
        sampled += part->sampled;
    }
}

void qn_plan_step(qn_engine *engine, uint64_t now_us)
{
    qn_batch *b = &engine->batch;
    bool preempted = false;
    b->part_count = b->prefill_count = 0;
    engine->plan++;
    plan_decodes(engine, &preempted);
    if (!preempted) { /* else the blocks that came free are for those that run */
        qn_admit(engine, now_us);
    }
    plan_prefills(engine, now_us, &preempted);
    number_rows(b);
}
