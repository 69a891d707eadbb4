/* libedit prints the prompt, then switches the terminal, then reads: a SIGINT in between would be handled and the read
 * would wait on; so would one that is handled between two reads. So the caller keeps SIGINT blocked, but for the
 * moments of waiting for a key, which is done here: ppoll lets it in and says that it came. */
#include "cli/line_editor.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/log.h"
#include "base/memory.h"

enum { HISTORY_LINES = 1000 };

struct qn_line_editor {
    EditLine *edit;
    History *history;
    const char *history_file;
    const char *prompt;
    sigset_t while_waiting; /* the signal mask, with SIGINT let in */
    const volatile sig_atomic_t *interrupts;
    sig_atomic_t interrupts_before; /* the read */
};

static qn_line_editor *owner(EditLine *edit)
{
    void *editor = NULL;
    el_get(edit, EL_CLIENTDATA, &editor);
    return editor;
}

/* libedit's type lacks a const: it only reads the text. */
static char *prompt_text(EditLine *edit)
{
    union {
        const char *ours;
        char *libedits;
    } text = {.ours = owner(edit)->prompt};
    return text.libedits;
}

/* One byte of the terminal: 1, 0 at its end, -1 interrupted. */
static int read_byte(qn_line_editor *editor, char *byte)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const struct timespec at_once = {.tv_sec = 0};
    for (;;) {
        int ready = ppoll(&input, 1, NULL, &editor->while_waiting);
        if (ready < 0 && errno != EINTR) {
            return 0;
        }
        if (ready > 0) { /* then ppoll has let no signal in, and one that is here may have come before the byte */
            ppoll(NULL, 0, &at_once, &editor->while_waiting);
        }
        if (*editor->interrupts != editor->interrupts_before) {
            return -1;
        } /* else no signal, or another one: a change of the window's size, a stop and go on */
        if (ready > 0) {
            return read(STDIN_FILENO, byte, 1) == 1 ? 1 : 0;
        }
    }
}

/* libedit's way to ask for a character: 1, 0 at the end, -1 on failure. */
static int read_character(EditLine *edit, wchar_t *out)
{
    qn_line_editor *editor = owner(edit);
    mbstate_t state;
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte;
        int got = read_byte(editor, &byte);
        if (got != 1) {
            return got;
        }
        size_t used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1) {
            *out = L'\uFFFD';
            return 1;
        }
        if (used != (size_t)-2) {
            return 1;
        }
    }
}

/* Line editing counts characters in the locale's encoding; where that is not UTF-8, Debian's own locale does. */
static void set_locale(void)
{
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1) {
        setlocale(LC_CTYPE, "C.UTF-8");
    }
}

static void load_history(qn_line_editor *editor)
{
    HistEvent event;
    history(editor->history, &event, H_SETSIZE, HISTORY_LINES);
    history(editor->history, &event, H_SETUNIQUE, 1);
    if (editor->history_file != NULL && access(editor->history_file, F_OK) == 0 &&
        history(editor->history, &event, H_LOAD, editor->history_file) < 0) {
        qn_log("--history: %s: it is no history file: it will be written anew", editor->history_file);
    }
}

qn_status qn_line_editor_open(const char *history_file, const volatile sig_atomic_t *interrupts, qn_line_editor **out,
                              qn_error *err)
{
    qn_line_editor *editor = qn_alloc_zero(1, sizeof *editor);
    if (editor == NULL) {
        return qn_fail_memory(err, "line editor", sizeof *editor);
    }
    set_locale();
    editor->history_file = history_file;
    editor->interrupts = interrupts;
    editor->edit = el_init("quern", stdin, stdout, stderr);
    editor->history = history_init();
    if (editor->edit == NULL || editor->history == NULL) {
        qn_line_editor_close(editor);
        return qn_fail(err, QN_RESOURCE, "terminal: line editing can't start: use -p or standard input");
    }
    load_history(editor);
    el_set(editor->edit, EL_EDITOR, "emacs");
    el_set(editor->edit, EL_CLIENTDATA, editor);
    el_set(editor->edit, EL_PROMPT, prompt_text);
    el_set(editor->edit, EL_GETCFN, read_character);
    el_set(editor->edit, EL_HIST, history, editor->history);
    *out = editor;
    return QN_OK;
}

void qn_line_editor_close(qn_line_editor *editor)
{
    if (editor == NULL) {
        return;
    }
    HistEvent event;
    if (editor->history != NULL && editor->edit != NULL && editor->history_file != NULL &&
        history(editor->history, &event, H_SAVE, editor->history_file) < 0) {
        qn_log("--history: %s: it can't be written: %s", editor->history_file, strerror(errno));
    }
    if (editor->edit != NULL) {
        el_end(editor->edit);
    }
    if (editor->history != NULL) {
        history_end(editor->history);
    }
    qn_free(editor);
}

qn_line_event qn_line_editor_read(qn_line_editor *editor, const char *prompt, qn_buffer *line)
{
    int length = 0;
    editor->prompt = prompt;
    editor->interrupts_before = *editor->interrupts;
    sigprocmask(SIG_BLOCK, NULL, &editor->while_waiting);
    sigdelset(&editor->while_waiting, SIGINT);
    /* el_gets shows the prompt before it takes the terminal over: a Ctrl-D in between would be no end but a NUL. */
    el_set(editor->edit, EL_PREP_TERM, 1);
    const char *text = el_gets(editor->edit, &length);
    if (text != NULL && length > 0) {
        qn_buffer_append(line, text, (size_t)length - (text[length - 1] == '\n'));
        return QN_LINE_TEXT;
    }
    if (*editor->interrupts == editor->interrupts_before) {
        return QN_LINE_END;
    }
    el_reset(editor->edit);
    return QN_LINE_INTERRUPTED;
}

void qn_line_editor_remember(qn_line_editor *editor, const char *line)
{
    HistEvent event;
    history(editor->history, &event, H_ENTER, line);
}
