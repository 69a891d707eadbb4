/* What the model computes for given tokens, written to a safetensors file: how quern is held against references.
 *
 * Names and shapes are those of the reference goldens, for all T rows: `logits` [T, vocab]. Per layer L, with `hidden`:
 * `hidden.L`, `attn.L` [T, hidden_size], `topk.L` I32 [T, min(index_topk, T)] of layers with an indexer (positions
 * ascending, then -1), `router_experts.L` I32 and `router_weights.L` [T, num_experts_per_tok] of sparse layers, the
 * margins `topk_margin.L` and `router_margin.L` [T], and `final_norm` [T, hidden_size]. With `mtp`, the MTP layer
 * teacher-forced, its next token at each position the one that follows, at the last the greedy one: `mtp_logits`,
 * `mtp_hidden` (before shared_head.norm), `mtp_topk`, `mtp_router_experts`, `mtp_router_weights` and the margins. With
 * `chain` n, n greedy drafts chained from the last row, with an index set of each step's own and with the first step's:
 * `mtp_chain_own_indices`, `mtp_chain_shared_indices` [n, vocab]. All F32 but where I32 is said. */
#ifndef QN_ENGINE_DUMP_H
#define QN_ENGINE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"

enum { QN_DUMP_MAX_CHAIN = 64 };

typedef struct qn_dump_options {
    bool hidden, mtp;
    size_t chain; /* 0: none; asks for mtp too */
} qn_dump_options;

/* Tokens of context that the options need behind the given ones. */
size_t qn_dump_room(const qn_dump_options *options);

/* count and that room must fit max_model_len. Logits are written as they come; with `hidden` the layers' values are
 * held in memory until the end (a log line tells how much). Waits until the engine has no requests. */
qn_status qn_dump_logits(qn_engine *engine, const int32_t *ids, size_t count, const qn_dump_options *options,
                         const char *path, qn_error *err);

#endif
