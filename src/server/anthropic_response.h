/* Bodies of POST /v1/messages: the whole message, or the events of its stream. JSON without line breaks.
 *
 * A message is a list of blocks: thoughts, text and calls in the order in which they were made. */
#ifndef QN_SERVER_ANTHROPIC_RESPONSE_H
#define QN_SERVER_ANTHROPIC_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/stream.h"
#include "server/http.h"

/* A message in the making; also which block of a stream is open. */
typedef struct qn_anthropic_message {
    char id[8 + QN_HTTP_REQUEST_ID_MAX]; /* "msg_" and the request's id */
    uint64_t salt;                       /* in the ids of calls */
    const char *model;                   /* as served; lives as long as the server */
    bool prompt_details; /* --enable-prompt-tokens-details: the prompt's tokens that were cached are told apart */
    bool cut_by_context; /* the answer may be as long as the context, not as max_tokens: its end is told as such */
    bool hides_thoughts; /* their blocks are empty */
    size_t prompt_tokens;
    size_t blocks;       /* begun so far */
    bool open;           /* the last of them is not closed */
    qn_output_kind kind; /* of the open block */
    size_t calls;        /* complete ones */
} qn_anthropic_message;

/* Fills in the ids. */
void qn_anthropic_message_start(qn_anthropic_message *message, const char *request_id);

/* message_start and a first ping. */
void qn_anthropic_write_start(const qn_anthropic_message *message, qn_buffer *out);
/* A part of the answer: a delta, and where the block is another one the end of the last and the start of this. */
void qn_anthropic_write_part(qn_anthropic_message *message, const qn_output_event *part, qn_buffer *out);
/* The end of the open block, message_delta and message_stop. */
void qn_anthropic_write_end(qn_anthropic_message *message, const qn_result *result, qn_buffer *out);
void qn_anthropic_write_ping(qn_buffer *out);

/* The whole. A call that was cut is left out: its arguments are no JSON. */
void qn_anthropic_write_message(qn_anthropic_message *message, const qn_output_event *parts, size_t count,
                                const qn_result *result, qn_buffer *out);

#endif
