/* From logits to tokens: the rows of a step, sampled in parallel on the pool. Internal to this room. */
#ifndef QN_ENGINE_CHOOSE_H
#define QN_ENGINE_CHOOSE_H

#include "engine/engine_internal.h"

/* In place of a token. */
enum {
    QN_NO_TOKEN = -1,      /* mask, bias and min_tokens leave none */
    QN_NOT_FINITE = -2,    /* a logit is not */
    QN_MASK_FAILED = -3,   /* the request's mask does not know what may come */
    QN_MASK_NO_MEMORY = -4 /* nor does it for want of memory */
};

/* Samples each choice, from the request's seed and the row's position, into its `out`, with its logprobs and rank where
 * it wants them. On the engine's thread, which waits for the pool. */
void qn_choose(qn_engine *engine, const qn_choice *choices, size_t count);

/* Logprobs of given tokens: of row r tokens[r], with the `top` most probable besides, out [count][1 + top]. ranks[r] is
 * 0 where a row is not finite. */
void qn_tell_logprobs(qn_engine *engine, float *const *logits, const int32_t *tokens, size_t count, size_t top,
                      qn_logprob *out, uint32_t *ranks);

#endif
