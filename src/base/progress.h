/* A progress bar on stderr for long work: drawn in place when stderr is a terminal, silent otherwise.
 *
 * One thread draws. `total` and `done` are in the given unit ("MB", "tokens"); the bar shows share, rate
 * and time left, at most ten times a second. Finish clears the line. */
#ifndef QN_BASE_PROGRESS_H
#define QN_BASE_PROGRESS_H

#include <stdint.h>

typedef struct qn_progress {
    const char *label, *unit;
    uint64_t total, started_us, drawn_us;
    int active; /* stderr is a terminal */
} qn_progress;

void qn_progress_start(qn_progress *p, const char *label, const char *unit, uint64_t total);
void qn_progress_update(qn_progress *p, uint64_t done);
void qn_progress_finish(qn_progress *p);

#endif
