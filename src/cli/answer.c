#include "cli/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/command.h"

enum { STATUS_INTERVAL_US = 100000 };

static const char DIM[] = "\x1b[2m", PLAIN[] = "\x1b[0m", CLEAR_LINE[] = "\r\x1b[K";

/* Dim text, where the terminal knows it and the user does not mind (https://no-color.org). */
static bool may_style(void)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    return (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

static void style(const qn_shown_answer *a, const char *code)
{
    if (a->prints_to_terminal && may_style()) {
        fputs(code, stdout);
    }
}

/* A model's text could hold control sequences; on a terminal they are shown as U+FFFD, not obeyed. */
static bool is_control(uint32_t code)
{
    return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
}

static void print_text(const qn_shown_answer *a, const char *text, size_t bytes)
{
    if (!a->prints_to_terminal) {
        fwrite(text, 1, bytes, stdout);
        return;
    }
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t length = qn_utf8_decode(text + at, bytes - at, &code);
        if (length == 0 || is_control(code)) {
            fputs("\xef\xbf\xbd", stdout);
            length = length == 0 ? 1 : length;
        } else {
            fwrite(text + at, 1, length, stdout);
        }
        at += length;
    }
}

/* Folded thinking counts on stdout, where its line will stay; hidden thinking on stderr. */
static FILE *status_stream(const qn_shown_answer *a)
{
    if (a->thinking == QN_THINKING_FOLD) {
        return a->prints_to_terminal ? stdout : NULL;
    }
    return isatty(STDERR_FILENO) ? stderr : NULL;
}

static void draw_status(qn_shown_answer *a, const char *end)
{
    FILE *stream = status_stream(a);
    if (stream != NULL) {
        bool styled = may_style();
        fprintf(stream, "%s%sthinking \xe2\x80\xa6 (%zu tokens)%s%s", CLEAR_LINE, styled ? DIM : "",
                a->reasoning_tokens, styled ? PLAIN : "", end);
        fflush(stream);
        a->status_shown = true;
    }
}

static void clear_status(qn_shown_answer *a)
{
    FILE *stream = status_stream(a);
    if (a->status_shown && stream != NULL) {
        fputs(CLEAR_LINE, stream);
        fflush(stream);
    }
    a->status_shown = false;
}

static void take_reasoning(qn_shown_answer *a, const qn_output_event *output)
{
    if (a->thinking == QN_THINKING_SHOW) {
        if (!a->thinking_open) {
            style(a, DIM);
        }
        print_text(a, output->text, output->bytes);
    } else if (qn_now_us() - a->status_drawn_us >= STATUS_INTERVAL_US) {
        draw_status(a, "");
        a->status_drawn_us = qn_now_us();
    }
    a->thinking_open = true;
}

static void close_thinking(qn_shown_answer *a)
{
    if (!a->thinking_open) {
        return;
    }
    a->thinking_open = false;
    if (a->thinking == QN_THINKING_SHOW) {
        style(a, PLAIN);
        fputs("\n\n", stdout);
    } else if (a->thinking == QN_THINKING_FOLD) {
        draw_status(a, "\n");
        a->status_shown = false;
    } else {
        clear_status(a);
    }
}

static bool on_output(void *context, const qn_output_event *output)
{
    qn_shown_answer *a = context;
    bool content = output->kind == QN_OUTPUT_CONTENT;
    qn_buffer *text = content ? &a->content : &a->reasoning;
    qn_buffer_append(text, output->text, output->bytes);
    if (text->failed) {
        qn_fail_memory(&a->error, "the answer's text", text->size);
        return false;
    }
    a->reasoning_tokens = output->reasoning_tokens;
    if (a->collect_only) {
        return true;
    }
    if (content) {
        close_thinking(a);
        print_text(a, output->text, output->bytes);
    } else {
        take_reasoning(a, output);
    }
    return qn_stdout_check(&a->error) == QN_OK;
}

static bool still_wanted(void *context)
{
    const qn_shown_answer *a = context;
    return a->interrupted == NULL || !a->interrupted();
}

static bool on_step(void *context, const qn_step *step)
{
    (void)step;
    return still_wanted(context);
}

static void end_text(qn_shown_answer *a)
{
    bool show = a->thinking == QN_THINKING_SHOW;
    bool only_thought = a->content.size == 0 && a->reasoning.size > 0;
    if (only_thought && show) {
        style(a, PLAIN);
        a->thinking_open = false;
    }
    close_thinking(a);
    const qn_buffer *last = a->content.size > 0 ? &a->content : &a->reasoning;
    bool printed = a->content.size > 0 || (only_thought && show);
    if (printed && last->data[last->size - 1] != '\n') {
        fputc('\n', stdout);
    }
    if (only_thought && a->thinking == QN_THINKING_HIDE) {
        qn_log("the answer ended while thinking: --show-thinking shows it, a larger --max-tokens lets it go on");
    }
}

qn_status qn_shown_answer_run(qn_shown_answer *answer, qn_engine *engine, const qn_request *request, qn_result *result,
                              qn_error *err)
{
    const qn_listener listener = {.context = answer,
                                  .on_start = still_wanted,
                                  .on_output = on_output,
                                  .on_step = on_step,
                                  .on_idle = still_wanted};
    answer->prints_to_terminal = isatty(STDOUT_FILENO);
    qn_status status = qn_engine_generate(engine, request, &listener, result, err);
    if (!answer->collect_only) {
        end_text(answer);
    }
    if (status == QN_OK && answer->error.status == QN_OK) {
        qn_stdout_check(&answer->error);
    }
    if (status == QN_OK && answer->error.status != QN_OK) {
        qn_result_free(result);
        *err = answer->error;
        status = err->status;
    }
    return status;
}

void qn_shown_answer_free(qn_shown_answer *answer)
{
    qn_buffer_free(&answer->reasoning);
    qn_buffer_free(&answer->content);
}

void qn_shown_answer_log_timings(const qn_result *result, const qn_sampling *sampling, uint64_t load_us)
{
    qn_buffer line = {0};
    if (load_us > 0) {
        qn_buffer_format(&line, "load %.2f s; ", (double)load_us / 1e6);
    }
    qn_buffer_format(&line, "prompt %zu tokens, %.1f tok/s; ", result->prompt_tokens,
                     qn_per_second(result->prompt_tokens, result->timings.prefill_us));
    /* The first token comes with the prompt; decoding makes the others. */
    size_t decoded = result->completion_tokens > 0 ? result->completion_tokens - 1 : 0;
    qn_buffer_format(&line, "decode %zu tokens, %.1f tok/s", result->completion_tokens,
                     qn_per_second(decoded, result->timings.decode_us));
    if (result->timings.drafts_proposed > 0) {
        qn_buffer_format(&line, "; MTP %zu of %zu drafts accepted (%.1f %%), %zu steps",
                         result->timings.drafts_accepted, result->timings.drafts_proposed,
                         100.0 * (double)result->timings.drafts_accepted / (double)result->timings.drafts_proposed,
                         result->timings.steps);
    }
    if (sampling->temperature > 0.0F) {
        qn_buffer_format(&line, "; seed %lld", (long long)sampling->seed);
    }
    qn_log("%s", qn_buffer_string(&line));
    qn_buffer_free(&line);
}
