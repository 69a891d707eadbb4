/* Character classes and case mappings as Python's str has them. */
#ifndef QN_TEXT_JINJA_CHARACTER_H
#define QN_TEXT_JINJA_CHARACTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/jinja/str.h"

bool qn_code_is_space(uint32_t code);
bool qn_code_is_alpha(uint32_t code);
bool qn_code_is_decimal(uint32_t code);
bool qn_code_is_digit(uint32_t code);
bool qn_code_is_numeric(uint32_t code);
bool qn_code_is_alnum(uint32_t code);
bool qn_code_is_lower(uint32_t code);
bool qn_code_is_upper(uint32_t code);
bool qn_code_is_title(uint32_t code);
bool qn_code_is_printable(uint32_t code);
bool qn_code_is_name_start(uint32_t code); /* may start an identifier */
bool qn_code_is_name_part(uint32_t code);

/* Value 0..9 of a decimal digit of any script. */
unsigned qn_code_decimal_value(uint32_t code);

/* Bytes of white space at the start of text, and bytes of text that are left when white space at its end is cut. */
size_t qn_space_prefix(const char *text, size_t bytes);
size_t qn_space_trimmed(const char *text, size_t bytes);

enum { QN_CODE_ESCAPE_BYTES = 12 };

/* Writes \xHH, \uHHHH or \UHHHHHHHH; returns its length. */
size_t qn_code_escape(uint32_t code, char out[QN_CODE_ESCAPE_BYTES]);

typedef enum qn_case {
    QN_CASE_UPPER,
    QN_CASE_LOWER,
    QN_CASE_TITLE,
    QN_CASE_SWAP,
    QN_CASE_CAPITAL,
    QN_CASE_FOLD
} qn_case;

/* str.upper() and its kin over the bytes from..to-1 of s, appended to b; each character keeps its origin. TITLE is
 * str.title(), CAPITAL str.capitalize(). */
void qn_builder_cased(qn_builder *b, const qn_str *s, size_t from, size_t to, qn_case wanted);

#endif
