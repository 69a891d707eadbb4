/* The bytes of a vocabulary's tokens as a trie that lies flat: nodes in the order of a walk that goes down first, with
 * where to go on when a node and all below it is of no interest. Constant once made. */
#ifndef QN_GRAMMAR_VOCABULARY_TRIE_H
#define QN_GRAMMAR_VOCABULARY_TRIE_H

#include "grammar/token_mask.h"
#include "grammar/vocabulary_chars.h"

enum {
    QN_TRIE_MAX_TOKEN_BYTES = 4096,
    QN_TRIE_MAX_NODES = 1 << 28,
    QN_PLAIN_MAX_CHARS = 24,
    QN_TRIE_TALL = 255,
    QN_TRIE_TAILS = 2
};

typedef enum qn_trie_part { QN_TRIE_OTHERS, QN_TRIE_PLAIN } qn_trie_part;

typedef struct qn_trie_node {
    uint32_t skip;        /* the first node that is not below this one */
    uint32_t first_token; /* tokens that end here: tokens[first_token ..) up to the next node's first_token */
    uint16_t depth;       /* bytes down to here */
    uint8_t byte;
    uint8_t height; /* bytes down to the last node below; QN_TRIE_TALL: that many or more */
} qn_trie_node;

struct qn_vocabulary_trie {
    qn_trie_node *nodes; /* node 0: the root, without a byte; one more behind the last */
    size_t first_plain;  /* nodes from here on are of plain tokens alone, those before of the others */
    uint64_t *kinds;     /* of each node: a bit for each kind of characters (char_kinds.h) below it, and for that in
                          * which it lies itself when it is not the end of it; QN_KIND_CUT then, and for all that is
                          * not plain or not whole */
    uint64_t *tails[QN_TRIE_TAILS + 1]; /* [d][i]: the same of the bytes from d on of tokens[i]; of 0 there is none */
    uint64_t *plain; /* for each n up to QN_PLAIN_MAX_CHARS a mask: the plain tokens of at most n characters */
    uint32_t kind_nodes[QN_KINDS]; /* plain nodes with a character of each kind below */
    qn_vocabulary_chars chars;
    size_t node_count;
    int32_t *tokens;
    size_t token_count; /* of the vocabulary, with those that have no bytes */
    size_t max_depth;
};

/* The tokens of ordinary text are kept apart, since a grammar that takes text mostly takes them all. A plain token is
 * UTF-8, where its last character may lack its end, of at most QN_PLAIN_MAX_CHARS characters; below 0x80 only those
 * that stand for themselves in JSON and XML. */
static inline bool qn_is_plain_ascii(uint8_t byte)
{
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\' && byte != '<';
}

static inline const uint64_t *qn_plain_tokens(const qn_vocabulary_trie *trie, size_t chars)
{
    return trie->plain + chars * ((trie->token_count + 63) / 64);
}

#endif
