/* What the parts of token masks share; included by token_mask.c, mask_*.c and stack_sets.c only.
 *
 * Each function works on a cache whose lock is held. When memory or the work allowed runs out the cache's table is
 * `failed`, and what the function did is of no use. */
#ifndef QN_GRAMMAR_TOKEN_MASK_INTERNAL_H
#define QN_GRAMMAR_TOKEN_MASK_INTERNAL_H

#include <pthread.h>

#include "grammar/stack_sets.h"
#include "grammar/token_mask.h"
#include "grammar/vocabulary_trie.h"

struct qn_mask_cache {
    pthread_mutex_t lock; /* guards all below */
    const qn_grammar *grammar;
    const qn_vocabulary_trie *trie;
    size_t words; /* of a mask */
    qn_set_table table;
    uint32_t *path;    /* the set at each depth of the walk */
    uint32_t *numbers; /* a matcher's frames in the table */
    size_t number_capacity;
    qn_stack_set place;
    uint64_t *scratch, *room; /* masks */
    bool cut;                 /* a walk went past the bound on stacks somewhere since this was last reset, */
    bool lost;                /* and the mask of the place cannot do without what is there */
};

/* The block with room for `wanted` elements of `size` bytes. */
bool mask_reserve(qn_mask_cache *c, void *block, size_t *capacity, size_t wanted, size_t size);

/* The walk (mask_trie.c). The nodes of a part of the trie, without the root: */
uint32_t mask_part_begin(const qn_mask_cache *c, qn_trie_part part);
uint32_t mask_part_end(const qn_mask_cache *c, qn_trie_part part);
/* Allows the tokens that end from the one node on and before the other. */
void mask_allow_tokens(const qn_vocabulary_trie *trie, size_t node, size_t end, uint64_t *mask);
/* Allows the plain tokens that may follow the set; false: that needs a walk over them all. */
bool mask_allow_plain(qn_mask_cache *c, uint32_t set, bool is_top, uint64_t *mask);
/* Allows the tokens of a node where the set stands, and those below it if that needs no walk. Where to go on. */
uint32_t mask_allow_node(qn_mask_cache *c, uint32_t node, uint32_t set, bool is_top, uint64_t *mask);
/* Allows the tokens of the nodes from `begin` on and before `end` that are taken behind the sets in c->path. Where the
 * stacks run out the tokens below are left out, and c->cut and c->lost tell; once lost, walks end. */
void mask_walk_trie(qn_mask_cache *c, uint32_t begin, uint32_t end, uint64_t *mask);

/* Tops (mask_tops.c). A node of the trie at which a stack waits for what lies below it, in states[state]. */
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

/* A place taken apart: its tops as sets, each with its ground. Stacks on the same ground are one top. */
enum { MASK_MOST_TOPS = 64 }; /* stacks of a place that is taken apart */
typedef struct mask_parted {
    uint32_t tops[MASK_MOST_TOPS], grounds[MASK_MOST_TOPS];
    size_t count;
} mask_parted;

bool mask_take_apart(qn_mask_cache *c, uint32_t place, mask_parted *out); /* false: the place is too large */
/* Adds the tokens of a part that may follow the tops on their grounds; false: the whole place has to be looked at. */
bool mask_fill_tops(qn_mask_cache *c, const mask_parted *p, qn_trie_part part, uint64_t *mask);
bool mask_is_plain_known(qn_mask_cache *c, uint32_t top); /* the plain tokens of a top need no walk */

#endif
