/* A growable run of bytes, always with a NUL behind its end, for building text.
 *
 * A buffer that could not grow is `failed`: it stays so, ignores further appends and keeps what it had, so
 * that a caller appends freely and checks once at the end. Start from {0}; release with qn_buffer_free. */
#ifndef QN_BASE_BUFFER_H
#define QN_BASE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct qn_buffer {
    char *data;  /* NULL while nothing was appended */
    size_t size; /* bytes, the NUL not counted */
    size_t capacity;
    size_t limit; /* refuse to grow past this many bytes; 0: no limit */
    bool failed;
} qn_buffer;

void qn_buffer_append(qn_buffer *buffer, const void *data, size_t bytes);
void qn_buffer_text(qn_buffer *buffer, const char *text);
void qn_buffer_char(qn_buffer *buffer, char c);
void qn_buffer_format(qn_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The text as a JSON string literal with its quotes; the input must be valid UTF-8. */
void qn_buffer_json_string(qn_buffer *buffer, const char *text, size_t bytes);

/* What stands between those quotes: a string may so be written in pieces of whole characters. */
void qn_buffer_json_text(qn_buffer *buffer, const char *text, size_t bytes);

void qn_buffer_clear(qn_buffer *buffer);          /* size 0 and not failed; keeps the memory */
const char *qn_buffer_string(const qn_buffer *b); /* never NULL: "" when empty */
void qn_buffer_free(qn_buffer *buffer);           /* back to {0} */

#endif
