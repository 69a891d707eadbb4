/* The characters that occur in the plain tokens of a vocabulary (vocabulary_trie.h), and in which tokens each occurs:
 * what a grammar does with text is asked once a character, and what it refuses is taken out of a mask by lists. Made
 * with the trie, constant. */
#ifndef QN_GRAMMAR_VOCABULARY_CHARS_H
#define QN_GRAMMAR_VOCABULARY_CHARS_H

#include "base/error.h"
#include "grammar/char_kinds.h"

enum { QN_CHAR_BYTES = 4 };

/* A token's bytes, while a trie is made. */
typedef struct qn_spelling {
    size_t start, count;
    int32_t token;
    uint32_t chars;    /* of a plain token; of others 0 */
    const char *bytes; /* once all are there */
} qn_spelling;

/* A trie of the whole characters, flat like that of the tokens: a node's children begin behind it. */
typedef struct qn_char_node {
    uint64_t kinds; /* of the characters that end here or below */
    uint32_t skip;  /* the first node that is not below this one */
    uint32_t first; /* characters that end here or below: from `first` up to that of the node `skip` */
    uint8_t byte;
    uint8_t left; /* bytes from here to the end of its characters */
} qn_char_node;

typedef struct qn_vocabulary_chars {
    qn_char_node *nodes; /* one more behind the last */
    size_t node_count;
    size_t count; /* characters, in the order of their codes; from `whole` on those that lack their end */
    size_t whole;
    uint8_t (*bytes)[QN_CHAR_BYTES];
    uint8_t *lengths;
    uint8_t *kinds;        /* QN_KIND_CUT from `whole` on */
    uint32_t *first_token; /* of character i: tokens[first_token[i] .. first_token[i + 1]), some more than once; none of
                            * characters that are their kind's only one */
    uint32_t *tokens;
    uint64_t *kind_tokens; /* for each kind a mask: the plain tokens with a character of it */
    size_t words;          /* of a mask */
} qn_vocabulary_chars;

/* Of the plain ones of the tokens, for masks of `words` words. free takes what it failed on, too. */
qn_status qn_vocabulary_chars_make(const qn_spelling *tokens, size_t count, size_t words, qn_vocabulary_chars *out,
                                   qn_error *err);
void qn_vocabulary_chars_free(qn_vocabulary_chars *chars);

#endif
