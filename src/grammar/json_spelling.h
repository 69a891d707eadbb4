/* How JSON is spelt (RFC 8259), as expressions: characters of strings, literals, numbers, white space, any value.
 *
 * Every way to write a character inside a string is accepted: itself, its short escape, \uXXXX with digits of either
 * case, and surrogate pairs beyond U+FFFF. Raw control characters, lone surrogates and invalid UTF-8 are not.
 *
 * So that a model cannot go on for ever where nothing is said, a number has at most QN_JSON_MOST_DIGITS digits before
 * and after its point and four in its exponent, and a gap between two parts at most QN_JSON_MOST_SPACES characters. */
#ifndef QN_GRAMMAR_JSON_SPELLING_H
#define QN_GRAMMAR_JSON_SPELLING_H

#include <stdbool.h>
#include <stddef.h>

#include "grammar/grammar.h"

enum { QN_JSON_MOST_DIGITS = 100, QN_JSON_MOST_SPACES = 20, QN_JSON_CACHED_SETS = 64 };

typedef struct qn_json_set {
    qn_char_range *ranges;
    size_t count;
    qn_expr expr;
} qn_json_set;

/* The expressions that every part needs, built once for a builder. Start with qn_json_spelling_init, end with
 * qn_json_spelling_free. */
typedef struct qn_json_spelling {
    qn_grammar_builder *b;
    qn_expr gap;          /* where white space may stand; empty in the compact style */
    qn_expr comma, colon; /* with the white space around them */
    qn_expr quote;
    qn_expr any_char; /* of a string, as written in it */
    qn_expr any_string, any_number, any_integer, any_array, any_object, any_value;
    qn_json_set sets[QN_JSON_CACHED_SETS]; /* of qn_json_chars */
    size_t set_count, next_set;
} qn_json_spelling;

/* any_whitespace: between two parts JSON's white space may stand; else only what Python's json.dumps writes: nothing,
 * or one space behind a comma or colon. */
void qn_json_spelling_init(qn_json_spelling *s, qn_grammar_builder *b, bool any_whitespace);
void qn_json_spelling_free(qn_json_spelling *s);

/* One character out of the ranges (any order), as it is written in a string. QN_NO_WORDS (words.h) for none. */
qn_expr qn_json_chars(qn_json_spelling *s, const qn_char_range *ranges, size_t count);
qn_expr qn_json_char(qn_json_spelling *s, uint32_t code); /* exactly this one */

/* "{" members "}", "[" elements "]", with the gaps; QN_NO_WORDS: nothing inside. */
qn_expr qn_json_enclosed(qn_json_spelling *s, char open, qn_expr inside, bool may_be_empty, char close);

#endif
