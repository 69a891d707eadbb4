/* The tokens of ordinary text (vocabulary_trie.h) that may come next, found without a look at them: inside of a string
 * they are all allowed, or all up to some length, and they are most of a vocabulary. */
#ifndef QN_GRAMMAR_PLAIN_TEXT_H
#define QN_GRAMMAR_PLAIN_TEXT_H

#include "grammar/stack_sets.h"

/* True: of the plain tokens those of at most *chars characters are allowed from the set on, and no others; of a top
 * (`is_top`) whatever lies below its unknown frame. False: they are to be looked at one by one. */
bool qn_plain_text_reach(qn_set_table *table, uint32_t set, bool is_top, size_t *chars);

#endif
