#include "engine/drafting.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "engine/choose.h"

static qn_status run_mtp(qn_engine *engine, size_t segments, qn_error *err)
{
    qn_batch *b = &engine->batch;
    uint64_t start = qn_now_us();
    qn_status status = qn_model_mtp(engine->model, b->mtp_segments, segments, b->followed, NULL, err);
    b->model_us += qn_now_us() - start;
    return status;
}

static void give_up_drafts(qn_job *job, const qn_error *err)
{
    qn_log("speculation: a request goes on without drafts: %s", err->message);
    job->without_drafts = true;
    job->alone_in_cache = true; /* the blocks' MTP entries are not what they should be */
    job->slot->can_draft = false;
    job->draft_count = 0;
}

/* Runs `count` segments, of parts b->listed; when that fails, each alone, so that only those suffer that are at fault.
 */
static void run_each(qn_engine *engine, size_t count)
{
    qn_batch *b = &engine->batch;
    size_t width = engine->config->hidden_size, row = 0;
    qn_error err;
    if (count == 0 || run_mtp(engine, count, &err) == QN_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const qn_mtp_segment segment = b->mtp_segments[i];
        uint64_t start = qn_now_us();
        qn_status status = qn_model_mtp(engine->model, &segment, 1, b->followed + row * width, NULL, &err);
        b->model_us += qn_now_us() - start;
        if (status != QN_OK) {
            give_up_drafts(b->listed[i]->job, &err);
        }
        row += segment.count;
    }
}

/* An answer that is over needs its entries only where a block that they complete is shared. */
static bool takes_part(const qn_engine *engine, const qn_part *part)
{
    const qn_job *job = part->job;
    bool fills_block = !job->alone_in_cache &&
                       job->computed / qn_kv_pool_layout(engine->blocks)->block_tokens > job->inserted;
    return part->kept > 0 && !job->without_drafts && (!part->ends || fills_block);
}

/* Behind a prefix that was found computed, the entry of its last position is missing: it needs the first token behind
 * it, and the hidden state that the prefix's last block keeps. */
static void follow_prefixes(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, block_tokens = qn_kv_pool_layout(engine->blocks)->block_tokens;
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        qn_job *job = part->job;
        if (!takes_part(engine, part) || !job->resumed) {
            continue;
        }
        job->resumed = false;
        int32_t block = job->slot->sequence.blocks[part->start / block_tokens - 1];
        b->mtp_segments[count] = (qn_mtp_segment){.sequence = &job->slot->sequence,
                                                  .next_ids = job->tokens + part->start,
                                                  .hidden = qn_kv_block_hidden(engine->blocks, block),
                                                  .start = part->start - 1,
                                                  .count = 1};
        b->listed[count++] = part;
    }
    run_each(engine, count);
}

/* The hidden state at the last position of every block that a part fills stays with the block. */
static void keep_hidden(qn_engine *engine, const qn_part *part)
{
    size_t block_tokens = qn_kv_pool_layout(engine->blocks)->block_tokens, width = engine->config->hidden_size;
    for (size_t end = (part->start / block_tokens + 1) * block_tokens; end <= part->start + part->kept;
         end += block_tokens) {
        int32_t block = part->job->slot->sequence.blocks[end / block_tokens - 1];
        memcpy(qn_kv_block_hidden(engine->blocks, block),
               engine->batch.hidden + (part->first_row + end - 1 - part->start) * width, width * sizeof(float));
    }
}

void qn_follow(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, row = 0, width = engine->config->hidden_size;
    if (engine->max_drafts == 0) {
        return;
    }
    follow_prefixes(engine);
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        qn_slot *slot = part->job->slot;
        if (!takes_part(engine, part)) {
            continue;
        }
        keep_hidden(engine, part);
        bool will_draft = part->sampled > 0 && !part->ends;
        b->mtp_segments[count] = (qn_mtp_segment){.sequence = &slot->sequence,
                                                  .next_ids = part->job->tokens + part->start + 1,
                                                  .hidden = b->hidden + part->first_row * width,
                                                  .start = part->start,
                                                  .count = part->kept,
                                                  .selection = will_draft ? &slot->draft_selection : NULL};
        slot->can_draft = will_draft;
        b->listed[count++] = part;
    }
    run_each(engine, count);
    for (size_t i = 0; i < count; i++) {
        qn_slot *slot = b->listed[i]->job->slot;
        row += b->listed[i]->kept;
        if (slot->can_draft) {
            memcpy(slot->draft_state[0], b->followed + (row - 1) * width, width * sizeof(float));
        }
    }
}

/* The next step without drafts, as far as it is known: a row of every request that decodes then, and as many rows of
 * the prompts that go on as now. */
static qn_step_shape next_step(const qn_engine *engine)
{
    const qn_batch *b = &engine->batch;
    qn_step_shape shape = {.decode_rows = 0};
    for (size_t i = 0; i < engine->running_count; i++) {
        const qn_job *job = engine->running[i]->job;
        if (job->computed + 1 == job->length && qn_job_answered(job) > 0) {
            shape.decode_rows++;
            shape.scanned_keys += (double)job->computed;
        }
    }
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_part *part = &b->parts[i];
        if (!part->ends && part->sampled == 0) {
            shape.prefill_rows += part->count;
            shape.scanned_keys += (double)part->count * (double)(part->start + part->count);
        }
    }
    return shape;
}

