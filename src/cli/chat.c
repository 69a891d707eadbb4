/* The chat of `quern run`: lines in through libedit, answers out as they come.
 *
 * Ctrl-C ends what is going on: an answer, or the line being typed; a second one, with nothing in between, leaves. The
 * signal only counts; the loop and the engine's steps look at the count. It is blocked but for the time of an answer
 * and of waiting for a key: one counted anywhere else would wait to be looked at until the next key. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/answer.h"
#include "cli/command.h"
#include "cli/line_editor.h"
#include "cli/run_options.h"

static const char HELP[] = "/help   shows this\n"
                           "/reset  forgets the conversation (the system message stays)\n"
                           "/quit   leaves, as Ctrl-D does\n"
                           "Ctrl-C ends an answer; twice, it leaves. A line that ends in \\ goes on in the next one.\n"
                           "A message that begins with / needs a space before it.\n";

static volatile sig_atomic_t interrupts;

typedef struct chat {
    const qn_run_options *options;
    qn_engine *engine;
    qn_line_editor *editor;
    json_t *messages;
    qn_buffer line; /* what was typed, over its continuations */
    bool leaving;
} chat;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupts = interrupts < 2 ? interrupts + 1 : 2;
}

static bool interrupted(void)
{
    return interrupts > 0;
}

