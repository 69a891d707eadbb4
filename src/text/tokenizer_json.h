/* A JSON text read front to back, without building it in memory: a tokenizer.json holds over a million strings, of
 * which a tree would need ten times the time and memory.
 *
 * Strict (RFC 8259) in what it reads. What is skipped is only followed to its end: whoever wants it hands the slice to
 * base/json.h, which checks it. Errors are QN_BAD_INPUT and tell the place, but not
 * the name of the document, which the caller puts before them. */
#ifndef QN_TEXT_TOKENIZER_JSON_H
#define QN_TEXT_TOKENIZER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Fill text, bytes and err; the rest starts as zero. `at` may be moved to a value to read only that. */
typedef struct qn_json_cursor {
    const char *text;
    size_t bytes, at;
    bool is_first; /* nothing has been read yet of the object or array just opened */
    qn_error *err;
} qn_json_cursor;

/* Bytes of the document, or of a buffer when the string had escapes. */
typedef struct qn_json_slice {
    const char *text;
    size_t bytes;
} qn_json_slice;

/* Reads the opening bracket of an object or array ('{' or '['); then member or element until *more is false. */
qn_status qn_json_cursor_open(qn_json_cursor *c, char bracket);

/* Reads the next key and its colon, or the closing brace. */
qn_status qn_json_cursor_member(qn_json_cursor *c, bool *more, qn_json_slice *key, qn_buffer *storage);

/* Reads the comma before the next element, or the closing bracket. */
qn_status qn_json_cursor_element(qn_json_cursor *c, bool *more);

/* Reads a string. Its text, which may hold NUL, is valid UTF-8, and lives as long as the document or until `storage` is
 * used again. */
qn_status qn_json_cursor_string(qn_json_cursor *c, qn_json_slice *out, qn_buffer *storage);

/* Reads a number that is an integer. */
qn_status qn_json_cursor_integer(qn_json_cursor *c, int64_t *out);

/* The first character of the next value; NUL at the end. */
char qn_json_cursor_peek(qn_json_cursor *c);

/* Passes over one value of any kind; nesting is bounded at 512. */
qn_status qn_json_cursor_skip(qn_json_cursor *c, qn_json_slice *out);

/* Only white space may follow. */
qn_status qn_json_cursor_end(qn_json_cursor *c);

/* "reason at line L, byte B: ..." for the place where the cursor is. */
qn_status qn_json_cursor_fail(const qn_json_cursor *c, const char *reason);

#endif
