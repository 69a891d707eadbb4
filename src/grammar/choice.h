/* A choice among texts: a hundred thousand of them are as quick to match as one. */
#ifndef QN_GRAMMAR_CHOICE_H
#define QN_GRAMMAR_CHOICE_H

#include <stddef.h>

#include "grammar/grammar.h"

/* One of `count` texts (UTF-8, a text may come twice or be empty); of none: qn_expr_never. Out of memory fails the
 * builder. */
qn_expr qn_choice_expr(qn_grammar_builder *b, const char *const *texts, size_t count);

#endif
