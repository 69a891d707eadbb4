/* A set of characters: ranges of Unicode scalar values, joined and complemented.
 *
 * Start from {0}; release with qn_char_set_free. A set that could not grow is `failed` and stays so: callers add freely
 * and check once. One thread at a time. */
#ifndef QN_GRAMMAR_CHAR_SET_H
#define QN_GRAMMAR_CHAR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grammar/grammar.h"

enum { QN_CHAR_MAX = 0x10FFFF, QN_SURROGATE_FIRST = 0xD800, QN_SURROGATE_LAST = 0xDFFF };

typedef struct qn_char_set {
    qn_char_range *ranges;
    size_t count, capacity;
    bool failed;
} qn_char_set;

void qn_char_set_add(qn_char_set *set, uint32_t first, uint32_t last); /* both inside, first <= last */
void qn_char_set_add_ranges(qn_char_set *set, const qn_char_range *ranges, size_t count);

/* Puts the ranges in order, joins those that touch, and leaves surrogates out. */
void qn_char_set_normalize(qn_char_set *set);
/* All scalar values that are not in the set; the result is normalized. */
void qn_char_set_complement(qn_char_set *set);

/* Of normalized ranges. */
bool qn_char_ranges_contain(const qn_char_range *ranges, size_t count, uint32_t code);

void qn_char_set_free(qn_char_set *set); /* back to {0} */

#endif
