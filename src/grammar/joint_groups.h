/* Groups that are followed as one (grammar.h, qn_joint_groups): from the items that came, which may come next.
 *
 * Looking through a thousand groups takes some ten microseconds, and the same few places are asked for again and again,
 * once for each node of the tree of items: the last answers are kept, whatever lies below the groups. */
#ifndef QN_GRAMMAR_JOINT_GROUPS_H
#define QN_GRAMMAR_JOINT_GROUPS_H

#include "grammar/grammar_internal.h"

enum { QN_JOINT_LOOKS = 64 }; /* answers that are kept: 130 KiB of them at most */

typedef struct qn_joint_look {
    const qn_group *group; /* NULL: nothing yet */
    uint32_t count;
    bool may_end, may_go_on;
    uint64_t cost;         /* words of the group that were looked at for it, and one for each option */
    uint64_t *came, *next; /* as many words as the group has */
} qn_joint_look;

typedef struct qn_joint_looks {
    qn_joint_look *looks; /* QN_JOINT_LOOKS; NULL: the grammar has no such groups */
    uint64_t *words;      /* of all of them */
    uint64_t looked;      /* words looked at so far */
} qn_joint_looks;

/* False: out of memory. free takes what init failed on, too. */
bool qn_joint_looks_init(qn_joint_looks *looks, const qn_grammar *grammar);
void qn_joint_looks_free(qn_joint_looks *looks);

/* What may follow the items whose bits are set in `came`, `count` with repeated ones; valid until the next call. */
const qn_joint_look *qn_joint_groups_look(qn_joint_looks *looks, const qn_grammar *grammar, const qn_group *group,
                                          const uint64_t *came, uint32_t count);

/* Whether one of the items first..last may come next. */
bool qn_joint_groups_may_come(const qn_joint_look *look, uint32_t first, uint32_t last);

#endif
