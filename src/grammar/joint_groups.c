/* A group is still possible when it has all items that came. It can always be completed then: an item comes only where
 * some possible group has room left for what it requires. */
#include "grammar/joint_groups.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/size.h"

bool qn_joint_looks_init(qn_joint_looks *looks, const qn_grammar *grammar)
{
    size_t most = 0;
    *looks = (qn_joint_looks){0};
    for (size_t i = 0; i < grammar->group_count; i++)
        most = qn_max_size(most, grammar->groups[i].options ? grammar->groups[i].words : 0);
    if (most == 0)
        return true;
    looks->looks = qn_alloc_zero(QN_JOINT_LOOKS, sizeof *looks->looks);
    looks->words = qn_alloc(2 * most * QN_JOINT_LOOKS, sizeof *looks->words);
    if (!looks->looks || !looks->words)
        return false;
    for (size_t i = 0; i < QN_JOINT_LOOKS; i++) {
        looks->looks[i].came = looks->words + 2 * i * most;
        looks->looks[i].next = looks->looks[i].came + most;
    }
    return true;
}

void qn_joint_looks_free(qn_joint_looks *looks)
{
    qn_free(looks->looks);
    qn_free(looks->words);
    *looks = (qn_joint_looks){0};
}

/* The words in which items came: most are none, and most groups lack one of these items. */
typedef struct came_words {
    uint8_t at[QN_JOINT_WORDS];
    size_t count;
} came_words;

static void look_at_option(qn_joint_look *look, const uint64_t *repeated, const uint64_t *own, size_t words,
                           const came_words *came)
{
    size_t missing = 0;
    uint64_t min = own[2 * words], max = own[2 * words + 1];
    for (size_t i = 0; i < came->count; i++) {
        look->cost++;
        if (look->came[came->at[i]] & ~own[came->at[i]])
            return;
    }
    look->cost += 2 * words;
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

const qn_joint_look *qn_joint_groups_look(qn_joint_looks *looks, const qn_grammar *grammar, const qn_group *group,
                                          const uint64_t *came, uint32_t count)
{
    size_t words = group->words;
    uint64_t hash = qn_hash_mix((uint64_t)group->first_word, count);
    for (size_t w = 0; w < words; w++)
        hash = qn_hash_mix(hash, came[w]);
    qn_joint_look *look = &looks->looks[qn_hash_mix(hash, hash >> 32) % QN_JOINT_LOOKS];
    looks->looked += words;
    if (look->group == group && look->count == count && memcmp(look->came, came, words * sizeof *came) == 0)
        return look;
    look->group = group;
    look->count = count;
    look->may_end = look->may_go_on = false;
    memcpy(look->came, came, words * sizeof *came);
    memset(look->next, 0, words * sizeof *look->next);
    look->cost = group->options;
    came_words which = {.count = 0};
    for (size_t w = 0; w < words; w++)
        if (came[w])
            which.at[which.count++] = (uint8_t)w;
    const uint64_t *repeated = grammar->words + group->first_word;
    for (size_t o = 0; o < group->options; o++)
        look_at_option(look, repeated, grammar->words + qn_joint_option_word(group->first_word, words, o), words,
                       &which);
    looks->looked += look->cost;
    return look;
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
