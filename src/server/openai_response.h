/* Bodies of /v1/chat/completions: the whole answer, or its chunks. Appends JSON without line breaks. */
#ifndef QN_SERVER_OPENAI_RESPONSE_H
#define QN_SERVER_OPENAI_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/engine.h"
#include "server/openai_parts.h"

/* What is told of tokens besides their text. */
typedef struct qn_chat_tokens {
    const qn_buffer *logprobs; /* elements of logprobs.content (logprobs_json.h); NULL: not asked for */
    const int32_t *ids;        /* NULL: not asked for, or none */
    size_t id_count;
    bool with_ids; /* return_token_ids */
} qn_chat_tokens;

/* A finished choice. */
typedef struct qn_chat_choice {
    size_t index;
    const qn_result *result;              /* finish, stop_matched, stop_token */
    const qn_buffer *content, *reasoning; /* an empty content is null when there is reasoning or a call */
    const qn_buffer *calls;               /* elements of tool_calls; NULL or empty: none */
    qn_chat_tokens tokens;
} qn_chat_choice;

/* What the answer tells of the prompt; {0}: nothing. */
typedef struct qn_chat_prompt_part {
    const qn_buffer *logprobs; /* JSON of prompt_logprobs; NULL: not asked for */
    const int32_t *ids;        /* prompt_token_ids, with return_token_ids; NULL: not asked for */
    size_t id_count;
} qn_chat_prompt_part;

/* An element of a message's tool_calls. */
void qn_chat_write_call(qn_buffer *out, const char *call_id, const qn_output_event *call, const qn_buffer *arguments);

void qn_chat_write_answer(qn_buffer *out, const qn_openai_head *head, const qn_chat_choice *choices, size_t count,
                          const qn_chat_prompt_part *prompt, const qn_answer_totals *totals);

/* so_far: of this choice; read with continuous_usage only. */
void qn_chat_write_role_chunk(qn_buffer *out, const qn_openai_head *head, size_t index,
                              const qn_chat_prompt_part *prompt, const qn_answer_totals *so_far);
void qn_chat_write_text_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, qn_output_kind kind,
                              const char *text, size_t bytes, const qn_chat_tokens *tokens,
                              const qn_answer_totals *so_far);
/* A call's name, with no arguments yet, or a piece of its arguments. */
void qn_chat_write_call_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, const qn_output_event *part,
                              const char *call_id, const qn_chat_tokens *tokens, const qn_answer_totals *so_far);
/* totals: of this choice. */
void qn_chat_write_finish_chunk(qn_buffer *out, const qn_openai_head *head, size_t index, const qn_result *result,
                                bool has_calls, const qn_chat_tokens *tokens, const qn_answer_totals *totals);
/* totals: of all choices. */
void qn_chat_write_usage_chunk(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *totals);

#endif
