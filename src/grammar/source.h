/* The text of a grammar as it is read: where the reader stands, and errors with line and column. */
#ifndef QN_GRAMMAR_SOURCE_H
#define QN_GRAMMAR_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_SOURCE_MAX_BYTES = 1 << 20, QN_SOURCE_MAX_DEPTH = 200 /* of parentheses */ };

typedef struct qn_source {
    const char *what; /* "gbnf" */
    const char *text;
    size_t bytes, at;
} qn_source;

/* QN_USAGE: longer than QN_SOURCE_MAX_BYTES, or no UTF-8. */
qn_status qn_source_check(const qn_source *source, qn_error *err);

/* QN_USAGE "gbnf: line 2, column 5: ...": of the byte at `at`; columns count characters. */
qn_status qn_source_fail(const qn_source *source, size_t at, qn_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

char qn_source_peek(const qn_source *source, size_t ahead); /* NUL past the end */
bool qn_source_starts(const qn_source *source, const char *text);

/* Exactly `digits` hexadecimal digits, which are taken, as a scalar value. */
bool qn_source_hex(qn_source *source, size_t digits, uint32_t *code);

/* One character of a literal or a class, which is taken: as it stands, or as \n \t \r \f \v \xHH \uHHHH \UHHHHHHHH or
 * escaped punctuation. QN_USAGE with its place. The source was checked and does not end here. */
qn_status qn_source_char(qn_source *source, uint32_t *code, qn_error *err);

/* A decimal number, which is taken; one above `max` gives max + 1. False: no digit. */
bool qn_source_number(qn_source *source, size_t max, size_t *value);

#endif
