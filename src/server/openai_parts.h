/* What the bodies of OpenAI's APIs have in common. Appends JSON without line breaks. */
#ifndef QN_SERVER_OPENAI_PARTS_H
#define QN_SERVER_OPENAI_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/stream.h"
#include "server/answer_totals.h"
#include "server/api_error.h"
#include "server/http.h"

/* What all parts of one answer say. */
typedef struct qn_openai_head {
    char id[16 + QN_HTTP_REQUEST_ID_MAX]; /* the API's prefix and the request's id */
    int64_t created;
    const char *model;     /* as served; lives as long as the server */
    bool include_usage;    /* stream_options.include_usage: every chunk has a usage, null but in the last */
    bool continuous_usage; /* stream_options.continuous_usage_stats: every chunk tells the usage so far */
    bool prompt_details;   /* --enable-prompt-tokens-details */
} qn_openai_head;

/* ---- of a stream ---- */

/* Frames what is in `json`, one chunk, as an event, and empties it. */
void qn_openai_send(qn_buffer *json, qn_buffer *out);
void qn_openai_send_done(qn_buffer *out); /* data: [DONE] */
/* The error as an event, and the end; what is in `json` is dropped. */
void qn_openai_send_failure(const qn_api_error *error, const qn_error *err, qn_buffer *json, qn_buffer *out);

/* ---- of all bodies ---- */

/* Fills in the id and the time. prefix: "chatcmpl-", at most 15 bytes. */
void qn_openai_head_start(qn_openai_head *head, const char *prefix, const char *request_id);

/* {"id", "object", "created", "model", and no closing brace. */
void qn_openai_write_head(qn_buffer *out, const qn_openai_head *head, const char *object);

/* ,"name":[ids] */
void qn_openai_write_ids(qn_buffer *out, const char *name, const int32_t *ids, size_t count);

/* ,"finish_reason", and vLLM's "stop_reason": the stop string, the stop token, or null. An answer with calls that ends
 * by itself ends for them. */
void qn_openai_write_finish(qn_buffer *out, const qn_result *result, bool has_calls);

/* ,"usage" */
void qn_openai_write_usage(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *totals);

/* The usage of a chunk that is not the last, as far as the head asks for one. so_far: of the chunk's choice. */
void qn_openai_write_chunk_usage(qn_buffer *out, const qn_openai_head *head, const qn_answer_totals *so_far);

/* ,"timings" */
void qn_openai_write_timings(qn_buffer *out, const qn_answer_totals *totals);

#endif
