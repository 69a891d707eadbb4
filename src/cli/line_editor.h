/* Lines typed on a terminal, with editing and history (libedit). */
#ifndef QN_CLI_LINE_EDITOR_H
#define QN_CLI_LINE_EDITOR_H

#include <signal.h>

#include "base/buffer.h"
#include "base/error.h"

typedef struct qn_line_editor qn_line_editor;

typedef enum qn_line_event {
    QN_LINE_TEXT,        /* a line */
    QN_LINE_INTERRUPTED, /* SIGINT came while it was being typed: what was typed is dropped */
    QN_LINE_END          /* Ctrl-D, or the terminal is gone */
} qn_line_event;

/* history_file: read now and written at close; NULL: history is not kept. interrupts: a counter that the caller's
 * handler of SIGINT raises. One editor at a time, on stdin and stdout. */
qn_status qn_line_editor_open(const char *history_file, const volatile sig_atomic_t *interrupts, qn_line_editor **out,
                              qn_error *err);
void qn_line_editor_close(qn_line_editor *editor); /* NULL is fine */

/* Waits for a line and appends it to `line`, without its newline. The caller has SIGINT blocked from before it prints
 * what invites one, and it is let in only while a key is waited for: so none is missed, however early it comes. */
qn_line_event qn_line_editor_read(qn_line_editor *editor, const char *prompt, qn_buffer *line);

/* Adds a line to the history. */
void qn_line_editor_remember(qn_line_editor *editor, const char *line);

#endif
