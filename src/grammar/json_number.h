/* Exact decimal numbers, and the JSON spellings of those between two of them.
 *
 * A number of JSON is a decimal fraction, so bounds are kept and compared as decimals, never as doubles. Inside bounds
 * a number may be spelt plainly (-12, 0.50) or, when it is no integer type, in scientific notation with one digit
 * other than zero before the point (1e-05, 2.5E+3): what serialisers write. */
#ifndef QN_GRAMMAR_JSON_NUMBER_H
#define QN_GRAMMAR_JSON_NUMBER_H

#include <jansson.h>
#include <stdbool.h>

#include "grammar/grammar.h"

enum { QN_DECIMAL_MOST_DIGITS = 400 };

/* 0.DIGITS * 10^point, without zeros at either end; zero has no digits and is not negative. */
typedef struct qn_decimal {
    bool negative;
    int point;
    unsigned count;
    char digits[QN_DECIMAL_MOST_DIGITS + 1];
} qn_decimal;

/* A JSON number's text, or a value of jansson's (a real is taken as the shortest text that reads back as it). False for
 * what is no number, or has more than QN_DECIMAL_MOST_DIGITS digits or a point beyond that many places. */
bool qn_decimal_parse(const char *text, qn_decimal *out);
bool qn_decimal_of(const json_t *value, qn_decimal *out);

int qn_decimal_compare(const qn_decimal *a, const qn_decimal *b); /* < 0, 0, > 0 */
bool qn_decimal_is_integer(const qn_decimal *d);

/* One end of a range. */
typedef struct qn_number_bound {
    bool present, exclusive;
    qn_decimal value;
} qn_number_bound;

bool qn_number_range_is_empty(const qn_number_bound *low, const qn_number_bound *high, bool integer);

/* The numbers between the bounds; `integer`: only those without a point and exponent. QN_NO_WORDS when there are none.
 */
qn_expr qn_json_number_range(qn_grammar_builder *b, const qn_number_bound *low, const qn_number_bound *high,
                             bool integer);

#endif
