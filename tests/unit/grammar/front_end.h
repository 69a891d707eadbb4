/* What the tests of grammars' front-ends share: a text in, what it accepts and refuses out. */
#ifndef FRONT_END_H
#define FRONT_END_H

#include <stdbool.h>
#include <stddef.h>

#include "grammar/grammar.h"

typedef qn_status front_end(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err);

/* A whole regex, and one that may match anywhere. */
front_end regex_front_end, search_front_end;

/* NULL, and err tells why. */
qn_grammar *front_end_grammar(front_end *read, const char *text, size_t bytes, qn_error *err);

bool grammar_matches(const qn_grammar *grammar, const char *text, size_t bytes);

/* Lists end with NULL. A test fails with the text that went the wrong way. */
void front_end_check(front_end *read, const char *grammar, const char *const *accept, const char *const *reject);

/* Refused as QN_USAGE with a sentence that holds `part`. */
void front_end_refuses(front_end *read, const char *grammar, const char *part);
void front_end_refuses_bytes(front_end *read, const char *grammar, size_t bytes, const char *part);

/* Each allocation on the way to the grammar fails once, and is told as QN_RESOURCE. */
void front_end_walks_faults(front_end *read, const char *grammar);

#endif
