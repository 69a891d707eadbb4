/* One answer on its way to the terminal: streamed text, thinking shown, hidden or folded into a line, and the timings
 * afterwards. What run's single answers and its chat share. */
#ifndef QN_CLI_ANSWER_H
#define QN_CLI_ANSWER_H

#include <stdbool.h>

#include "base/buffer.h"
#include "engine/engine.h"

typedef enum qn_thinking {
    QN_THINKING_HIDE, /* not on stdout; a line on stderr while it lasts, when that is a terminal */
    QN_THINKING_SHOW, /* before the answer, an empty line between; dim on a terminal */
    QN_THINKING_FOLD  /* one dim line that counts tokens */
} qn_thinking;

/* Start from {.thinking = ...}; release with qn_shown_answer_free. */
typedef struct qn_shown_answer {
    qn_thinking thinking;
    bool collect_only;            /* nothing is printed (--json) */
    bool (*interrupted)(void);    /* asked at every step: true ends the answer; NULL: never */
    qn_buffer reasoning, content; /* the whole text so far */

    /* The rest belongs to answer.c. */
    bool prints_to_terminal, status_shown, thinking_open;
    size_t reasoning_tokens;
    uint64_t status_drawn_us;
    qn_error error; /* status QN_OK: none */
} qn_shown_answer;

/* Runs the request and prints the answer as it comes, with a newline at its end. QN_RESOURCE when stdout can't be
 * written. *result as from qn_engine_generate: the caller releases it. */
qn_status qn_shown_answer_run(qn_shown_answer *answer, qn_engine *engine, const qn_request *request, qn_result *result,
                              qn_error *err);
void qn_shown_answer_free(qn_shown_answer *answer);

/* One line on stderr: tokens and speed of prompt and answer, what speculation did, the seed when sampling. load_us 0:
 * not told. */
void qn_shown_answer_log_timings(const qn_result *result, const qn_sampling *sampling, uint64_t load_us);

#endif
