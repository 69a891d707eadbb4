/* Where the characters of a vocabulary lead from a set of stacks, in groups that lead to the same: found by one walk
 * over the characters, not the tokens, and once for all sets that differ only in the frame below (the counts of a
 * repetition). */
#ifndef QN_GRAMMAR_CHAR_WAYS_H
#define QN_GRAMMAR_CHAR_WAYS_H

#include "grammar/stack_sets.h"
#include "grammar/vocabulary_chars.h"

enum {
    QN_WAY_REFUSED = 0,
    QN_WAY_FIRST = 1,    /* groups 1 .. count - 1 lead somewhere */
    QN_WAY_MOST = 64,    /* groups */
    QN_WAY_ENDS = 253,   /* a part of a character, taken: the end of its tokens */
    QN_WAY_UNKNOWN = 254 /* a character that has to be looked at */
};
#define QN_WAY_SEVERAL UINT32_MAX /* a place that has to be looked at */

struct qn_char_ways {
    uint64_t refused;             /* the kinds of which no character of the vocabulary is taken, */
    uint64_t partly;              /* of which some are taken and some are not, */
    uint64_t mixed;               /* of which not all are of one group; */
    uint64_t unknown;             /* with a character that has to be looked at */
    uint8_t kind_group[QN_KINDS]; /* of kinds that are not mixed */
    uint8_t *groups;              /* of each character; NULL: no kind is mixed */
    size_t count;
    uint32_t samples[QN_WAY_MOST]; /* a character of each group */
};

/* The bytes with which plain text goes on from the set. */
void qn_char_ways_leads(const qn_set_table *table, uint32_t set, uint64_t bytes[4]);

void qn_char_ways_free(qn_char_ways *ways); /* NULL is fine */

/* Owned by the table. NULL: the set is too wide for it, or the table failed. */
const qn_char_ways *qn_char_ways_find(qn_set_table *table, const qn_vocabulary_chars *chars, uint32_t set);

/* Where the groups lead from the set, whose ways these are: a set, or QN_WAY_SEVERAL when it waits, is large or was cut
 * off (of a top, `is_top`). */
void qn_char_ways_follow(qn_set_table *table, const qn_vocabulary_chars *chars, const qn_char_ways *ways, uint32_t set,
                         bool is_top, uint32_t targets[QN_WAY_MOST]);

/* The same characters are refused. */
bool qn_char_ways_refuse_alike(const qn_vocabulary_chars *chars, const qn_char_ways *a, const qn_char_ways *b);

#endif
