/* Drafts from the MTP layer, for all requests of a step at once (docs/engine.md).
 *
 * The layer keeps an entry for every position of a sequence, made from the target's own hidden state there and the
 * token that follows: `follow` writes them, without a gap, for the rows that a step computed. From the last of them
 * `propose` drafts: each draft is sampled with the noise that the target will use at its position, and feeds the next
 * one of the chain. Entries that the chain writes are written again by the next `follow`. While a request does not
 * draft, its entries are put off and made many at a time, so that speculation costs next to nothing where it does not
 * pay. Internal to this room. */
#ifndef QN_ENGINE_DRAFTING_H
#define QN_ENGINE_DRAFTING_H

#include "engine/engine_internal.h"

/* Decides how many drafts each part of the step makes next, and makes the entries of the positions that the parts keep,
 * or puts them off; the tokens behind them are known. A request whose entries can't be computed
 * goes on without drafts, with a line saying so. */
void qn_follow(qn_engine *engine);

/* Drafts of the step's parts that go on, behind their tokens: job->draft_count of them. */
void qn_propose(qn_engine *engine);

#endif
