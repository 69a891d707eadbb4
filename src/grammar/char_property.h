/* Sets of characters by their properties, and without regard to case: what \p{...}, \d, \w, \s and (?i) mean.
 *
 * Categories and case mappings are those of Unicode 15, whatever the machine's libraries know (property_tables.h). */
#ifndef QN_GRAMMAR_CHAR_PROPERTY_H
#define QN_GRAMMAR_CHAR_PROPERTY_H

#include "grammar/char_set.h"

/* Adds the characters with the property: a general category by its short or long name ("L", "Lu", "Letter",
 * "Uppercase_Letter", also behind "gc=" or "General_Category="), "Any", "ASCII", "Assigned", "White_Space",
 * "ASCII_Hex_Digit". False: no such name, and nothing was added. Out of memory: set->failed. */
bool qn_char_property_add(const char *name, size_t bytes, qn_char_set *set);

/* As ECMA-262 has them: 0-9; 0-9, A-Z, a-z and _; white space and ends of lines. */
void qn_char_set_add_digits(qn_char_set *set);
void qn_char_set_add_word(qn_char_set *set);
void qn_char_set_add_space(qn_char_set *set);

/* Adds to a normalized set what differs from its members by case alone (one-to-one mappings), and normalizes it. A
 * letter of ASCII stands for its two forms in ASCII only, as in ECMA-262 without its flag u: k is not the Kelvin sign.
 */
void qn_char_set_fold(qn_char_set *set);

#endif
