/* Combining expressions of which some may have no words at all.
 *
 * A front-end that knows that a part can match nothing leaves the part out, so that no place of the grammar leads into
 * a dead end. QN_NO_WORDS stands for such a part; it is no expression of a builder. */
#ifndef QN_GRAMMAR_WORDS_H
#define QN_GRAMMAR_WORDS_H

#include <stddef.h>

#include "grammar/grammar.h"

#define QN_NO_WORDS UINT32_MAX

qn_expr qn_words_concat(qn_grammar_builder *b, const qn_expr *parts, size_t count); /* none if any part has none */
qn_expr qn_words_concat2(qn_grammar_builder *b, qn_expr first, qn_expr second);
/* Of the options that have words. At most count of them; `options` is reordered in place. */
qn_expr qn_words_choice(qn_grammar_builder *b, qn_expr *options, size_t count);

/* The same language behind a rule: for a part that is used several times, so that it is built once. */
qn_expr qn_words_shared(qn_grammar_builder *b, const char *name, qn_expr expr);

#endif
