/* What the x86 kernels of packed BF16 share: the walk of a row's exceptions, group by group. */
#ifndef QN_KERNELS_X86_PACKED_ROW_H
#define QN_KERNELS_X86_PACKED_ROW_H

#include "base/packed_bf16.h"
#include "kernels/kernels.h"

_Static_assert((int)QN_PACKED_GROUP == (int)QN_GROUP, "a group is unpacked for a group's sums");

enum { QN_NO_GROUP = -1, QN_SIDES_AHEAD = 32 /* rows: four lines of sides */ };

typedef struct qn_exception_walk {
    const qn_packed_exception *next, *end;
    size_t at; /* the first element of the group of the next exception; (size_t)QN_NO_GROUP: there is none */
} qn_exception_walk;

static inline void qn_exceptions_look(qn_exception_walk *walk)
{
    walk->at = walk->next < walk->end ? walk->next->col / QN_GROUP * QN_GROUP : (size_t)QN_NO_GROUP;
}

/* At the row's first exception; sides and exceptions of later rows are prefetched. */
static inline qn_exception_walk qn_exceptions_of(const qn_packed_side *side)
{
    const qn_packed_exception *list = qn_packed_exceptions(side);
    qn_exception_walk walk = {.next = list, .end = list + side->count};
    __builtin_prefetch(side + QN_SIDES_AHEAD);
    __builtin_prefetch(list + 2 * QN_SIDES_AHEAD);
    qn_exceptions_look(&walk);
    return walk;
}

/* Puts the exceptions of the group at walk->at, whose elements are in `group`, and goes on to those behind it. */
static inline void qn_exceptions_put(qn_exception_walk *walk, uint16_t group[QN_GROUP])
{
    const size_t at = walk->at;
    for (; walk->next < walk->end && walk->next->col < at + QN_GROUP; walk->next++)
        group[walk->next->col - at] = walk->next->bits;
    qn_exceptions_look(walk);
}

#endif
