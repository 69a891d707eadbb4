#include "bench/serve_events.h"

#include <string.h>

/* Both have room for QN_EVENT_MAX_BYTES, asked before, so that what fails beyond that is memory. */
static qn_status append(qn_buffer *buffer, const char *bytes, size_t count, const char *what, qn_error *err)
{
    if (count > QN_EVENT_MAX_BYTES - buffer->size)
        return qn_fail(err, QN_BAD_INPUT, "event stream: %s is longer than %d bytes: is this a chat API?", what,
                       QN_EVENT_MAX_BYTES);
    qn_buffer_append(buffer, bytes, count);
    return buffer->failed ? qn_fail_memory(err, "event stream", buffer->size + count) : QN_OK;
}

static qn_status end_event(qn_event_reader *r, qn_event_handler handle, void *context, qn_error *err)
{
    if (!r->has_data)
        return QN_OK;
    qn_status status = handle(context, qn_buffer_string(&r->data), r->data.size, err);
    qn_buffer_clear(&r->data);
    r->has_data = false;
    return status;
}

static qn_status add_data(qn_event_reader *r, const char *value, size_t bytes, qn_error *err)
{
    qn_status status = QN_OK;
    if (r->has_data)
        status = append(&r->data, "\n", 1, "an event", err);
    r->has_data = true;
    return status == QN_OK ? append(&r->data, value, bytes, "an event", err) : status;
}

/* A field's value begins behind its colon and at most one space. */
static qn_status end_line(qn_event_reader *r, qn_event_handler handle, void *context, qn_error *err)
{
    static const char field[] = "data";
    enum { FIELD_BYTES = sizeof field - 1 };
    const char *line = qn_buffer_string(&r->line);
    size_t bytes = r->line.size;
    if (bytes == 0)
        return end_event(r, handle, context, err);
    qn_status status = QN_OK;
    bool named = bytes >= FIELD_BYTES && memcmp(line, field, FIELD_BYTES) == 0;
    if (named && (bytes == FIELD_BYTES || line[FIELD_BYTES] == ':')) {
        size_t start = bytes == FIELD_BYTES ? FIELD_BYTES : FIELD_BYTES + 1;
        start += start < bytes && line[start] == ' ';
        status = add_data(r, line + start, bytes - start, err);
    }
    qn_buffer_clear(&r->line);
    return status;
}

qn_status qn_event_read(qn_event_reader *r, const char *bytes, size_t count, qn_event_handler handle, void *context,
                        qn_error *err)
{
    for (size_t at = 0; at < count;) {
        size_t end = at;
        while (end < count && bytes[end] != '\n' && bytes[end] != '\r')
            end++;
        bool paired = r->after_cr && end == at && bytes[at] == '\n'; /* the LF of a CRLF */
        r->after_cr = end < count && bytes[end] == '\r';
        qn_status status = append(&r->line, bytes + at, end - at, "a line", err);
        if (status == QN_OK && end < count && !paired)
            status = end_line(r, handle, context, err);
        if (status != QN_OK)
            return status;
        at = end + 1;
    }
    return QN_OK;
}

void qn_event_reader_free(qn_event_reader *r)
{
    qn_buffer_free(&r->line);
    qn_buffer_free(&r->data);
    *r = (qn_event_reader){0};
}
