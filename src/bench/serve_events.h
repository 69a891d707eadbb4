/* Server-sent events, read as they arrive (WHATWG HTML, "event stream interpretation"): lines end in LF, CR or CRLF;
 * `data` lines up to an empty line are one event, joined by LF; comments and other fields mean nothing here. Pieces may
 * be cut anywhere. An event that the end of the stream cuts off is none. */
#ifndef QN_BENCH_SERVE_EVENTS_H
#define QN_BENCH_SERVE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { QN_EVENT_MAX_BYTES = 1 << 20 }; /* of a line, and of an event's data */

/* Start from {0}. */
typedef struct qn_event_reader {
    qn_buffer line, data;
    bool after_cr; /* a LF that follows belongs to it */
    bool has_data;
} qn_event_reader;

/* Gets the data of one event, which lives until it returns. Anything but QN_OK (with err filled) ends the reading. */
typedef qn_status (*qn_event_handler)(void *context, const char *data, size_t bytes, qn_error *err);

/* QN_BAD_INPUT: a line or an event beyond the bound; QN_RESOURCE; or what the handler said. Then the reader is to be
 * freed. */
qn_status qn_event_read(qn_event_reader *reader, const char *bytes, size_t count, qn_event_handler handle,
                        void *context, qn_error *err);

void qn_event_reader_free(qn_event_reader *reader); /* back to {0} */

#endif
