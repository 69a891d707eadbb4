/* How a model would be cut over ranks, for planning: this version of quern has one rank.
 *
 * Attention is tensor-parallel over all ranks: heads of q_b, kv_b and o_proj are split, as are the inner sizes of dense
 * and shared MLPs and the vocabulary of embedding and head. Replicated: q_a, kv_a, the indexer, routers, norms,
 * eh_proj, and the KV cache, since the latent row is shared by all heads. Routed experts lie in `expert_groups` groups
 * of `expert_parts` ranks: a group holds its share of the experts, each rank of it a part of their inner size. */
#ifndef QN_PLAN_RANKS_H
#define QN_PLAN_RANKS_H

#include <stdbool.h>

#include "plan/sizes.h"

enum { QN_PLAN_MAX_RANKS = 64 };

typedef struct qn_rank_layout {
    size_t ranks, expert_groups, expert_parts; /* ranks = groups x parts */
    uint64_t bytes;                            /* of the rank with most */
    uint64_t replicated_bytes;                 /* of these, what every rank has */
} qn_rank_layout;

/* Can this model be cut so? At most as many ranks as heads, as many groups as experts, and parts of the inner size that
 * are whole MXFP4 blocks. */
bool qn_rank_layout_of(const qn_config *config, qn_plan_form form, size_t ranks, size_t expert_parts,
                       qn_rank_layout *out);

#endif
