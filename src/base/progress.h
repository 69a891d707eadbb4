/* How far long work is, for people on stderr or for programs as JSON lines.
 *
 * On a terminal a bar is drawn in place, at most ten times a second: share, rate and time left; finish clears it.
 * Otherwise plain lines go through log.h: the first after 10 s, so that short work stays silent, then one every 30 s,
 * and one at the end if there was any before. With a stream for JSON, that gets lines instead, at most two a second and
 * always the last state:
 *   {"progress":{"label":"converting","unit":"bytes","done":50,"total":200,"rate":5.0,"eta_s":30}}
 * rate is per second, eta_s null while there is none to be told.
 *
 * The rate is of late: work of t seconds ago counts by e^(-t/30). `total` and `done` are in the given unit ("files",
 * "tokens"); people see "bytes" as kB, MB, GB.
 *
 * Update and add may be called by any number of threads; one of them at a time reports and the others go on. Start and
 * finish belong to one thread, before the first and after the last of the others' calls. A report that can't be written
 * is no failure of the work. */
#ifndef QN_BASE_PROGRESS_H
#define QN_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum qn_progress_style {
    QN_PROGRESS_AUTO, /* a bar when stderr is a terminal, else lines; JSON when a stream for it is given */
    QN_PROGRESS_BAR,
    QN_PROGRESS_LINES,
    QN_PROGRESS_JSON,
    QN_PROGRESS_OFF
} qn_progress_style;

typedef struct qn_progress_setup {
    const char *label, *unit; /* the caller's, UTF-8, until finish */
    uint64_t total;           /* 0: nothing to do, shown as 100 % */
    uint64_t done;            /* by an earlier run: counts for the share, not for the rate */
    qn_progress_style style;
    FILE *json;                        /* the caller's, flushed after each line */
    uint64_t (*now_us)(void *context); /* NULL: the clock of clock.h */
    void *clock;                       /* now_us's context */
} qn_progress_setup;

typedef struct qn_progress {
    qn_progress_setup setup;
    _Atomic uint64_t done;
    _Atomic uint64_t next_us; /* nothing to report before that */
    atomic_flag reporting;    /* held by the thread that has the fields below */
    uint64_t started_us, line_us, sampled_us, sampled_done, reported_done;
    double recent_done, recent_s; /* both fading alike */
    bool reported;
} qn_progress;

void qn_progress_begin(qn_progress *p, const qn_progress_setup *setup);
void qn_progress_start(qn_progress *p, const char *label, const char *unit, uint64_t total); /* begin, AUTO */

void qn_progress_update(qn_progress *p, uint64_t done); /* so much in all; less than before changes nothing */
void qn_progress_add(qn_progress *p, uint64_t count);   /* so much more */

void qn_progress_finish(qn_progress *p); /* a second time does nothing */

#endif
