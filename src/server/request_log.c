#include "server/request_log.h"

#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"

enum {
    TOKENS_MAX = QN_LOG_LINE_BYTES
}; /* more would not fit the line: but for special ones, each has a byte or more */

/* The bytes of the text's first `characters`. */
static size_t cut_at(const qn_buffer *text, size_t characters)
{
    size_t seen = 0;
    for (size_t i = 0; i < text->size; i++) {
        bool begins = ((unsigned char)text->data[i] & 0xc0) != 0x80;
        if (begins && seen++ == characters) {
            return i;
        }
    }
    return text->size;
}

/* As a JSON string, with "..." behind it where there is more. */
static void write_text(const qn_tokenizer *tokenizer, size_t characters, const int32_t *ids, size_t count,
                       qn_buffer *out)
{
    qn_buffer text = {0};
    qn_error err;
    size_t decoded = qn_min_size(count, TOKENS_MAX);
    if (qn_tokenizer_decode(tokenizer, ids, decoded, false, &text, &err) != QN_OK || text.failed) {
        qn_buffer_text(out, "(no text)");
    } else {
        size_t bytes = cut_at(&text, characters);
        qn_buffer_json_string(out, qn_buffer_string(&text), bytes);
        qn_buffer_text(out, bytes < text.size || decoded < count ? "..." : "");
    }
    qn_buffer_free(&text);
}

static void write_sampling(const qn_sampling *s, qn_buffer *out)
{
    qn_buffer_format(out, ", temperature %g, top_p %g, top_k %d, min_p %g, seed %lld", (double)s->temperature,
                     (double)s->top_p, (int)s->top_k, (double)s->min_p, (long long)s->seed);
    if (s->presence_penalty != 0 || s->frequency_penalty != 0) {
        qn_buffer_format(out, ", presence_penalty %g, frequency_penalty %g", (double)s->presence_penalty,
                         (double)s->frequency_penalty);
    }
    if (s->repetition_penalty != 0 && s->repetition_penalty != 1) {
        qn_buffer_format(out, ", repetition_penalty %g", (double)s->repetition_penalty);
    }
    if (s->logit_bias_count > 0) {
        qn_buffer_format(out, ", logit_bias of %zu tokens", s->logit_bias_count);
    }
}

static void write_bounds(const qn_request *base, qn_buffer *out)
{
    if (base->max_tokens > 0) {
        qn_buffer_format(out, ", max_tokens %zu", base->max_tokens);
    }
    if (base->min_tokens > 0) {
        qn_buffer_format(out, ", min_tokens %zu", base->min_tokens);
    }
    if (base->stop_count + base->stop_token_count > 0) {
        qn_buffer_format(out, ", %zu stops", base->stop_count + base->stop_token_count);
    }
    qn_buffer_text(out, base->ignore_eos ? ", ignore_eos" : "");
    if (base->priority != 0) {
        qn_buffer_format(out, ", priority %d", (int)base->priority);
    }
    if (base->timeout_us > 0) {
        qn_buffer_format(out, ", timeout %g", (double)base->timeout_us / 1e6);
    }
}

void qn_request_log_describe(const qn_request_log *log, const qn_tokenizer *tokenizer, const qn_request *base,
                             const qn_tokens *prompts, size_t prompt_count, size_t choices, qn_buffer *out)
{
    size_t tokens = 0;
    for (size_t i = 0; i < prompt_count; i++) {
        tokens += prompts[i].count;
    }
    qn_buffer_format(out, "%zu prompt tokens", tokens);
    if (prompt_count > 1) {
        qn_buffer_format(out, " in %zu prompts", prompt_count);
    }
    qn_buffer_format(out, ", n %zu", choices);
    write_sampling(&base->sampling, out);
    write_bounds(base, out);
    for (size_t i = 0; log->max_characters > 0 && i < prompt_count && out->size < QN_LOG_LINE_BYTES; i++) {
        qn_buffer_text(out, i == 0 ? "; prompt: " : ", ");
        write_text(tokenizer, log->max_characters, prompts[i].ids, prompts[i].count, out);
    }
}

void qn_request_log_taken(const qn_http_request *request, bool stream, const qn_buffer *description)
{
    qn_log("request %s: %s %s: %s%s", qn_http_request_id(request->exchange), request->method, request->path,
           stream ? "stream, " : "", description->failed ? "no memory to tell more" : qn_buffer_string(description));
}

void qn_request_log_refused(const qn_http_request *request, unsigned status)
{
    qn_log("request %s: %s %s: refused with %u", qn_http_request_id(request->exchange), request->method, request->path,
           status);
}

void qn_request_log_choice(const qn_request_log *log, const qn_tokenizer *tokenizer, const char *id, size_t index,
                           const qn_result *result)
{
    qn_buffer text = {0};
    if (log->outputs && log->max_characters > 0) {
        qn_buffer_text(&text, "; output: ");
        write_text(tokenizer, log->max_characters, result->tokens, result->completion_tokens, &text);
    }
    qn_log("request %s: choice %zu: %s after %zu tokens%s", id, index, qn_finish_name(result->finish),
           result->completion_tokens, text.failed ? "; no memory to tell more" : qn_buffer_string(&text));
    qn_buffer_free(&text);
}

void qn_request_log_left(const char *id, size_t over, size_t choices)
{
    qn_log("request %s: ended early: %zu of %zu choices were over", id, over, choices);
}
