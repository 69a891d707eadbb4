/* Drafts from the MTP layer, for all requests of a step at once (docs/engine.md).
 *
 * The layer keeps an entry for every position of a sequence, made from the target's own hidden state there and the
 * token that follows: `follow` writes them, without a gap, for the rows that a step computed. From the last of them
 * `propose` drafts: each draft is sampled with the noise that the target will use at its position, and feeds the next
 * one of the chain. Entries that the chain writes are written again by the next `follow`. Internal to this room. */
#ifndef QN_ENGINE_DRAFTING_H
#define QN_ENGINE_DRAFTING_H

#include "engine/engine_internal.h"

/* Entries of the positions that the step's parts keep; the tokens behind them are known. A request whose entries can't
 * be computed goes on without drafts, with a line saying so. */
void qn_follow(qn_engine *engine);

/* Drafts of the step's parts that go on, behind their tokens: job->draft_count of them. */
void qn_propose(qn_engine *engine);

#endif
