#include "server/openai_response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static void write_string_or_null(qn_buffer *out, const qn_buffer *text)
{
    if (text->size > 0) {
        qn_buffer_json_string(out, qn_buffer_string(text), text->size);
    } else {
        qn_buffer_text(out, "null");
    }
}

static void write_prompt_part(qn_buffer *out, const qn_chat_prompt_part *prompt)
{
    if (prompt->logprobs != NULL) {
        qn_buffer_text(out, ",\"prompt_logprobs\":");
        qn_buffer_append(out, qn_buffer_string(prompt->logprobs), prompt->logprobs->size);
        out->failed = out->failed || prompt->logprobs->failed;
    }
    if (prompt->ids != NULL) {
        qn_openai_write_ids(out, "prompt_token_ids", prompt->ids, prompt->id_count);
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
        qn_openai_write_ids(out, "token_ids", tokens->ids, tokens->id_count);
    }
}

static bool has_calls(const qn_chat_choice *choice)
{
    return choice->calls != NULL && choice->calls->size > 0;
}

static void write_choice(qn_buffer *out, const qn_chat_choice *choice)
{
    qn_buffer_format(out, "{\"index\":%zu,\"message\":{\"role\":\"assistant\",\"content\":", choice->index);
    if (choice->content->size == 0 && choice->reasoning->size == 0 && !has_calls(choice)) {
        qn_buffer_text(out, "\"\"");
    } else {
        write_string_or_null(out, choice->content);
    }
    qn_buffer_text(out, ",\"reasoning_content\":");
    write_string_or_null(out, choice->reasoning);
    qn_buffer_text(out, ",\"reasoning\":");
    write_string_or_null(out, choice->reasoning);
    if (has_calls(choice)) {
        qn_buffer_text(out, ",\"tool_calls\":[");
        qn_buffer_append(out, choice->calls->data, choice->calls->size);
        qn_buffer_char(out, ']');
    }
    qn_buffer_char(out, '}');
    write_tokens(out, &choice->tokens);
    qn_openai_write_finish(out, choice->result, has_calls(choice));
    qn_buffer_char(out, '}');
}

static void write_name(qn_buffer *out, const char *call_id, const qn_output_event *call)
{
    qn_buffer_format(out, "\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":", call_id);
    qn_buffer_json_string(out, call->text, call->bytes);
    qn_buffer_text(out, ",\"arguments\":");
}

void qn_chat_write_call(qn_buffer *out, const char *call_id, const qn_output_event *call, const qn_buffer *arguments)
{
    qn_buffer_char(out, '{');
    write_name(out, call_id, call);
    qn_buffer_json_string(out, qn_buffer_string(arguments), arguments->size);
    qn_buffer_text(out, "}}");
    out->failed = out->failed || arguments->failed;
}

void qn_chat_write_answer(qn_buffer *out, const qn_openai_head *head, const qn_chat_choice *choices, size_t count,
                          const qn_chat_prompt_part *prompt, const qn_answer_totals *totals)
{
    qn_openai_write_head(out, head, "chat.completion");
    qn_buffer_text(out, ",\"choices\":[");
    for (size_t i = 0; i < count; i++) {
        qn_buffer_text(out, i > 0 ? "," : "");
        write_choice(out, &choices[i]);
    }
    qn_buffer_char(out, ']');
    write_prompt_part(out, prompt);
    qn_openai_write_usage(out, head, totals);
    qn_openai_write_timings(out, totals);
    qn_buffer_char(out, '}');
}

/* A chunk up to the place where its delta's fields go. */
static void open_chunk(qn_buffer *out, const qn_openai_head *head, size_t index)
{
    qn_openai_write_head(out, head, "chat.completion.chunk");
    qn_buffer_format(out, ",\"choices\":[{\"index\":%zu,\"delta\":{", index);
}

static void close_chunk(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *so_far)
{
    qn_openai_write_chunk_usage(out, head, so_far);
    qn_buffer_char(out, '}');
}

void qn_chat_write_role_chunk(qn_buffer *out, const qn_openai_head *head, size_t index,
                              const qn_chat_prompt_part *prompt, const qn_answer_totals *so_far)
{
    open_chunk(out, head, index);
    qn_buffer_text(out, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]");
    write_prompt_part(out, prompt);
    close_chunk(out, head, so_far);
}

void qn_chat_write_text_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, qn_output_kind kind,
                              const char *text, size_t bytes, const qn_chat_tokens *tokens,
                              const qn_answer_totals *so_far)
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
    close_chunk(out, head, so_far);
}

void qn_chat_write_call_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, const qn_output_event *part,
                              const char *call_id, const qn_chat_tokens *tokens, const qn_answer_totals *so_far)
{
    open_chunk(out, head, index);
    qn_buffer_format(out, "\"tool_calls\":[{\"index\":%zu,", part->call);
    if (part->kind == QN_OUTPUT_CALL) {
        write_name(out, call_id, part);
        qn_buffer_text(out, "\"\"");
    } else {
        qn_buffer_text(out, "\"function\":{\"arguments\":");
        qn_buffer_json_string(out, part->text, part->bytes);
    }
    qn_buffer_text(out, "}}]}");
    write_tokens(out, tokens);
    qn_buffer_text(out, ",\"finish_reason\":null}]");
    close_chunk(out, head, so_far);
}

void qn_chat_write_finish_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, const qn_result *result,
                                bool has_calls, const qn_chat_tokens *tokens, const qn_answer_totals *totals)
{
    open_chunk(out, head, index);
    qn_buffer_char(out, '}');
    write_tokens(out, tokens);
    qn_openai_write_finish(out, result, has_calls);
    qn_buffer_text(out, "}]");
    qn_openai_write_timings(out, totals);
    close_chunk(out, head, totals);
}

void qn_chat_write_usage_chunk(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *totals)
{
    qn_openai_write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[]");
    qn_openai_write_usage(out, head, totals);
    qn_buffer_char(out, '}');
}
