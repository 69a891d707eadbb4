/* The characters of plain text (vocabulary_trie.h) in a few kinds, as bits of a word: which kinds are below a node of
 * the trie is told by one word, and whether a set of stacks takes a whole kind is found by a few steps. Letters of
 * ASCII are a kind each, for patterns tell them apart; so are large blocks of letters. */
#ifndef QN_GRAMMAR_CHAR_KINDS_H
#define QN_GRAMMAR_CHAR_KINDS_H

#include <stddef.h>
#include <stdint.h>

enum {
    QN_KIND_LOWER = 0,  /* a to z */
    QN_KIND_UPPER = 26, /* A to Z */
    QN_KIND_DIGIT = 52,
    QN_KIND_SPACE,
    QN_KIND_UNDERSCORE,
    QN_KIND_DASH_OR_POINT,
    QN_KIND_OTHER_ASCII,
    QN_KIND_CYRILLIC,  /* U+0400 to U+047F */
    QN_KIND_OTHER_TWO, /* bytes in UTF-8 */
    QN_KIND_IDEOGRAPH, /* U+4E00 to U+9FFF */
    QN_KIND_HANGUL,    /* U+AC00 to U+D77F */
    QN_KIND_OTHER_THREE,
    QN_KIND_FOUR,
    QN_KIND_CUT, /* a part of a character: of no set's kinds */
    QN_KINDS
};

/* Characters of several bytes in UTF-8 that are of one kind: the first byte, the second, and `more` from 80 to BF. */
typedef struct qn_char_form {
    uint8_t kind, first, last, from, until, more;
} qn_char_form;

/* All characters beyond ASCII; those of a kind one after the other. */
const qn_char_form *qn_char_forms(size_t *count);

unsigned qn_ascii_kind(uint8_t byte);
/* The kind of the character that begins at the bytes, which are valid UTF-8 but may lack its end. */
unsigned qn_char_kind(const uint8_t *bytes, size_t count);

#endif
