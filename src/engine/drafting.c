#include "engine/drafting.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "engine/choose.h"

/* out: [rows of the segments, hidden_size]. */
static qn_status run_mtp(qn_engine *engine, const qn_mtp_segment *segments, size_t count, float *out, qn_error *err)
{
    uint64_t start = qn_now_us();
    qn_status status = qn_model_mtp(engine->model, segments, count, out, NULL, err);
    engine->batch.model_us += qn_now_us() - start;
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

/* Runs `count` segments, of parts b->listed; when that fails by a request's rows, each alone, so that only those suffer
 * that are at fault. */
static void run_each(qn_engine *engine, size_t count)
{
    qn_batch *b = &engine->batch;
    size_t width = engine->config->hidden_size, row = 0;
    qn_error err;
    qn_status status = count == 0 ? QN_OK : run_mtp(engine, b->mtp_segments, count, b->followed, &err);
    if (qn_batch_is_machines_fault(status)) {
        status = run_mtp(engine, b->mtp_segments, count, b->followed, &err);
    }
    if (status == QN_OK) {
        return;
    }
    bool alone = !qn_batch_is_machines_fault(status);
    for (size_t i = 0; i < count; i++) {
        if (!alone || run_mtp(engine, &b->mtp_segments[i], 1, b->followed + row * width, &err) != QN_OK) {
            give_up_drafts(b->listed[i]->job, &err);
        }
        row += b->mtp_segments[i].count;
    }
}

/* Does the step complete a block that is shared from now on? */
static bool fills_block(const qn_engine *engine, const qn_job *job)
{
    return !job->alone_in_cache && job->computed / qn_engine_block_tokens(engine) > job->inserted;
}

/* An answer that is over needs its entries only where a block that they complete is shared. */
static bool takes_part(const qn_engine *engine, const qn_part *part)
{
    return part->kept > 0 && !part->job->without_drafts && (!part->ends || fills_block(engine, part->job));
}

/* Nobody needs the entries yet: their hidden states are kept, and one call of the layer makes many of them later. */
static bool can_wait(const qn_engine *engine, const qn_part *part)
{
    const qn_job *job = part->job;
    return part->decodes && part->wanted == 0 && !job->resumed && !fills_block(engine, job) &&
           job->slot->pending_count + part->kept <= qn_min_size(QN_PENDING_ROWS, engine->max_rows);
}

static void put_off(qn_engine *engine, const qn_part *part)
{
    qn_slot *slot = part->job->slot;
    size_t width = engine->config->hidden_size;
    if (slot->pending_count == 0) {
        slot->pending_start = part->start;
    }
    memcpy(slot->pending + slot->pending_count * width, engine->batch.hidden + part->first_row * width,
           part->kept * width * sizeof(float));
    slot->pending_count += part->kept;
}

/* Entries that were put off, of the parts that wait no longer, in as few calls as they fit. */
static void follow_pending(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, rows = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        qn_slot *slot = part->job->slot;
        if (slot->pending_count == 0 || !part->follows) {
            continue;
        }
        if (rows + slot->pending_count > engine->max_rows) {
            run_each(engine, count);
            count = rows = 0;
        }
        b->mtp_segments[count] = (qn_mtp_segment){.sequence = &slot->sequence,
                                                  .next_ids = part->job->tokens + slot->pending_start + 1,
                                                  .hidden = slot->pending,
                                                  .start = slot->pending_start,
                                                  .count = slot->pending_count,
                                                  .unwanted = slot->pending_count};
        b->listed[count++] = part;
        rows += slot->pending_count;
        slot->pending_count = 0;
    }
    run_each(engine, count);
}

/* Behind a prefix that was found computed, the entry of its last position is missing: it needs the first token behind
 * it, and the hidden state that the prefix's last block keeps. */
static void follow_prefixes(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, block_tokens = qn_engine_block_tokens(engine);
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        qn_job *job = part->job;
        if (!part->follows || !job->resumed) {
            continue;
        }
        job->resumed = false;
        int32_t block = job->slot->sequence.blocks[part->start / block_tokens - 1];
        b->mtp_segments[count] = (qn_mtp_segment){.sequence = &job->slot->sequence,
                                                  .next_ids = job->tokens + part->start,
                                                  .hidden = qn_kv_block_hidden(engine->blocks, block),
                                                  .start = part->start - 1,
                                                  .count = 1,
                                                  .unwanted = 1};
        b->listed[count++] = part;
    }
    run_each(engine, count);
}

