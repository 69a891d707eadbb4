/* Drafts from the MTP layer, a chain of up to n a step (docs/engine.md).
 *
 * The layer keeps an entry for every position of the sequence, made from the target's own hidden state there and the
 * token that follows: `follow` writes them, without a gap, as soon as both are known. From the last of them `propose`
 * drafts: each draft is sampled with the noise that the target will use at its position, and feeds the next one of the
 * chain. Entries that the chain writes are written again by the next `follow`. */
#ifndef QN_ENGINE_SPECULATE_H
#define QN_ENGINE_SPECULATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sampling/sampler.h"
#include "kv/sequence.h"
#include "model/model.h"

typedef struct qn_drafter qn_drafter; /* one sequence at a time, one thread */

/* The model has an MTP layer and outlives the drafter; max_rows: the most rows of one follow. */
qn_status qn_drafter_new(qn_model *model, size_t max_drafts, size_t max_rows, qn_drafter **out, qn_error *err);
void qn_drafter_free(qn_drafter *drafter); /* NULL is fine */
size_t qn_drafter_bytes(const qn_config *config, size_t max_drafts, size_t max_rows);

/* Entries of positions start .. start + count - 1, which follow those written before: hidden [count, hidden_size] is
 * the target's final norm there, next_ids[i] the token at position start + i + 1. */
qn_status qn_drafter_follow(qn_drafter *drafter, qn_kv_sequence *sequence, const int32_t *next_ids, const float *hidden,
                            size_t start, size_t count, qn_error *err);

/* Drafts for positions length .. length + count - 1 of a sequence of `length` tokens, whose last followed position is
 * length - 2; slots up to length + count - 1 are reserved. drafts [count]; count <= max_drafts. */
qn_status qn_drafter_propose(qn_drafter *drafter, qn_kv_sequence *sequence, qn_sampler *sampler,
                             const qn_sampling *sampling, size_t length, size_t count, int32_t *drafts, qn_error *err);

/* The logits behind the last proposal's drafts: row i [vocab_size]. */
const float *const *qn_drafter_logits(const qn_drafter *drafter);

#endif
