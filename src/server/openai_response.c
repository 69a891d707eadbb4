#include "server/openai_response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

void qn_chat_head_start(qn_chat_head *head, const char *request_id)
{
    snprintf(head->id, sizeof head->id, "chatcmpl-%s", request_id);
    head->created = qn_unix_seconds();
}

static void write_string(qn_buffer *out, const char *text)
{
    qn_buffer_json_string(out, text, strlen(text));
}

static void write_string_or_null(qn_buffer *out, const qn_buffer *text)
{
    if (text->size > 0) {
        qn_buffer_json_string(out, qn_buffer_string(text), text->size);
    } else {
        qn_buffer_text(out, "null");
    }
}

static void write_head(qn_buffer *out, const qn_chat_head *head, const char *object)
{
    qn_buffer_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", head->id, object,
                     head->created);
    write_string(out, head->model);
}

static void write_ids(qn_buffer *out, const char *name, const int32_t *ids, size_t count)
{
    qn_buffer_format(out, ",\"%s\":[", name);
    for (size_t i = 0; i < count; i++) {
        qn_buffer_format(out, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
    }
    qn_buffer_char(out, ']');
}

static void write_prompt_part(qn_buffer *out, const qn_chat_prompt_part *prompt)
{
    if (prompt->logprobs != NULL) {
        qn_buffer_text(out, ",\"prompt_logprobs\":");
        qn_buffer_append(out, qn_buffer_string(prompt->logprobs), prompt->logprobs->size);
        out->failed = out->failed || prompt->logprobs->failed;
    }
    if (prompt->ids != NULL) {
        write_ids(out, "prompt_token_ids", prompt->ids, prompt->id_count);
    }
}

/* "logprobs" and "token_ids" of a choice; NULL: it has no tokens. */
static void write_tokens(qn_buffer *out, const qn_chat_tokens *tokens)
{
    if (tokens != NULL && tokens->logprobs != NULL) {
        qn_buffer_text(out, ",\"logprobs\":{\"content\":[");
        qn_buffer_append(out, qn_buffer_string(tokens->logprobs), tokens->logprobs->size);
        out->failed = out->failed || tokens->logprobs->failed;
        qn_buffer_text(out, "]}");
    } else {
        qn_buffer_text(out, ",\"logprobs\":null");
    }
    if (tokens != NULL && tokens->with_ids) {
        write_ids(out, "token_ids", tokens->ids, tokens->id_count);
    }
}

/* finish_reason as OpenAI has it, and vLLM's stop_reason: the stop string, the stop token, or null. */
static void write_finish(qn_buffer *out, const qn_result *result)
{
    qn_buffer_format(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", qn_finish_name(result->finish));
    if (result->stop_matched != NULL) {
        write_string(out, result->stop_matched);
    } else if (result->stop_token >= 0) {
        qn_buffer_format(out, "%" PRId32, result->stop_token);
    } else {
        qn_buffer_text(out, "null");
    }
    qn_buffer_char(out, '}');
}

static void write_usage(qn_buffer *out, const qn_chat_head *head, const qn_answer_totals *totals)
{
    const qn_timings *t = &totals->timings;
    qn_buffer_format(out, ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu",
                     t->prompt_tokens, t->completion_tokens, t->prompt_tokens + t->completion_tokens);
    qn_buffer_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%zu}", totals->reasoning_tokens);
    if (head->prompt_details) {
        qn_buffer_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%zu}", t->cached_tokens);
    }
    qn_buffer_char(out, '}');
}

/* Rates and draft_n* are named, and draft_n* told again, as llama.cpp has them, which clients read already. The first
 * token of each choice comes with the prompt; decoding makes the others. */
