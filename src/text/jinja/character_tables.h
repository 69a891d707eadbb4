/* What Python's str methods know of Unicode beyond utf8proc: small tables, each sorted by code point.
 *
 * tools/make_character_tables.py writes the .c from Python's own unicodedata. */
#ifndef QN_TEXT_JINJA_CHARACTER_TABLES_H
#define QN_TEXT_JINJA_CHARACTER_TABLES_H

#include <stddef.h>
#include <stdint.h>

typedef struct qn_code_range {
    uint32_t first, last;
} qn_code_range;

/* Characters that change into more than one (SpecialCasing.txt); unused places are 0. */
typedef struct qn_special_case {
    uint32_t code, upper[3], title[3];
} qn_special_case;

extern const qn_code_range qn_other_lowercase[]; /* Lowercase without category Ll */
extern const size_t qn_other_lowercase_count;
extern const qn_code_range qn_other_uppercase[]; /* Uppercase without category Lu */
extern const size_t qn_other_uppercase_count;
extern const qn_code_range qn_other_digit[]; /* Numeric_Type Digit: superscripts and the like */
extern const size_t qn_other_digit_count;
extern const qn_code_range qn_other_numeric[]; /* numeric without category N: ideographs for numbers */
extern const size_t qn_other_numeric_count;
extern const qn_special_case qn_special_cases[];
extern const size_t qn_special_cases_count;

#endif
