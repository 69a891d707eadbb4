/* Sets of characters by their properties, and without regard to case: what \p{...}, \d, \w, \s and (?i) mean.
 *
 * Categories and case mappings are those of this machine's utf8proc (Unicode 14 on Debian 12). They are gathered when
 * first asked for and kept in a qn_char_properties, which one parse owns. */
#ifndef QN_GRAMMAR_CHAR_PROPERTY_H
#define QN_GRAMMAR_CHAR_PROPERTY_H

#include "grammar/char_set.h"

typedef struct qn_category_run {
    uint32_t first, last;
    char category[2];
} qn_category_run;

/* Characters with the same fold are the same but for case. */
typedef struct qn_case_pair {
    uint32_t fold, code;
} qn_case_pair;

/* Start from {0}; release with qn_char_properties_free. */
typedef struct qn_char_properties {
    qn_category_run *runs;
    size_t run_count;
    qn_case_pair *pairs; /* by fold; characters beyond ASCII only */
    size_t pair_count;
} qn_char_properties;

/* Adds the characters with the property: a general category by its short or long name ("L", "Lu", "Letter",
 * "Uppercase_Letter", also behind "gc=" or "General_Category="), "Any", "ASCII", "Assigned", "White_Space",
 * "ASCII_Hex_Digit". False: no such name, and nothing was added. Out of memory: set->failed. */
bool qn_char_property_add(qn_char_properties *properties, const char *name, size_t bytes, qn_char_set *set);

/* As ECMA-262 has them: 0-9; 0-9, A-Z, a-z and _; white space and ends of lines. */
void qn_char_set_add_digits(qn_char_set *set);
void qn_char_set_add_word(qn_char_set *set);
void qn_char_set_add_space(qn_char_set *set);

/* Adds to a normalized set what differs from its members by case alone (one-to-one mappings), and normalizes it. A
 * letter of ASCII stands for its two forms in ASCII only, as in ECMA-262 without its flag u: k is not the Kelvin sign.
 */
void qn_char_set_fold(qn_char_properties *properties, qn_char_set *set);

void qn_char_properties_free(qn_char_properties *properties); /* back to {0} */

#endif
