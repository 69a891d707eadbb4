/* Byte ranges of a text, kept as a list: which of its bytes came from a request.
 *
 * The chat template gives them (text/chat.h), the encoder obeys them: inside a span no special token is recognised, so
 * that no message can forge a turn (docs/templates.md). */
#ifndef QN_TEXT_SPAN_H
#define QN_TEXT_SPAN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qn_span {
    size_t start, end; /* bytes start..end-1 */
} qn_span;

/* Spans in ascending order that neither overlap nor touch. Start from {0}; release with qn_span_list_free. */
typedef struct qn_span_list {
    qn_span *items; /* NULL while empty */
    size_t count, capacity;
} qn_span_list;

/* Adds start..end-1 behind what is there: start may not lie before the last span's end. A span that touches the last
 * one is merged with it, an empty one is ignored. False when out of memory, the list then unchanged: a text whose
 * spans are incomplete must not be used. */
bool qn_span_list_add(qn_span_list *list, size_t start, size_t end);

/* Whether any byte of start..end-1 lies in a span / every byte does. False for an empty range. */
bool qn_span_list_touches(const qn_span_list *list, size_t start, size_t end);
bool qn_span_list_covers(const qn_span_list *list, size_t start, size_t end);

void qn_span_list_clear(qn_span_list *list); /* empties it, keeps the memory */
void qn_span_list_free(qn_span_list *list);  /* back to {0} */

#endif
