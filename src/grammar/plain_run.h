/* Plain text from a set of stacks on, as far as all characters of some kinds lead to the same: in a word, a name, a
 * number, or any text without a certain letter. Of the vocabulary's trie whole branches need no walk then. */
#ifndef QN_GRAMMAR_PLAIN_RUN_H
#define QN_GRAMMAR_PLAIN_RUN_H

#include "grammar/stack_sets.h"
#include "grammar/vocabulary_trie.h"

/* At a node of the trie where the set stands: true: of the tokens below it those are taken from there whose characters
 * below it are all of *kinds, and no others; none of them waits when the set's ground is unknown (`is_top`). False:
 * look. */
bool qn_plain_run_find(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t node, uint32_t set, bool is_top,
                       uint64_t *kinds);

#endif
