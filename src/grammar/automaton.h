/* Deterministic automata over characters: what a grammar's expressions cannot say, intersection and complement.
 *
 * The characters are cut into intervals, the intervals grouped into classes that no state tells apart; every state has
 * a successor for each class, so that a complement is the same automaton with its states' meaning turned around. All of
 * it lives in the arena it was made in. Bounded: past QN_AUTOMATON_MOST_STATES, or when a room's work is used up, a
 * function gives up. */
#ifndef QN_GRAMMAR_AUTOMATON_H
#define QN_GRAMMAR_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "grammar/grammar.h"
#include "grammar/regex.h"

enum {
    QN_AUTOMATON_MOST_STATES = 8192,
    QN_AUTOMATON_MOST_CELLS = 1 << 21, /* states times classes */
    QN_AUTOMATON_MOST_WORK = 1 << 26   /* steps in one room: some tenths of a second */
};

/* Where automata are made: whose memory, and how much was done there. */
typedef struct qn_automaton_room {
    qn_arena *arena;
    size_t work;
} qn_automaton_room;

typedef struct qn_automaton {
    size_t state_count, class_count, interval_count;
    const uint32_t *firsts;   /* the first character of each interval; 0 is one; the last ends with U+10FFFF */
    const uint32_t *class_of; /* of each interval */
    const uint32_t *next;     /* of state s and class k: next[s * class_count + k]; state 0 is the start */
    const bool *accepting;
} qn_automaton;

/* A text that the automaton is made of. */
typedef struct qn_automaton_text {
    const char *data; /* UTF-8 */
    size_t bytes;
} qn_automaton_text;

/* Each gives NULL with err filled: QN_USAGE past a bound (or from the regex), QN_RESOURCE out of memory. */
const qn_automaton *qn_automaton_of_regex(qn_automaton_room *room, const char *regex, size_t bytes, bool search,
                                          qn_error *err);
const qn_automaton *qn_automaton_of_texts(qn_automaton_room *room, const qn_automaton_text *texts, size_t count,
                                          qn_error *err);
const qn_automaton *qn_automaton_of_length(qn_automaton_room *room, size_t min, size_t max,
                                           qn_error *err); /* QN_UNBOUNDED: no end */
/* The texts of a that are (`inside`) or are not in b. */
const qn_automaton *qn_automaton_both(qn_automaton_room *room, const qn_automaton *a, const qn_automaton *b,
                                      bool inside, qn_error *err);

bool qn_automaton_is_empty(const qn_automaton *a); /* of an automaton made by this file: all its states are reachable */
bool qn_automaton_matches(const qn_automaton *a, const char *text, size_t bytes);

/* The automaton as an expression; letters spell its characters (NULL: as UTF-8). QN_NO_WORDS when it is empty. */
qn_expr qn_automaton_expr(qn_automaton_room *room, qn_grammar_builder *b, const qn_automaton *a,
                          const qn_regex_letters *letters);

#endif
