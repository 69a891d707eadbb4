/* The tokens of ordinary text (vocabulary_trie.h) that may come next, found without a look at them: inside of a string
 * they are all allowed, or all up to some length, or all without certain characters, and they are most of a vocabulary.
 */
#ifndef QN_GRAMMAR_PLAIN_TEXT_H
#define QN_GRAMMAR_PLAIN_TEXT_H

#include "grammar/char_ways.h"
#include "grammar/vocabulary_trie.h"

enum { QN_REACH_MEMBERS = 96 };

typedef struct qn_plain_reach {
    size_t chars;                              /* tokens of more characters are refused */
    const qn_char_ways *ways;                  /* NULL: no character leads out of the members; else: */
    bool out[256];                             /* by group of the ways: no token with such a character is told here */
    uint64_t odd;                              /* kinds of characters that lead to elsewhere: of tokens with one of
                                                * these more may be allowed */
    uint32_t members[QN_REACH_MEMBERS], count; /* the sets where text without such characters stands */
} qn_plain_reach;

/* True: of the plain tokens without a character of the odd kinds those are allowed from the set on that have at most
 * reach->chars characters, none of them out, and no others; of a top (`is_top`) whatever lies below its unknown frame,
 * and nothing is odd then. False: they are to be looked at one by one. */
bool qn_plain_text_reach(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t set, bool is_top,
                         qn_plain_reach *reach);

/* Adds these tokens to the mask; room: as many words. */
void qn_plain_text_allow(const qn_vocabulary_trie *trie, const qn_plain_reach *reach, uint64_t *mask, uint64_t *room);

#endif
