/* Second moments of what enters the routed experts, gathered while a text runs through the model: what
 * checkpoint/importance.h reads, in the file and by the names that it tells.
 *
 * A position counts once, with the window that scores its prediction (engine/windows.h), so n scored tokens give
 * n * num_experts_per_tok to the counts of every sparse layer. The MTP layer runs teacher-forced behind each window, as
 * in `eval logits --mtp`, and its experts count likewise. Inputs are taken in float32, before they are rounded to BF16,
 * and squared, divided by their mean square and added in float64 in the order of the text: the sums depend neither on
 * threads nor on chunks. Internal to this room but for making and finishing one. */
#ifndef QN_ENGINE_COLLECT_H
#define QN_ENGINE_COLLECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/windows.h"

typedef struct qn_collect qn_collect;

/* Room for the sums of all sparse layers, 8 bytes for each input of each expert (1.3 GB for GLM-5.3), and for a
 * window's hidden states where there is an MTP layer; a log line tells how much. Begins to write the file at path, so
 * that a place where none can be is found before the work. QN_USAGE when the model has no routed experts. The engine
 * outlives it. */
qn_status qn_collect_new(qn_engine *engine, size_t context, const char *path, qn_collect **out, qn_error *err);
void qn_collect_free(qn_collect *collect); /* NULL is fine; a file that is not finished goes */

/* Writes the sums, in float32, and puts the file in its place; a log line tells what was seen. */
qn_status qn_collect_finish(qn_collect *collect, qn_error *err);

/* For each window: window, then the pass with this observer, its hidden states handed on, then mtp with the window's
 * ids. */
void qn_collect_window(qn_collect *collect, const qn_window *window);
qn_observer qn_collect_observer(qn_collect *collect);
void qn_collect_hidden(qn_collect *collect, size_t start, size_t count, const float *hidden);
qn_status qn_collect_mtp(qn_collect *collect, const int32_t *ids, qn_error *err);

#endif
