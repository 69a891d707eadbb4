/* Arithmetic of bools, ints of any size and floats, by Python's rules. */
#ifndef QN_TEXT_JINJA_NUMBER_H
#define QN_TEXT_JINJA_NUMBER_H

#include "text/jinja/integer.h"
#include "text/jinja/str.h"

typedef enum qn_number_order {
    QN_NUMBER_LESS = -1,
    QN_NUMBER_EQUAL = 0,
    QN_NUMBER_GREATER = 1,
    QN_NUMBER_UNORDERED = 2 /* NaN */
} qn_number_order;

typedef enum qn_operator {
    QN_OPERATOR_ADD,
    QN_OPERATOR_SUBTRACT,
    QN_OPERATOR_MULTIPLY,
    QN_OPERATOR_DIVIDE,
    QN_OPERATOR_FLOOR_DIVIDE,
    QN_OPERATOR_MODULO,
    QN_OPERATOR_POWER
} qn_operator;

/* Exact, also between ints and floats. Both must be numbers. */
qn_number_order qn_number_compare(qn_value a, qn_value b);

/* Infinite for an int beyond a double's range. */
double qn_number_to_double(qn_value value);

/* The same, but fails where Python raises OverflowError. */
qn_status qn_number_real(qn_render *r, qn_value value, double *out);

/* A bool, int or big int in the wide form, and back to the narrowest. */
void qn_number_widen(qn_value value, qn_integer *out);
qn_status qn_number_from_integer(qn_render *r, const qn_integer *integer, qn_value *out);

/* An int from its decimal digits, with a '-' before them if it is negative; and back, appended to b. They have buffers
 * that the recursive functions which need them must not have on their stacks. */
qn_status qn_number_from_digits(qn_render *r, const char *digits, qn_value *out);
qn_status qn_builder_digits(qn_builder *b, const qn_integer *integer);

/* Both operands must be numbers. Fails for division by zero, overflow, and a result that Python makes complex. */
qn_status qn_number_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out);

qn_status qn_number_negate(qn_render *r, qn_value value, qn_value *out);
qn_status qn_number_absolute(qn_render *r, qn_value value, qn_value *out);

/* round(value, digits): to the nearest, ties to even, on the exact value. */
qn_status qn_number_round(qn_render *r, qn_value value, int64_t digits, qn_value *out);

/* int(real). Fails for infinities and NaN. */
qn_status qn_number_truncate(qn_render *r, double real, qn_value *out);

/* int(text, base) with base 0 or 2..36, and float(text). *valid tells whether the text is such a number. */
qn_status qn_number_parse_integer(qn_render *r, const qn_str *text, unsigned base, qn_value *out, bool *valid);
qn_status qn_number_parse_real(qn_render *r, const qn_str *text, double *out, bool *valid);

#endif