/* The hidden state at the last position of every block that a part fills stays with the block. */
static void keep_hidden(qn_engine *engine, const qn_part *part)
{
    size_t block_tokens = qn_engine_block_tokens(engine), width = engine->config->hidden_size;
    for (size_t end = (part->start / block_tokens + 1) * block_tokens; end <= part->start + part->kept;
         end += block_tokens) {
        int32_t block = part->job->slot->sequence.blocks[end / block_tokens - 1];
        memcpy(qn_kv_block_hidden(engine->blocks, block),
               engine->batch.hidden + (part->first_row + end - 1 - part->start) * width, width * sizeof(float));
    }
}

/* The next step without drafts, as far as it is known: a row of every request that goes on to decode, and as many rows
 * of the prompts that go on as now. */
static qn_step_shape next_step(const qn_batch *b)
{
    qn_step_shape shape = {.decode_rows = 0};
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_part *part = &b->parts[i];
        if (part->ends) {
            continue;
        }
        if (part->sampled > 0) {
            shape.decode_rows++;
            shape.scanned_keys += (double)part->job->computed;
        } else {
            shape.prefill_rows += part->count;
            shape.scanned_keys += (double)part->count * (double)(part->start + part->count);
        }
    }
    return shape;
}

/* How many drafts each part makes: part->wanted. */
static void choose_counts(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    const qn_step_shape base = next_step(b);
    size_t count = 0;
    for (size_t i = 0; i < b->part_count; i++) {
        const qn_job *job = b->parts[i].job;
        if (b->parts[i].sampled > 0 && !b->parts[i].ends && !job->without_drafts && job->limit > job->length + 1) {
            b->listed[count++] = &b->parts[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        size_t ceiling = qn_min_size(engine->max_drafts, job->limit - job->length - 1);
        size_t spare = (engine->max_rows - engine->running_count) / count; /* a row for every seat stays */
        b->drafters[i] = (qn_draft_slot){.history = &job->history,
                                         .ceiling = qn_min_size(ceiling, spare),
                                         .position = job->length - 1};
    }
    qn_drafts_choose(&engine->cost, &engine->draft_costs, &base, b->drafters, count);
    for (size_t i = 0; i < count; i++) {
        qn_job *job = b->listed[i]->job;
        qn_error err;
        size_t wanted = engine->trace_drafts ? b->drafters[i].ceiling : b->drafters[i].drafts;
        /* the chain's entries reach one slot less far than the drafts */
        if (wanted > 1 && qn_kv_sequence_reserve(&job->slot->sequence, job->length + wanted - 1, &err) != QN_OK) {
            wanted = 1;
        }
        b->listed[i]->wanted = wanted;
    }
}

void qn_follow(qn_engine *engine)
{
    qn_batch *b = &engine->batch;
    size_t count = 0, row = 0, width = engine->config->hidden_size;
    uint64_t start = qn_now_us();
    if (engine->max_drafts == 0) {
        return;
    }
    choose_counts(engine);
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        bool concerned = takes_part(engine, part), waits = concerned && can_wait(engine, part);
        part->follows = concerned && !waits;
        if (waits) {
            put_off(engine, part);
        }
    }
    follow_pending(engine);
    follow_prefixes(engine);
    for (size_t i = 0; i < b->part_count; i++) {
        qn_part *part = &b->parts[i];
        qn_slot *slot = part->job->slot;
        if (!part->follows) {
            continue;
        }
        keep_hidden(engine, part);
        b->mtp_segments[count] = (qn_mtp_segment){.sequence = &slot->sequence,
                                                  .next_ids = part->job->tokens + part->start + 1,
                                                  .hidden = b->hidden + part->first_row * width,
                                                  .start = part->start,
                                                  .count = part->kept,
                                                  .unwanted = part->kept - (part->wanted > 0),
                                                  .selection = part->wanted > 0 ? &slot->draft_selection : NULL};
        slot->can_draft = part->wanted > 0;
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
    b->follow_us = b->prefill_count == 0 ? qn_now_us() - start : 0;
}

/* Moves the parts that want more than `depth` drafts and have so many to the front; returns how many there are. */
static size_t deeper(qn_batch *b, size_t count, size_t depth)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const qn_job *job = b->listed[i]->job;
        if (b->listed[i]->wanted > depth && job->draft_count == depth && !job->without_drafts) {
            b->listed[kept++] = b->listed[i];
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
    uint64_t start = qn_now_us();
    for (size_t i = 0; i < b->part_count; i++) {
        /* a part that ended has lost its job */
        if (!b->parts[i].ends && b->parts[i].wanted > 0 && b->parts[i].job->slot->can_draft) {
            b->parts[i].job->slot->can_draft = false; /* the chain uses the state up */
            b->listed[count++] = &b->parts[i];
        }
    }
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
        qn_draft_costs_learn(&engine->draft_costs, calls, rows, qn_now_us() - start + b->follow_us);
    }
}
