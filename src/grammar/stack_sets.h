/* Sets of stacks with numbers, and where each byte leads from them, found when first asked for: a deterministic
 * automaton that is made as far as it is walked. Masks and what else belongs to a set are kept with it.
 *
 * One thread at a time. Bounded: qn_set_table_full tells when to clear it, and a step that takes too much work fails.
 */
#ifndef QN_GRAMMAR_STACK_SETS_H
#define QN_GRAMMAR_STACK_SETS_H

#include "grammar/byte_classes.h"
#include "grammar/matcher.h"
#include "grammar/stacks.h"

enum {
    QN_SET_EMPTY = 0,
    QN_SET_TABLE_BYTES = 64 << 20,
    QN_SET_TABLE_WORK = 1 << 21, /* store.work of one piece of work: less than a tenth of a second */
    QN_SET_WIDE = 128,           /* stacks: wider sets from a single top could pass the matcher's bound together */
    QN_SET_DEEP = QN_MATCHER_MAX_DEPTH / 2
};

/* What the tokens do from one stack whose ground is not known. */
typedef struct qn_top_entry qn_top_entry;

/* Where characters lead. */
typedef struct qn_char_ways qn_char_ways;

typedef struct qn_set_entry {
    size_t first; /* of its stacks */
    uint32_t count;
    uint32_t chain;
    uint32_t depth;    /* of its deepest frame */
    bool alive;        /* a stack goes on or is through, whatever lies below */
    bool waits;        /* a stack waits for what lies below */
    uint64_t taken;    /* of the last step: which stacks took the byte (of 64 at most), */
    uint32_t taken_to; /* and where it led */
    uint32_t closure;  /* number + 1 of what is reached from it without a letter; 0: not known yet */
    uint32_t *next;    /* by class of bytes: number + 1, 0: not known yet; NULL: none known */
    uint8_t *alike;    /* of a set of many stacks, by class: the first one that the same stacks take; NULL: not known */
    uint64_t *mask;    /* tokens that may follow; NULL: not known */
    qn_top_entry *tops[2]; /* by qn_trie_part */
    qn_char_ways *ways;    /* char_ways.h; NULL: not known */
    uint64_t run_kinds;    /* plain_run.h: the kinds of characters that all lead to run_to */
    uint64_t run_refused;  /* and those that lead nowhere */
    uint32_t run_to;       /* UINT32_MAX: nowhere */
    uint32_t run_wanted;   /* nodes of the trie that could have been passed over by then */
    bool run_known;
} qn_set_entry;

typedef struct qn_set_table {
    qn_frame_store store;
    qn_byte_classes classes;
    qn_set_entry *sets;
    size_t set_count, set_capacity;
    qn_stack *stacks;
    size_t stack_count, stack_capacity;
    uint32_t *slots;
    size_t slot_count;
    qn_stack_set taken, made; /* room for a step */
    size_t bytes;             /* of next, masks and tops */
    uint64_t work_end;        /* how far store.work may go */
    bool exhausted;           /* a set was cut off since this was last reset: it counts as empty */
    bool failed;              /* no memory, or */
    bool overworked;          /* too much work */
} qn_set_table;

bool qn_set_table_init(qn_set_table *table, const qn_grammar *grammar);
void qn_set_table_free(qn_set_table *table);
void qn_set_table_clear(qn_set_table *table);
bool qn_set_table_full(const qn_set_table *table);

/* Begins a piece of work: no failure yet, all the work allowed again. */
void qn_set_table_begin(qn_set_table *table);

/* The number of the set, whose stacks are put in order. QN_SET_EMPTY too when it failed. */
uint32_t qn_set_table_find(qn_set_table *table, qn_stack_set *set);
/* What is reached from one state without a letter. */
uint32_t qn_set_table_start(qn_set_table *table, uint32_t state, uint32_t frame);
uint32_t qn_set_table_step(qn_set_table *table, uint32_t set, uint8_t byte); /* the slow way */

static inline uint32_t qn_set_table_next(qn_set_table *table, uint32_t set, uint8_t byte)
{
    const uint32_t *next = table->sets[set].next;
    uint8_t class_of = table->classes.of[byte];
    return next && next[class_of] ? next[class_of] - 1 : qn_set_table_step(table, set, byte);
}

#endif
