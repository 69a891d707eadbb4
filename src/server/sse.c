#include "server/sse.h"

void qn_sse_data(qn_buffer *out, const char *data, size_t bytes)
{
    qn_buffer_text(out, "data: ");
    qn_buffer_append(out, data, bytes);
    qn_buffer_text(out, "\n\n");
}

void qn_sse_open(qn_buffer *out, const char *event)
{
    qn_buffer_format(out, "event: %s\ndata: ", event);
}

void qn_sse_close(qn_buffer *out)
{
    qn_buffer_text(out, "\n\n");
}

void qn_sse_comment(qn_buffer *out, const char *text)
{
    qn_buffer_format(out, ": %s\n\n", text);
}