/* How many drafts each listed part makes, into b->drafters. */
static void choose_counts(qn_engine *engine, size_t count)
{
    qn_batch *b = &engine->batch;
    const qn_step_shape base = next_step(engine);
    size_t spare = (engine->max_rows - engine->running_count) / count; /* a row for every seat stays */
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        size_t ceiling = qn_min_size(engine->max_drafts, job->limit - job->length - 1);
        b->drafters[i] = (qn_draft_slot){.history = &job->history,
                                         .ceiling = qn_min_size(ceiling, spare),
                                         .position = job->length - 1};
        job->draft_count = 0;
    }
    qn_drafts_choose(&engine->cost, &engine->draft_costs, &base, b->drafters, count);
    for (size_t i = 0; i < count && engine->trace_drafts; i++) {
        b->drafters[i].drafts = b->drafters[i].ceiling;
    }
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        qn_error err;
        /* the chain's entries reach one slot less far than the drafts */
        if (b->drafters[i].drafts > 1 &&
            qn_kv_sequence_reserve(&job->slot->sequence, job->length + b->drafters[i].drafts - 1, &err) != QN_OK) {
            b->drafters[i].drafts = 1;
        }
    }
}

/* Moves the parts that want more than `depth` drafts and have so many to the front; returns how many there are. */
static size_t deeper(qn_batch *b, size_t count, size_t depth)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const qn_job *job = b->listed[i]->job;
        if (b->drafters[i].drafts > depth && job->draft_count == depth && !job->without_drafts) {
            b->listed[kept] = b->listed[i];
            b->drafters[kept++] = b->drafters[i];
        }
    }
    return kept;
}

/* The layer's next row of each listed part: the draft before becomes its token, its own output its hidden state. */
static void chain(qn_engine *engine, size_t count, size_t depth)
{
    qn_batch *b = &engine->batch;
    const bool share = engine->config->index_share_for_mtp_iteration;
    size_t width = engine->config->hidden_size;
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        b->mtp_segments[i] = (qn_mtp_segment){.sequence = &job->slot->sequence,
                                              .next_ids = job->tokens + job->length + depth - 1,
                                              .hidden = job->slot->draft_state[(depth - 1) % 2],
                                              .start = job->length - 2 + depth,
                                              .count = 1,
                                              .selection = share ? &job->slot->draft_selection : NULL,
                                              .reuse_selection = share};
    }
    run_each(engine, count);
    for (size_t i = 0; i < count; i++) {
        memcpy(b->listed[i]->job->slot->draft_state[depth % 2], b->followed + i * width, width * sizeof(float));
    }
}

static void sample_drafts(qn_engine *engine, size_t count, size_t depth)
{
    qn_batch *b = &engine->batch;
    for (size_t i = 0; i < count; i++) {
        qn_slot *slot = b->listed[i]->job->slot;
        float *row = b->draft_rows[(size_t)(slot - engine->slots) * engine->max_drafts + depth];
        b->head_rows[i] = slot->draft_state[depth % 2];
        b->head_outputs[i] = row;
        b->choices[i] = (qn_choice){
            .job = slot->job, .logits = row, .ahead = depth, .out = &slot->job->tokens[slot->job->length + depth]};
    }
    uint64_t start = qn_now_us();
    qn_model_mtp_logits(engine->model, b->head_rows, count, b->head_outputs);
    b->model_us += qn_now_us() - start;
    qn_choose(engine, b->choices, count);
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        int32_t token = job->tokens[job->length + depth];
        if (token == QN_NOT_FINITE) {
            qn_error err;
            qn_fail(&err, QN_FAILED,
                    "MTP logits: a value is not finite at position %zu: the checkpoint's MTP layer is damaged",
                    job->length + depth);
            give_up_drafts(job, &err);
        } else if (token >= 0) {
            job->draft_count = depth + 1;
        }
    }
}

void qn_propose(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, calls = 0, rows = 0;
    for (size_t i = 0; i < b->part_count && engine->max_drafts > 0; i++) {
        const qn_job *job = b->parts[i].job;
        /* a part that ended has lost its job */
        if (!b->parts[i].ends && job->slot->can_draft && !job->without_drafts && job->limit > job->length + 1) {
            job->slot->can_draft = false; /* the chain uses the state up */
            b->listed[count++] = &b->parts[i];
        }
    }
    if (count == 0) {
        return;
    }
    uint64_t start = qn_now_us();
    choose_counts(engine, count);
    for (size_t depth = 0; (count = deeper(b, count, depth)) > 0; depth++) {
        if (depth > 0) {
            chain(engine, count, depth);
            count = deeper(b, count, depth);
        }
        sample_drafts(engine, count, depth);
        calls++;
        rows += count;
    }
    if (calls > 0) {
        qn_draft_costs_learn(&engine->draft_costs, calls, rows, qn_now_us() - start);
    }
}
