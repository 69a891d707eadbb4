/* A group is still possible when it has all items that came. It can always be completed then: an item comes only where
 * some possible group has room left for what it requires. */
#include "grammar/joint_groups.h"

#include <string.h>

bool qn_joint_groups_are_in(const qn_grammar *grammar)
{
    return grammar->branch_count > 0;
}

static void look_at_option(qn_joint_look *look, const uint64_t *repeated, const uint64_t *own, size_t words)
{
    size_t missing = 0;
    uint64_t min = own[2 * words], max = own[2 * words + 1];
    for (size_t w = 0; w < words; w++)
        if (look->came[w] & ~own[w])
            return;
    for (size_t w = 0; w < words; w++)
        missing += (size_t)__builtin_popcountll(own[words + w] & ~look->came[w]);
    if (look->count + missing > max)
        return;
    bool room = look->count + missing < max;
    look->may_end |= missing == 0 && look->count >= min;
    for (size_t w = 0; w < words; w++) {
        uint64_t items = room ? own[w] & ~(look->came[w] & ~repeated[w]) : own[words + w] & ~look->came[w];
        look->next[w] |= items;
        look->may_go_on |= items != 0;
    }
}

void qn_joint_groups_look(qn_joint_look *look, const qn_grammar *grammar, const qn_group *group, const uint64_t *came,
                          uint32_t count)
{
    size_t words = group->words;
    if (look->group == group && look->count == count && memcmp(look->came, came, words * sizeof *came) == 0)
        return;
    look->group = group;
    look->count = count;
    look->may_end = look->may_go_on = false;
    memcpy(look->came, came, words * sizeof *came);
    memset(look->next, 0, words * sizeof *look->next);
    const uint64_t *repeated = grammar->words + group->first_word;
    for (size_t o = 0; o < group->options; o++)
        look_at_option(look, repeated, grammar->words + qn_joint_option_word(group->first_word, words, o), words);
}

bool qn_joint_groups_may_come(const qn_joint_look *look, uint32_t first, uint32_t last)
{
    size_t from = first / 64, to = last / 64;
    for (size_t w = from; w <= to; w++) {
        uint64_t bits = look->next[w];
        if (w == from)
            bits &= UINT64_MAX << (first % 64);
        if (w == to)
            bits &= UINT64_MAX >> (63 - last % 64);
        if (bits)
            return true;
    }
    return false;
}
