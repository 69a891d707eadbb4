/* Bodies of /v1/chat/completions: the whole answer, or its chunks. Appends JSON without line breaks. */
#ifndef QN_SERVER_OPENAI_RESPONSE_H
#define QN_SERVER_OPENAI_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/engine.h"

/* What all parts of one answer say. */
typedef struct qn_chat_head {
    char id[48]; /* "chatcmpl-..." */
    int64_t created;
    const char *model;   /* as served; lives as long as the server */
    bool include_usage;  /* stream_options.include_usage: every chunk has a usage, null but in the last */
    bool prompt_details; /* --enable-prompt-tokens-details */
} qn_chat_head;

typedef struct qn_chat_timings {
    uint64_t queue_us, prefill_us, decode_us;
    size_t prompt_tokens, completion_tokens, reasoning_tokens, drafts, drafts_accepted;
    int64_t seed;
} qn_chat_timings;

/* A new id and the time. */
void qn_chat_head_start(qn_chat_head *head);

/* stop_matched: the stop string that ended it, or NULL. An empty content is null when there is reasoning. */
void qn_chat_write_answer(qn_buffer *out, const qn_chat_head *head, const qn_buffer *content,
                          const qn_buffer *reasoning, qn_finish finish, const char *stop_matched,
                          const qn_chat_timings *timings);

void qn_chat_write_role_chunk(qn_buffer *out, const qn_chat_head *head);
void qn_chat_write_text_chunk(qn_buffer *out, const qn_chat_head *head, qn_channel channel, const char *text,
                              size_t bytes);
void qn_chat_write_finish_chunk(qn_buffer *out, const qn_chat_head *head, qn_finish finish, const char *stop_matched,
                                const qn_chat_timings *timings);
void qn_chat_write_usage_chunk(qn_buffer *out, const qn_chat_head *head, const qn_chat_timings *timings);

#endif
