/* Compiled split patterns, and searches whose work is bounded.
 *
 * Searching never costs more than linear work in the text: a pattern that would is reported as an error, since a
 * tokenizer.json is not to be trusted with the server's time. A qn_regex is immutable and shared by threads; a
 * qn_regex_search belongs to one thread at a time. */
#ifndef QN_TEXT_PRETOKENIZER_REGEX_H
#define QN_TEXT_PRETOKENIZER_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct qn_regex qn_regex;
typedef struct qn_regex_search qn_regex_search;

typedef enum qn_regex_engine {
    QN_REGEX_JIT,        /* machine code where this system allows it; a line in the log when it does not */
    QN_REGEX_INTERPRETER /* the same matches, slower */
} qn_regex_engine;

/* `pattern` in PCRE2's syntax, as pretokenizer_pattern.h writes it, without captures. QN_BAD_INPUT: PCRE2 does not
 * accept it. */
qn_status qn_regex_compile(const char *pattern, size_t bytes, qn_regex_engine engine, qn_regex **out, qn_error *err);
void qn_regex_free(qn_regex *regex); /* NULL is fine */

qn_status qn_regex_search_new(qn_regex_search **out, qn_error *err);
void qn_regex_search_free(qn_regex_search *search); /* NULL is fine */

/* Begins to look for matches in text[0..bytes), valid UTF-8 that must stay as it is until the last qn_regex_next. */
void qn_regex_begin(qn_regex_search *search, const char *text, size_t bytes);

/* The next match, from left to right and without overlaps: *found false when there is none. An empty match right behind
 * the last one is passed over (as rust-onig's find_iter does). QN_BAD_INPUT: the pattern asks for too much work on this
 * text. */
qn_status qn_regex_next(const qn_regex *regex, qn_regex_search *search, bool *found, size_t *start, size_t *end,
                        qn_error *err);

#endif
