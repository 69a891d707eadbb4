/* Bodies of POST /v1/responses: the whole response, or the events of its stream. JSON without line breaks.
 *
 * A response is a list of items: thoughts, a message, calls, in the order in which they were made. A stream tells each
 * piece, then each item and at last the response once more as a whole. So both are made the same way: item by item. */
#ifndef QN_SERVER_RESPONSES_RESPONSE_H
#define QN_SERVER_RESPONSES_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/stream.h"
#include "server/response_store.h"
#include "server/responses_request.h"

/* A response in the making. */
typedef struct qn_response {
    char id[QN_RESPONSE_ID_BYTES]; /* "resp_" and 128 random bits: requests may share an id, and tell it in a path */
    int64_t created;
    uint64_t salt;        /* in the ids of calls; those of items tell the response (responses_items.h) */
    bool store;           /* it is to be kept */
    bool prompt_details;  /* --enable-prompt-tokens-details */
    qn_buffer settings;   /* JSON: what the response tells of its request, each member with a comma before it */
    size_t sequence;      /* events so far */
    size_t items;         /* begun so far */
    qn_buffer done;       /* JSON: the complete ones, commas between */
    bool open;            /* the last item goes on */
    qn_output_kind kind;  /* of the open item: CONTENT, REASONING or CALL */
    qn_buffer text, name; /* of the open item: text or arguments; a call's name */
} qn_response;

/* A new id, and the time. */
void qn_response_name(qn_response *response);

/* Fills in the settings, `store` as it is by then. QN_USAGE: something of the request that can't be told again;
 * QN_RESOURCE. Whatever it returns, qn_response_free releases what there is. */
qn_status qn_response_start(qn_response *response, const char *model, const qn_responses_request *request,
                            qn_error *err);
void qn_response_free(qn_response *response);

/* In each, `events` NULL: a whole body is being made. A response whose buffers could not grow fails `events` or `out`.
 */
void qn_response_write_start(qn_response *response, qn_buffer *events);
void qn_response_add(qn_response *response, const qn_output_event *part, qn_buffer *events);
void qn_response_finish(qn_response *response, const qn_result *result, qn_buffer *events);
void qn_response_write_failure(qn_response *response, const char *message, qn_buffer *events);

/* After qn_response_finish. *output_at, from the beginning of `out`, and *output_bytes tell where its array of items
 * is. */
void qn_response_write(const qn_response *response, const qn_result *result, qn_buffer *out, size_t *output_at,
                       size_t *output_bytes);

#endif
