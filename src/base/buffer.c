#include "base/buffer.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { SMALLEST_CAPACITY = 64 };

/* Makes room for `bytes` more and the NUL; false, with the buffer marked failed, when that cannot be. */
static bool reserve(qn_buffer *buffer, size_t bytes)
{
    if (buffer->failed)
        return false;
    size_t size, needed;
    if (!qn_size_add(buffer->size, bytes, &size) || !qn_size_add(size, 1, &needed) ||
        (buffer->limit > 0 && size > buffer->limit)) {
        buffer->failed = true;
        return false;
    }
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = buffer->capacity < SMALLEST_CAPACITY ? SMALLEST_CAPACITY : buffer->capacity;
    while (capacity < needed) {
        if (!qn_size_mul(capacity, 2, &capacity))
            capacity = needed;
    }
    char *data = qn_realloc(buffer->data, capacity, 1);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void qn_buffer_append(qn_buffer *buffer, const void *data, size_t bytes)
{
    if (!reserve(buffer, bytes))
        return;
    if (bytes > 0)
        memcpy(buffer->data + buffer->size, data, bytes);
    buffer->size += bytes;
    buffer->data[buffer->size] = '\0';
}

void qn_buffer_text(qn_buffer *buffer, const char *text)
{
    qn_buffer_append(buffer, text, strlen(text));
}

void qn_buffer_char(qn_buffer *buffer, char c)
{
    qn_buffer_append(buffer, &c, 1);
}

void qn_buffer_format(qn_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->failed = true;
        return;
    }
    if (!reserve(buffer, (size_t)length))
        return;
    va_start(arguments, format);
    vsnprintf(buffer->data + buffer->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)length;
}

/* The escape of a byte in a JSON string, NULL where it stands for itself. */
static const char *json_escape(unsigned char byte)
{
    switch (byte) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

void qn_buffer_json_text(qn_buffer *buffer, const char *text, size_t bytes)
{
    size_t plain = 0; /* start of the run that needs no escape */
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        qn_buffer_append(buffer, text + plain, i - plain);
        plain = i + 1;
        const char *escape = json_escape(byte);
        if (escape)
            qn_buffer_text(buffer, escape);
        else
            qn_buffer_format(buffer, "\\u%04x", (unsigned)byte);
    }
    if (plain < bytes)
        qn_buffer_append(buffer, text + plain, bytes - plain);
}

void qn_buffer_json_string(qn_buffer *buffer, const char *text, size_t bytes)
{
    qn_buffer_char(buffer, '"');
    qn_buffer_json_text(buffer, text, bytes);
    qn_buffer_char(buffer, '"');
}

void qn_buffer_clear(qn_buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = '\0';
}

const char *qn_buffer_string(const qn_buffer *b)
{
    return b->data ? b->data : "";
}

void qn_buffer_free(qn_buffer *buffer)
{
    qn_free(buffer->data);
    *buffer = (qn_buffer){0};
}
