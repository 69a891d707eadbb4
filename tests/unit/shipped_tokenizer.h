/* The tokenizer of the model in the repository, for tests that need a real one. */
#ifndef SHIPPED_TOKENIZER_H
#define SHIPPED_TOKENIZER_H

#include "text/answer_grammar.h"
#include "text/tokenizer.h"

enum { SHIPPED_VOCABULARY = 1536 }; /* tokens of the model */

/* Tokens that end its answers. */
extern const int32_t shipped_eos[3];

/* For a group's setup: the tokenizer, and the trie of its tokens where `trie` is not NULL; both the caller's. Returns
 * what cmocka takes for success or failure. */
int shipped_tokenizer_open(qn_tokenizer **tokenizer, qn_vocabulary_trie **trie);

#endif
