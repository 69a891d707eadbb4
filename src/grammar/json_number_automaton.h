/* Sets of numbers as automata over their plain spelling (-12, 0.50): for what expressions alone cannot say, multiples
 * and exclusions, to be intersected with each other (automaton.h).
 *
 * Only qn_number_form_automaton looks at whether a text is a number at all; of the others the texts of a number's form
 * are to be relied on. Each gives NULL with err filled: QN_USAGE past a bound, QN_RESOURCE out of memory. */
#ifndef QN_GRAMMAR_JSON_NUMBER_AUTOMATON_H
#define QN_GRAMMAR_JSON_NUMBER_AUTOMATON_H

#include <stdbool.h>

#include "grammar/automaton.h"
#include "grammar/json_number.h"

enum { QN_NUMBER_MOST_REMAINDERS = 4096 };

typedef struct qn_number_form {
    bool integers;  /* 12; and where there are fractions too, 12.0 */
    bool fractions; /* 12.5 */
    size_t digits;  /* at most so many before the point, one at least; */
    bool endless;   /* or more */
    size_t places;  /* and behind it */
} qn_number_form;

typedef enum qn_number_order { QN_NUMBER_LESS = 1, QN_NUMBER_EQUAL = 2, QN_NUMBER_GREATER = 4 } qn_number_order;

const qn_automaton *qn_number_form_automaton(qn_automaton_room *room, const qn_number_form *form, qn_error *err);
/* Numbers that stand in one of these orders (bits) to the value. */
const qn_automaton *qn_number_order_automaton(qn_automaton_room *room, const qn_decimal *value, unsigned orders,
                                              qn_error *err);
/* `of` is above zero. */
const qn_automaton *qn_number_multiple_automaton(qn_automaton_room *room, const qn_decimal *of, qn_error *err);

/* The significant digits of a decimal as a number, and the power of ten that it is to be multiplied with; false for
 * more than 18 digits. */
bool qn_decimal_significand(const qn_decimal *d, uint64_t *significand, int *exponent);
/* Whether it is, exactly; `of` is above zero and has a significand. */
bool qn_decimal_is_multiple(const qn_decimal *value, const qn_decimal *of);

#endif