static sigset_t interrupt_alone(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

static void catch_interrupts(struct sigaction *before, sigset_t *mask_before)
{
    const sigset_t interrupt = interrupt_alone();
    sigprocmask(SIG_BLOCK, &interrupt, mask_before);
    /* Restarted, so that an interrupt does not break a write of the answer; the line editor waits in ppoll, which
     * returns all the same. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, before);
}

/* Ctrl-D leaves; a first Ctrl-C drops the line, a second with nothing typed before it leaves. */
static void no_line(chat *c, qn_line_event event)
{
    c->leaving = event == QN_LINE_END || interrupts > 1;
    fputs(c->leaving ? "\n" : "\n(Ctrl-C again, Ctrl-D or /quit leaves)\n", stdout);
}

/* A whole message into c->line, lines that end in a backslash joined; false when there is none. */
static bool read_message(chat *c)
{
    qn_buffer *line = &c->line;
    qn_buffer_clear(line);
    for (;;) {
        qn_line_event event = qn_line_editor_read(c->editor, line->size > 0 ? ". " : "> ", line);
        if (event != QN_LINE_TEXT) {
            no_line(c, event);
            return false;
        }
        interrupts = 0;
        if (line->size == 0 || line->data[line->size - 1] != '\\') {
            break;
        }
        line->data[line->size - 1] = '\n';
    }
    const char *text = qn_buffer_string(line);
    if (text[strspn(text, " \t\n")] == '\0') {
        return false;
    }
    if (strchr(text, '\n') == NULL) {
        qn_line_editor_remember(c->editor, text);
    }
    return true;
}

static qn_status start_over(chat *c, qn_error *err)
{
    const char *system = c->options->system;
    json_array_clear(c->messages);
    return system != NULL ? qn_run_add_message(c->messages, "system", system, strlen(system), err) : QN_OK;
}

static qn_status obey(chat *c, const char *word, qn_error *err)
{
    if (strcmp(word, "/help") == 0) {
        fputs(HELP, stdout);
    } else if (strcmp(word, "/reset") == 0) {
        fputs("A new conversation.\n", stdout);
        return start_over(c, err);
    } else if (strcmp(word, "/quit") == 0 || strcmp(word, "/exit") == 0) {
        c->leaving = true;
    } else {
        printf("%s is no command: /help lists them; a space before it makes it a message.\n", word);
    }
    return QN_OK;
}

/* The answer becomes part of the conversation, its thinking as reasoning_content, which the template places. */
static qn_status remember(chat *c, const qn_shown_answer *answer, qn_error *err)
{
    qn_status status = qn_run_add_message(c->messages, "assistant", qn_buffer_string(&answer->content),
                                          answer->content.size, err);
    if (status == QN_OK && answer->reasoning.size > 0) {
        json_t *message = json_array_get(c->messages, json_array_size(c->messages) - 1);
        json_t *reasoning = json_stringn(answer->reasoning.data, answer->reasoning.size);
        if (json_object_set_new(message, "reasoning_content", reasoning) != 0) {
            status = qn_fail_memory(err, "messages", answer->reasoning.size);
        }
    }
    return status;
}

static qn_status answer(chat *c, qn_error *err)
{
    qn_tokens prompt = {0};
    qn_shown_answer shown = {.thinking = c->options->show_thinking ? QN_THINKING_SHOW : QN_THINKING_FOLD,
                             .interrupted = interrupted};
    qn_request request = {.prompt_count = 0};
    qn_result result;
    qn_status status = qn_run_prompt(c->options, c->engine, c->messages, &prompt, err);
    if (status == QN_OK) {
        request = qn_run_request(c->options, c->engine, &prompt);
        status = qn_run_sampling(c->options, c->engine, &request.sampling, err);
    }
    if (status == QN_OK) {
        status = qn_shown_answer_run(&shown, c->engine, &request, &result, err);
    }
    if (status == QN_OK) {
        if (result.finish == QN_FINISH_CANCELLED) {
            fputs("(interrupted)\n", stdout);
        }
        qn_shown_answer_log_timings(&result, &request.sampling, 0);
        status = remember(c, &shown, err);
        qn_result_free(&result);
    }
    qn_shown_answer_free(&shown);
    qn_tokens_free(&prompt);
    return status;
}

/* A message that can't be answered (too long, not UTF-8) is told and forgotten; the chat goes on. */
static qn_status converse(chat *c, qn_error *err)
{
    if (c->line.failed) {
        return qn_fail_memory(err, "message", c->line.size);
    }
    const sigset_t interrupt = interrupt_alone();
    qn_status status = qn_run_add_message(c->messages, "user", c->line.data, c->line.size, err);
    if (status == QN_OK) {
        sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
        status = answer(c, err);
        sigprocmask(SIG_BLOCK, &interrupt, NULL);
        if (status == QN_USAGE) {
            json_array_remove(c->messages, json_array_size(c->messages) - 1);
        }
    }
    if (status == QN_USAGE) {
        qn_log_error(err);
        qn_log("the message was dropped: /reset begins a new conversation");
        status = QN_OK;
    }
    c->leaving = interrupts > 1;
    interrupts = 0;
    return status;
}

static qn_status converse_to_the_end(chat *c, qn_error *err)
{
    qn_status status = start_over(c, err);
    fputs("Type a message; /help lists the commands.\n", stdout);
    while (status == QN_OK && !c->leaving) {
        if (!read_message(c)) {
            continue;
        }
        const char *line = qn_buffer_string(&c->line);
        status = line[0] == '/' ? obey(c, line, err) : converse(c, err);
        if (status == QN_OK) {
            status = qn_stdout_check(err);
        }
    }
    return status;
}

qn_status qn_run_chat(const qn_run_options *options, qn_engine *engine, qn_error *err)
{
    struct sigaction before;
    sigset_t mask_before;
    chat c = {.options = options, .engine = engine, .messages = json_array()};
    if (c.messages == NULL) {
        return qn_fail_memory(err, "conversation", sizeof(json_t));
    }
    interrupts = 0;
    qn_status status = qn_line_editor_open(options->history, &interrupts, &c.editor, err);
    if (status == QN_OK) {
        catch_interrupts(&before, &mask_before);
        status = converse_to_the_end(&c, err);
        sigprocmask(SIG_SETMASK, &mask_before, NULL); /* one that comes until here is still the chat's */
        sigaction(SIGINT, &before, NULL);
    }
    qn_line_editor_close(c.editor);
    qn_buffer_free(&c.line);
    json_decref(c.messages);
    return status;
}
