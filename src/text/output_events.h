/* What a reader sees of an answer, as events in order: stretches of text, and calls with their arguments.
 *
 * The list belongs to one thread at a time. Start from {0}; release with qn_output_events_free. */
#ifndef QN_TEXT_OUTPUT_EVENTS_H
#define QN_TEXT_OUTPUT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

typedef enum qn_output_kind {
    QN_OUTPUT_CONTENT,   /* text */
    QN_OUTPUT_REASONING, /* text */
    QN_OUTPUT_CALL,      /* a call begins: text is its name, whole, once */
    QN_OUTPUT_ARGUMENTS, /* text is the next piece of the call's arguments; all of them together are a JSON object */
    QN_OUTPUT_CALL_END   /* the call is complete; no text. A call cut by the end of the tokens has none */
} qn_output_kind;

typedef struct qn_output_event {
    qn_output_kind kind;
    size_t call;      /* of CALL, ARGUMENTS, CALL_END: which one of the answer's, from 0 */
    const char *text; /* whole characters, UTF-8; a NUL behind */
    size_t bytes;
    size_t reasoning_tokens; /* of the answer so far */
} qn_output_event;

/* The fields belong to output_events.c. */
typedef struct qn_output_events {
    qn_buffer events; /* qn_output_event, their text not set yet */
    qn_buffer text;   /* of all events, a NUL behind each */
    size_t reasoning_tokens;
} qn_output_events;

/* Appends to the last event where kind and call are the same, or begins one. No text begins none but CALL_END. When
 * memory is short the list has failed. */
void qn_output_events_add(qn_output_events *list, qn_output_kind kind, size_t call, const char *text, size_t bytes);

/* What events tell from now on. */
void qn_output_events_set_reasoning_tokens(qn_output_events *list, size_t tokens);

bool qn_output_events_failed(const qn_output_events *list);

/* Valid until the list changes. */
const qn_output_event *qn_output_events_read(qn_output_events *list, size_t *count);
void qn_output_events_clear(qn_output_events *list);
void qn_output_events_free(qn_output_events *list);

#endif
