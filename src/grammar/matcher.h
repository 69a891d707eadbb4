/* A place in the words of a grammar: which bytes and tokens have come, and what may follow.
 *
 * A place is a set of stacks (the automaton is nondeterministic); stacks share their tails. Bounded: more than
 * QN_MATCHER_MAX_STACKS stacks at once, or deeper than QN_MATCHER_MAX_DEPTH, counts as "does not match" and is told by
 * qn_matcher_exhausted: a hostile grammar ends its own request and nothing else.
 * One thread at a time; the grammar must outlive it. */
#ifndef QN_GRAMMAR_MATCHER_H
#define QN_GRAMMAR_MATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grammar/grammar.h"

enum { QN_MATCHER_MAX_STACKS = 4096, QN_MATCHER_MAX_DEPTH = 8192 };

typedef struct qn_matcher qn_matcher;

qn_status qn_matcher_new(const qn_grammar *grammar, qn_matcher **out, qn_error *err);
qn_status qn_matcher_clone(const qn_matcher *from, qn_matcher **out, qn_error *err); /* independent of `from` */
void qn_matcher_free(qn_matcher *matcher);                                           /* NULL is fine */

/* Takes as many of the bytes as the grammar allows and returns how many; after fewer than `count` the place is that
 * before the byte that was refused. */
size_t qn_matcher_bytes(qn_matcher *matcher, const void *bytes, size_t count);
bool qn_matcher_token(qn_matcher *matcher, int32_t token); /* one letter; false: refused, the place as before */

bool qn_matcher_can_end(const qn_matcher *matcher);  /* what came is a word */
bool qn_matcher_must_end(const qn_matcher *matcher); /* and nothing can follow */
/* Some byte was refused for a bound, or for want of memory. */
bool qn_matcher_exhausted(const qn_matcher *matcher);
/* The last one was, for want of memory. */
bool qn_matcher_short_of_memory(const qn_matcher *matcher);

#endif
