/* Groups that are followed as one (grammar.h, qn_joint_groups): from the items that came, which may come next.
 *
 * Looking through a thousand groups takes some ten microseconds, and the same place is asked for again and again, once
 * for each node of the tree of items: the last answer is kept. */
#ifndef QN_GRAMMAR_JOINT_GROUPS_H
#define QN_GRAMMAR_JOINT_GROUPS_H

#include "grammar/grammar_internal.h"

typedef struct qn_joint_look {
    const qn_group *group; /* NULL: nothing yet */
    uint32_t count;
    bool may_end, may_go_on;
    uint64_t came[QN_JOINT_WORDS], next[QN_JOINT_WORDS]; /* as many words as the group has */
} qn_joint_look;

/* Whether the grammar has such groups. */
bool qn_joint_groups_are_in(const qn_grammar *grammar);

/* Fills `look` for the items whose bits are set in `came`, `count` with repeated ones. */
void qn_joint_groups_look(qn_joint_look *look, const qn_grammar *grammar, const qn_group *group, const uint64_t *came,
                          uint32_t count);

/* Whether one of the items first..last may come next. */
bool qn_joint_groups_may_come(const qn_joint_look *look, uint32_t first, uint32_t last);

#endif
