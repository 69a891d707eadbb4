/* Regular expressions as a grammar: the syntax that JSON Schema's "pattern" and structured_outputs.regex are written
 * in.
 *
 * The syntax is ECMA-262's with flag u, and what users of Rust and Python write besides where it means the same:
 *   characters, escapes (\d \w \s \D \W \S \n \t \r \f \v \0 \cX \xHH \uHHHH \u{H...}, escaped punctuation), `.`
 *   classes with ranges and escapes, \p{...} and \P{...} of general categories
 *   groups ( ) (?: ) (?<name> ) (?P<name> ), alternatives, * + ? {n} {n,} {n,m}; lazy ones are the same language
 *   ^ and $ (also \A, \z and \Z) where what stands before or behind them is known to be empty or not
 *   flags i, s and x: (?i) to the end of the group, (?i: ) inside, (?-i) off
 * As in ECMA-262 \d and \w are of ASCII, and `.` leaves out \n, \r, U+2028 and U+2029. What no automaton can follow
 * (lookaround, backreferences, recursion, possessive and atomic forms, \b) and what dialects read in different ways is
 * refused, with its place.
 *
 * Errors are QN_USAGE, "regex: byte 3: what: why" with bytes counted from 1, and QN_RESOURCE. Bounded: the length, the
 * nesting of groups, the number of repetitions, the memory of the parse. */
#ifndef QN_GRAMMAR_REGEX_H
#define QN_GRAMMAR_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "grammar/grammar.h"

enum {
    QN_REGEX_MAX_BYTES = 65536,
    QN_REGEX_MAX_DEPTH = 200,       /* of groups */
    QN_REGEX_MAX_REPEATS = 1000000, /* the largest n of {n} */
    QN_REGEX_MAX_MEMORY = 64 << 20  /* of a parsed expression */
};

/* How a set of characters is spelled in the text, as in a JSON string. With letters the regex is built of
 * qn_expr_empty, never, concat, concat2, choice, optional and repeat alone, and of what `chars` gives for each of its
 * sets, single characters included. The ranges are in order and apart. */
typedef struct qn_regex_letters {
    void *context;
    qn_expr (*chars)(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count);
} qn_regex_letters;

/* The texts that match: as a whole, or (`search`) that hold a match, which ^ and $ tie to their ends. `letters` NULL:
 * characters are UTF-8. */
qn_status qn_regex_expr(qn_grammar_builder *b, const char *regex, size_t bytes, bool search,
                        const qn_regex_letters *letters, qn_expr *out, qn_error *err);

/* A regex that is a part of a grammar's text: a whole match, in UTF-8, with flags set from the start. Anchors are
 * refused. */
enum { QN_REGEX_IGNORE_CASE = 1, QN_REGEX_DOT_ALL = 2, QN_REGEX_VERBOSE = 4 };
qn_status qn_regex_part_expr(qn_grammar_builder *b, const char *regex, size_t bytes, unsigned flags, qn_expr *out,
                             qn_error *err);

#endif
