/* What masks keep with the sets of stacks. */
#ifndef QN_GRAMMAR_TOKEN_MASK_INTERNAL_H
#define QN_GRAMMAR_TOKEN_MASK_INTERNAL_H

#include "grammar/stack_sets.h"

/* A node of the trie at which a stack waits for what lies below it, in states[state]. */
typedef struct qn_waiting_node {
    uint32_t node, state;
} qn_waiting_node;

struct qn_top_entry {
    uint64_t *mask; /* tokens that are allowed whatever lies below; NULL when they are few: */
    int32_t *tokens;
    size_t token_count;
    qn_waiting_node *waiting;
    size_t waiting_count, waiting_capacity;
    uint32_t *states; /* no two alike */
    size_t state_count, state_capacity;
    bool useless; /* too much depends on what lies below: walk from the whole set instead */
};

void qn_top_entry_free(qn_top_entry *entry); /* NULL is fine */

#endif
