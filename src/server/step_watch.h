/* A watch over the engine's steps: one that lasts longer than it may has hung (a broken machine, a page that never
 * comes from a network disk), and a server that hangs is worse than one that ends and is started anew.
 *
 * A thread looks now and then; what happens then is the caller's, for nothing below the command line ends a process. */
#ifndef QN_SERVER_STEP_WATCH_H
#define QN_SERVER_STEP_WATCH_H

#include <stdint.h>

#include "base/error.h"

typedef struct qn_step_watch qn_step_watch;

typedef struct qn_step_watch_options {
    uint64_t limit_us;                          /* above 0 */
    uint64_t (*step_started_us)(void *context); /* of the step that is running, by qn_now_us; 0: none is */
    void (*on_overdue)(void *context);          /* called once, after a line in the log, on the watch's thread */
    void *context;
} qn_step_watch_options;

/* Starts the thread. QN_RESOURCE: no memory, or no thread. */
qn_status qn_step_watch_new(const qn_step_watch_options *options, qn_step_watch **out, qn_error *err);
void qn_step_watch_free(qn_step_watch *watch); /* joins the thread; NULL is fine */

#endif
