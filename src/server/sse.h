/* Server-sent events (WHATWG HTML, "server-sent events"): framing for a stream of JSON. */
#ifndef QN_SERVER_SSE_H
#define QN_SERVER_SSE_H

#include "base/buffer.h"

/* "data: " ... blank line. `data` is one line: JSON written by quern has no line breaks. */
void qn_sse_data(qn_buffer *out, const char *data, size_t bytes);

/* Around a line of data written by the caller: an event with a name. */
void qn_sse_open(qn_buffer *out, const char *event);
void qn_sse_close(qn_buffer *out);

/* A comment, which clients skip: keeps proxies from closing a stream that is silent during a long prompt. */
void qn_sse_comment(qn_buffer *out, const char *text);

#endif
