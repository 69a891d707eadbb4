#include "server/openai_response.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"

void qn_chat_head_start(qn_chat_head *head)
{
    snprintf(head->id, sizeof head->id, "chatcmpl-%016" PRIx64 "%016" PRIx64, qn_random_seed(), qn_random_seed());
    head->created = qn_unix_seconds();
}

static void write_string(qn_buffer *out, const char *text)
{
    qn_buffer_json_string(out, text, strlen(text));
}

static void write_head(qn_buffer *out, const qn_chat_head *head, const char *object)
{
    qn_buffer_format(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", head->id, object,
                     head->created);
    write_string(out, head->model);
}

static const char *finish_name(qn_finish finish)
{
    return finish == QN_FINISH_LENGTH ? "length" : "stop";
}

/* finish_reason as OpenAI has it, and vLLM's stop_reason: the stop string, or null. */
static void write_finish(qn_buffer *out, qn_finish finish, const char *stop_matched)
{
    qn_buffer_format(out, ",\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":", finish_name(finish));
    if (stop_matched != NULL) {
        write_string(out, stop_matched);
    } else {
        qn_buffer_text(out, "null");
    }
    qn_buffer_char(out, '}');
}

static void write_usage(qn_buffer *out, const qn_chat_head *head, const qn_chat_timings *timings)
{
    qn_buffer_format(out, ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu",
                     timings->prompt_tokens, timings->completion_tokens,
                     timings->prompt_tokens + timings->completion_tokens);
    qn_buffer_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%zu}", timings->reasoning_tokens);
    if (head->prompt_details) {
        qn_buffer_text(out, ",\"prompt_tokens_details\":{\"cached_tokens\":0}");
    }
    qn_buffer_char(out, '}');
}

/* Named as llama.cpp's, which clients read already. */
static void write_timings(qn_buffer *out, const qn_chat_timings *t)
{
    qn_buffer_format(out,
                     ",\"timings\":{\"queue_ms\":%.3f,\"prefill_ms\":%.3f,\"decode_ms\":%.3f,"
                     "\"prompt_per_second\":%.3f,\"predicted_per_second\":%.3f,\"draft_n\":%zu,"
                     "\"draft_n_accepted\":%zu,\"seed\":%" PRId64 "}",
                     (double)t->queue_us / 1e3, (double)t->prefill_us / 1e3, (double)t->decode_us / 1e3,
                     qn_per_second(t->prompt_tokens, t->prefill_us), qn_per_second(t->completion_tokens, t->decode_us),
                     t->drafts, t->drafts_accepted, t->seed);
}

void qn_chat_write_answer(qn_buffer *out, const qn_chat_head *head, const qn_buffer *content,
                          const qn_buffer *reasoning, qn_finish finish, const char *stop_matched,
                          const qn_chat_timings *timings)
{
    write_head(out, head, "chat.completion");
    qn_buffer_text(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
    if (content->size > 0 || reasoning->size == 0) {
        qn_buffer_json_string(out, qn_buffer_string(content), content->size);
    } else {
        qn_buffer_text(out, "null");
    }
    static const char *const names[] = {"reasoning_content", "reasoning"};
    for (size_t i = 0; i < 2; i++) {
        qn_buffer_format(out, ",\"%s\":", names[i]);
        if (reasoning->size > 0) {
            qn_buffer_json_string(out, qn_buffer_string(reasoning), reasoning->size);
        } else {
            qn_buffer_text(out, "null");
        }
    }
    qn_buffer_char(out, '}');
    write_finish(out, finish, stop_matched);
    qn_buffer_char(out, ']');
    write_usage(out, head, timings);
    write_timings(out, timings);
    qn_buffer_char(out, '}');
}

static void end_chunk(qn_buffer *out, const qn_chat_head *head)
{
    qn_buffer_text(out, head->include_usage ? ",\"usage\":null}" : "}");
}

void qn_chat_write_role_chunk(qn_buffer *out, const qn_chat_head *head)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                        "\"logprobs\":null,\"finish_reason\":null}]");
    end_chunk(out, head);
}

void qn_chat_write_text_chunk(qn_buffer *out, const qn_chat_head *head, qn_channel channel, const char *text,
                              size_t bytes)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[{\"index\":0,\"delta\":{");
    if (channel == QN_CHANNEL_REASONING) {
        qn_buffer_text(out, "\"reasoning_content\":");
        qn_buffer_json_string(out, text, bytes);
        qn_buffer_text(out, ",\"reasoning\":");
    } else {
        qn_buffer_text(out, "\"content\":");
    }
    qn_buffer_json_string(out, text, bytes);
    qn_buffer_text(out, "},\"logprobs\":null,\"finish_reason\":null}]");
    end_chunk(out, head);
}

void qn_chat_write_finish_chunk(qn_buffer *out, const qn_chat_head *head, qn_finish finish, const char *stop_matched,
                                const qn_chat_timings *timings)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[{\"index\":0,\"delta\":{}");
    write_finish(out, finish, stop_matched);
    qn_buffer_char(out, ']');
    write_timings(out, timings);
    end_chunk(out, head);
}

void qn_chat_write_usage_chunk(qn_buffer *out, const qn_chat_head *head, const qn_chat_timings *timings)
{
    write_head(out, head, "chat.completion.chunk");
    qn_buffer_text(out, ",\"choices\":[]");
    write_usage(out, head, timings);
    qn_buffer_char(out, '}');
}