static void write_timings(qn_buffer *out, const qn_answer_totals *totals)
{
    const qn_timings *t = &totals->timings;
    size_t decoded = t->completion_tokens > totals->choices ? t->completion_tokens - totals->choices : 0;
    size_t computed = t->prompt_tokens > t->cached_tokens ? t->prompt_tokens - t->cached_tokens : 0;
    qn_buffer_format(out,
                     ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"longest_gap_ms\":%.3f,"
                     "\"prompt_tokens\":%zu,"
                     "\"cached_tokens\":%zu,\"completion_tokens\":%zu,\"prompt_per_second\":%.3f,"
                     "\"predicted_per_second\":%.3f",
                     (double)t->queue_us / 1e3, (double)t->prefill_us / 1e3, (double)t->decode_us / 1e3,
                     (double)t->longest_gap_us / 1e3, t->prompt_tokens, t->cached_tokens, t->completion_tokens,
                     qn_per_second(computed, t->prefill_us), qn_per_second(decoded, t->decode_us));
    qn_buffer_format(out, ",\"drafts\":%zu,\"drafts_accepted\":%zu,\"draft_n\":%zu,\"draft_n_accepted\":%zu",
                     t->drafts_proposed, t->drafts_accepted, t->drafts_proposed, t->drafts_accepted);
    qn_buffer_format(out, ",\"preemptions\":%zu,\"seed\":%" PRId64 "}", t->preemptions, totals->seed);
}

static void write_choice(qn_buffer *out, const qn_chat_choice *choice)
{
    qn_buffer_format(out, "{\"index\":%zu,\"message\":{\"role\":\"assistant\",\"content\":", choice->index);
    if (choice->content->size == 0 && choice->reasoning->size == 0) {
        qn_buffer_text(out, "\"\"");
    } else {
        write_string_or_null(out, choice->content);
    }
    qn_buffer_text(out, ",\"reasoning_content\":");
    write_string_or_null(out, choice->reasoning);
    qn_buffer_text(out, ",\"reasoning\":");
    write_string_or_null(out, choice->reasoning);
    qn_buffer_char(out, '}');
    write_tokens(out, &choice->tokens);
    write_finish(out, choice->result);
}

void qn_chat_write_answer(qn_buffer *out, const qn_chat_head *head, const qn_chat_choice *choices, size_t count,
                          const qn_chat_prompt_part *prompt, const qn_answer_totals *totals)
{
    write_head(out, head, "chat.completion");
    qn_buffer_text(out, ",\"choices\":[");
    for (size_t i = 0; i < count; i++) {
        qn_buffer_text(out, i > 0 ? "," : "");
        write_choice(out, &choices[i]);
    }
    qn_buffer_char(out, ']');
    write_prompt_part(out, prompt);
    write_usage(out, head, totals);
    write_timings(out, totals);
    qn_buffer_char(out, '}');
}

/* A chunk up to the place where its delta's fields go. */
static void open_chunk(qn_buffer *out, const qn_chat_head *head, size_t index)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_format(out, ",\"choices\":[{\"index\":%zu,\"delta\":{", index);
}

static void close_chunk(qn_buffer *out, const qn_chat_head *head)
{
    qn_buffer_text(out, head->include_usage ? ",\"usage\":null}" : "}");
}

void qn_chat_write_role_chunk(qn_buffer *out, const qn_chat_head *head, size_t index, const qn_chat_prompt_part *prompt)
{
    open_chunk(out, head, index);
    qn_buffer_text(out, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]");
    write_prompt_part(out, prompt);
    close_chunk(out, head);
}

void qn_chat_write_text_chunk(qn_buffer *out, const qn_chat_head *head, size_t index, qn_output_kind kind,
                              const char *text, size_t bytes, const qn_chat_tokens *tokens)
{
    open_chunk(out, head, index);
    if (kind == QN_OUTPUT_REASONING) {
        qn_buffer_text(out, "\"reasoning_content\":");
        qn_buffer_json_string(out, text, bytes);
        qn_buffer_text(out, ",\"reasoning\":");
    } else {
        qn_buffer_text(out, "\"content\":");
    }
    qn_buffer_json_string(out, text, bytes);
    qn_buffer_char(out, '}');
    write_tokens(out, tokens);
    qn_buffer_text(out, ",\"finish_reason\":null}]");
    close_chunk(out, head);
}

void qn_chat_write_finish_chunk(qn_buffer *out, const qn_chat_head *head, size_t index, const qn_result *result,
                                const qn_chat_tokens *tokens, const qn_answer_totals *totals)
{
    open_chunk(out, head, index);
    qn_buffer_char(out, '}');
    write_tokens(out, tokens);
    write_finish(out, result);
    qn_buffer_char(out, ']');
    write_timings(out, totals);
    close_chunk(out, head);
}

void qn_chat_write_usage_chunk(qn_buffer *out, const qn_chat_head *head, const qn_answer_totals *totals)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[]");
    write_usage(out, head, totals);
    qn_buffer_char(out, '}');
}
