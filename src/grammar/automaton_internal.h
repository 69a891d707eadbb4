/* What the files of automata share; included by automaton*.c only.
 *
 * automaton.c makes automata with empty moves out of regexes and texts and uses the finished ones, automaton_subsets.c
 * makes them deterministic, automaton_product.c joins two of them.
 *
 * Memory is the room's; a function that fails fills n->err, sets n->failed and gives NULL or 0, and so does each one
 * that is called with a failed n. */
#ifndef QN_GRAMMAR_AUTOMATON_INTERNAL_H
#define QN_GRAMMAR_AUTOMATON_INTERNAL_H

#include "grammar/automaton.h"

enum { AUTOMATON_NO_SET = UINT16_MAX };

typedef struct automaton_set {
    const qn_char_range *ranges; /* in order, apart */
    size_t count;
} automaton_set;

/* A move from a state by a set of characters, or by nothing (AUTOMATON_NO_SET). */
typedef struct automaton_move {
    uint32_t from, to, set;
} automaton_move;

typedef struct automaton_nfa {
    qn_automaton_room *room;
    qn_error *err;
    bool failed;
    automaton_set *sets;
    automaton_move *moves;
    size_t set_count, set_capacity, move_count, move_capacity, state_count;
} automaton_nfa;

/* Intervals of characters that no set tells apart, and their classes. */
typedef struct automaton_classes {
    uint32_t *firsts, *class_of; /* of each interval */
    size_t interval_count, class_count;
    bool *holds; /* of class k and set s: holds[k * (set_count + 1) + s] */
} automaton_classes;

void automaton_fail_bound(automaton_nfa *n);
void automaton_work(automaton_nfa *n, size_t steps); /* fails past the room's bound */
void *automaton_take(automaton_nfa *n, size_t count, size_t size);
/* The block with room for one more behind `count` elements; NULL when there is none. */
void *automaton_grown(automaton_nfa *n, void *block, size_t count, size_t *capacity, size_t size);

/* The deterministic automaton of n, whose state 0 is the start and whose state 1 is the end. */
const qn_automaton *automaton_determine(automaton_nfa *n);

/* Which states of a lead to one whose acceptance is `wanted`. */
bool *automaton_live(automaton_nfa *n, const qn_automaton *a, bool wanted);

#endif
