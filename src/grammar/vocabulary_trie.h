/* The bytes of a vocabulary's tokens as a trie that lies flat: nodes in the order of a walk that goes down first, with
 * where to go on when a node and all below it is of no interest. Constant once made. */
#ifndef QN_GRAMMAR_VOCABULARY_TRIE_H
#define QN_GRAMMAR_VOCABULARY_TRIE_H

#include "grammar/token_mask.h"

enum { QN_TRIE_MAX_TOKEN_BYTES = 4096, QN_TRIE_MAX_NODES = 1 << 28 };

typedef struct qn_trie_node {
    uint32_t skip;        /* the first node that is not below this one */
    uint32_t first_token; /* tokens that end here: tokens[first_token ..) up to the next node's first_token */
    uint16_t depth;       /* bytes down to here */
    uint8_t byte;
} qn_trie_node;

struct qn_vocabulary_trie {
    qn_trie_node *nodes; /* node 0: the root, without a byte; one more behind the last */
    size_t node_count;
    int32_t *tokens;
    size_t token_count; /* of the vocabulary, with those that have no bytes */
    size_t max_depth;
};

#endif
