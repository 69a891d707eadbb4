/* The stacks of the automaton: frames that are stored once however many stacks share them, and the step from a set of
 * stacks over one letter to the next set.
 *
 * A stack is a top state and a frame; a frame is where to go on, data (a count, bits), and the frame below. Equal
 * frames have equal numbers, so that stacks are compared by two numbers. Only stacks whose top waits for a letter are
 * kept, and those that are through (QN_STATE_RETURN on QN_FRAME_BOTTOM).
 *
 * QN_FRAME_UNKNOWN stands for whatever lies below: a top that would have to look there is kept as it is, waiting. */
#ifndef QN_GRAMMAR_STACKS_H
#define QN_GRAMMAR_STACKS_H

#include "grammar/joint_groups.h"

enum { QN_FRAME_BOTTOM = 0, QN_FRAME_UNKNOWN = 1, QN_FIRST_FRAME = 2 };
enum {
    QN_WORDS_A_STACK = 32,
    QN_STEP_WORDS =
        1 << 24 /* of joint groups: a hundredth of a second; a look through the largest ones is a tenth of it */
};
#define QN_NO_FRAME UINT32_MAX

typedef struct qn_frame {
    uint32_t parent; /* has a lower number */
    uint32_t site;   /* state to return to, or the head of the repeat or group the frame belongs to */
    uint32_t count;
    uint32_t bits; /* index of the first word */
    uint32_t depth;
    uint32_t chain; /* next frame of the same hash */
} qn_frame;

typedef struct qn_stack {
    uint32_t state, frame;
} qn_stack;

typedef struct qn_stack_set {
    qn_stack *stacks; /* no two alike */
    size_t count, capacity;
} qn_stack_set;

typedef struct qn_pending {
    uint32_t state, frame, fresh;
} qn_pending;

typedef struct qn_seen_stack {
    qn_stack stack;
    uint32_t round;
} qn_seen_stack;

typedef struct qn_frame_store {
    const qn_grammar *grammar;
    qn_frame *frames;
    size_t frame_count, frame_capacity;
    uint64_t *bits;
    size_t bit_count, bit_capacity;
    uint32_t *slots;
    size_t slot_count; /* a power of two */
    qn_pending *pending;
    size_t pending_count, pending_capacity;
    qn_seen_stack *seen;
    size_t seen_count, seen_capacity; /* capacity: a power of two */
    qn_joint_looks joint;
    uint32_t round;
    uint64_t work;  /* stacks looked at so far, and QN_WORDS_A_STACK words of groups for one */
    uint64_t asked; /* what the last step's looks through joint groups cost, those of kept answers too */
    bool exhausted; /* it went past QN_MATCHER_MAX_STACKS or _DEPTH, or asked for more than QN_STEP_WORDS */
    bool short_of_memory;
} qn_frame_store;

/* All return false when out of memory. free takes what init failed on, too. */
bool qn_frame_store_init(qn_frame_store *store, const qn_grammar *grammar);
bool qn_frame_store_copy(qn_frame_store *to, const qn_frame_store *from);
void qn_frame_store_free(qn_frame_store *store);
void qn_frame_store_clear(qn_frame_store *store); /* forgets all frames */

/* The frame with these contents; bits NULL: all 0. QN_NO_FRAME: no memory, or too deep. */
uint32_t qn_frame_store_find(qn_frame_store *store, uint32_t parent, uint32_t site, uint32_t count,
                             const uint64_t *bits);

/* Frames that `set` does not need are dropped, the set's numbers follow. */
bool qn_frame_store_collect(qn_frame_store *store, qn_stack_set *set);

/* The words of bits in a frame of this site. */
size_t qn_site_words(const qn_grammar *grammar, uint32_t site);

/* What is reached from one place without a letter, from a state on a frame. False: out of memory or exhausted, and `to`
 * is of no use. */
bool qn_stacks_start(qn_frame_store *store, uint32_t state, uint32_t frame, qn_stack_set *to);

/* Over one letter: a byte, or QN_TOKEN_LETTER + token. `to` empty: it is refused. */
#define QN_TOKEN_LETTER UINT64_C(256)
bool qn_stacks_step(qn_frame_store *store, const qn_stack_set *from, uint64_t letter, qn_stack_set *to);

/* What is reached from these places without a letter: behind the letters that qn_stacks_step takes. */
bool qn_stacks_close(qn_frame_store *store, const qn_stack_set *from, qn_stack_set *to);

#endif
