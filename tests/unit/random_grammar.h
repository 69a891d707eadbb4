/* Random expressions over the letters a and b, with a slow and plain judge of their words for comparison. */
#ifndef QN_TESTS_RANDOM_GRAMMAR_H
#define QN_TESTS_RANDOM_GRAMMAR_H

#include "grammar/grammar.h"

enum { RANDOM_MOST_NODES = 64, RANDOM_LONGEST_WORD = 30 };

typedef struct random_node {
    enum { LITERAL, ANY, CONCAT, CHOICE, REPEAT, GROUP, SELF } kind;
    char text[4];
    int parts[4], count; /* of a group: the items, the separator, the extra */
    int items;
    bool required[3], has_extra;
    size_t min, max;
    qn_expr expr;
} random_node;

/* One rule, that may call itself behind a letter. */
typedef struct random_grammar {
    uint64_t seed;
    random_node nodes[RANDOM_MOST_NODES];
    int count, root;
    qn_rule rule;
} random_grammar;

uint64_t random_next(uint64_t *seed);
/* Fills *out and the builder; returns the root. */
qn_expr random_grammar_make(uint64_t seed, qn_grammar_builder *b, random_grammar *out);
/* Whether the word, of at most RANDOM_LONGEST_WORD letters, is one of the grammar. */
bool random_grammar_has(const random_grammar *g, const char *word, size_t length);

#endif
