/* The members are sets that refuse the same characters, the first one and those where its characters lead, and theirs:
 * until they lead to members only (a string without an end), all to where nothing may follow (a bounded one is full),
 * or the longest plain token is through. What leads to a set that refuses others (a space behind a word) is odd.
 *
 * A set that takes just what its members do not call out, and whose characters all lead to the same of them, comes
 * before them: the first letter of a word. */
#include "grammar/plain_text.h"

#include <string.h>

enum {
    ODD_NODES = 16, /* at most this part of the trie is looked at for the odd characters */
    FEW_LEADS = 20, /* bytes: where so few may follow, a walk is soon over */
    MOST_GROUPS = 16
};

typedef struct family {
    qn_set_table *table;
    const qn_vocabulary_trie *trie;
    const qn_vocabulary_chars *chars;
    qn_plain_reach *reach;
    const qn_char_ways *ways;
    bool is_top;
    bool several; /* ways of members */
    bool returns; /* some character leads back to a member of before */
    bool stays[QN_WAY_MOST], leaves[QN_WAY_MOST];
} family;

static bool leads_alike(const qn_set_table *table, uint32_t a, uint32_t b)
{
    uint64_t of_a[4], of_b[4];
    qn_char_ways_leads(table, a, of_a);
    qn_char_ways_leads(table, b, of_b);
    return memcmp(of_a, of_b, sizeof of_a) == 0;
}

/* The nodes above characters of a group, for the kinds that are of it alone. */
static size_t nodes_of(const family *f, const qn_char_ways *ways, size_t group)
{
    size_t nodes = 0;
    for (size_t k = 0; k < QN_KINDS; k++)
        if (ways->kind_group[k] == group && !(ways->mixed >> k & 1))
            nodes += f->trie->kind_nodes[k];
    return nodes;
}

/* Where nothing may follow. */
static bool is_end(const qn_set_table *table, uint32_t set)
{
    uint64_t leads[4];
    qn_char_ways_leads(table, set, leads);
    return (leads[0] | leads[1] | leads[3]) == 0;
}

/* Sorts the groups of a member into those that stay among the members, which come to be, and those that leave. Counts
 * those that lead to where nothing follows. end: of the members so far. False: too many of them, or a character that
 * has to be looked at. */
static bool cross(family *f, uint32_t member, uint32_t end, size_t *ended)
{
    qn_plain_reach *reach = f->reach;
    uint32_t targets[QN_WAY_MOST];
    const qn_char_ways *ways = qn_char_ways_find(f->table, f->chars, member);
    if (!ways || ways->unknown || ways->count > MOST_GROUPS)
        return false;
    f->several |= ways != f->ways;
    qn_char_ways_follow(f->table, f->chars, ways, member, f->is_top, targets);
    for (size_t g = QN_WAY_FIRST; g < ways->count; g++) {
        bool known = targets[g] != QN_WAY_SEVERAL && targets[g] != QN_SET_EMPTY;
        bool ends = known && is_end(f->table, targets[g]);
        const qn_char_ways *next = known && leads_alike(f->table, targets[g], reach->members[0])
                                       ? qn_char_ways_find(f->table, f->chars, targets[g])
                                       : NULL;
        bool stays = next && qn_char_ways_refuse_alike(f->chars, f->ways, next);
        *ended += ends;
        if (!stays && !ends && (f->is_top || nodes_of(f, ways, g) > f->trie->node_count / ODD_NODES))
            return false;
        f->stays[g] |= stays;
        f->leaves[g] |= !stays;
        uint32_t same = 0;
        while (stays && same < reach->count && reach->members[same] != targets[g])
            same++;
        f->returns |= stays && same < end;
        if (!stays || same < reach->count)
            continue;
        if (reach->count == QN_REACH_MEMBERS)
            return false;
        reach->members[reach->count++] = targets[g];
    }
    return true;
}

/* The kinds of characters in groups that leave. */
static uint64_t odd_kinds(const family *f)
{
    uint64_t odd = 0;
    for (size_t k = 0; k < QN_KINDS; k++)
        odd |= (uint64_t)(f->ways->kind_group[k] < QN_WAY_MOST && f->leaves[f->ways->kind_group[k]]) << k;
    odd &= ~f->ways->mixed;
    for (size_t i = 0; f->ways->mixed && i < f->chars->count; i++) {
        bool leaves = f->ways->groups[i] < QN_WAY_MOST && f->leaves[f->ways->groups[i]];
        odd |= (uint64_t)leaves << f->chars->kinds[i];
    }
    return odd;
}

static bool tell_out(family *f)
{
    qn_plain_reach *reach = f->reach;
    bool leaves = false;
    for (size_t g = QN_WAY_FIRST; g < QN_WAY_MOST; g++) {
        if (f->leaves[g] && (f->stays[g] || f->several || f->is_top))
            return false;
        reach->out[g] = f->leaves[g];
        leaves |= f->leaves[g];
    }
    reach->out[QN_WAY_REFUSED] = true;
    reach->ways = f->ways->refused || f->ways->partly || leaves ? f->ways : NULL;
    reach->odd = leaves ? odd_kinds(f) : 0;
    size_t nodes = 0;
    for (uint64_t left = reach->odd; left; left &= left - 1)
        nodes += f->trie->kind_nodes[__builtin_ctzll(left)];
    return nodes <= f->trie->node_count / ODD_NODES;
}

static bool find_family(family *f, uint32_t set)
{
    qn_plain_reach *reach = f->reach;
    f->ways = qn_char_ways_find(f->table, f->chars, set);
    if (!f->ways || f->ways->unknown)
        return false;
    *reach = (qn_plain_reach){.members = {set}, .count = 1};
    for (uint32_t begin = 0; reach->chars < QN_PLAIN_MAX_CHARS; reach->chars++) {
        uint32_t end = reach->count;
        size_t ended = 0, groups = 0;
        bool stays[QN_WAY_MOST], leaves[QN_WAY_MOST];
        memcpy(stays, f->stays, sizeof stays);
        memcpy(leaves, f->leaves, sizeof leaves);
        for (; begin < end; begin++) {
            const qn_char_ways *ways = qn_char_ways_find(f->table, f->chars, reach->members[begin]);
            groups += ways ? ways->count - QN_WAY_FIRST : 0;
            if (!cross(f, reach->members[begin], end, &ended))
                return false;
        }
        if (ended > 0 && ended == groups && !f->returns) { /* these are the last characters */
            memcpy(f->stays, stays, sizeof stays);
            memcpy(f->leaves, leaves, sizeof leaves);
            reach->chars++;
            break;
        }
        if (reach->count == end)
            reach->chars = QN_PLAIN_MAX_CHARS - 1;
    }
    return tell_out(f);
}

/* The set takes just the characters that are not out. */
static bool takes_the_rest(const qn_vocabulary_chars *chars, const qn_char_ways *set, const qn_plain_reach *reach)
{
    const qn_char_ways *w = reach->ways;
    size_t differ = 0;
    for (size_t i = 0; w && i < chars->count; i++) {
        uint8_t first = set->groups ? set->groups[i] : set->kind_group[chars->kinds[i]];
        differ += (first == QN_WAY_REFUSED) != reach->out[w->groups ? w->groups[i] : w->kind_group[chars->kinds[i]]];
    }
    return w && differ == 0;
}

/* From the one set where all characters lead on. */
static bool find_behind(family *f, uint32_t set)
{
    uint32_t targets[QN_WAY_MOST];
    const qn_char_ways *ways = qn_char_ways_find(f->table, f->chars, set);
    if (!ways || ways->unknown || ways->count != QN_WAY_FIRST + 1)
        return false;
    qn_char_ways_follow(f->table, f->chars, ways, set, f->is_top, targets);
    if (targets[QN_WAY_FIRST] == QN_WAY_SEVERAL || targets[QN_WAY_FIRST] == QN_SET_EMPTY)
        return false;
    family behind = {.table = f->table, .trie = f->trie, .chars = f->chars, .reach = f->reach, .is_top = f->is_top};
    if (!find_family(&behind, targets[QN_WAY_FIRST]) || !takes_the_rest(f->chars, ways, f->reach))
        return false;
    f->reach->chars += f->reach->chars < QN_PLAIN_MAX_CHARS;
    return true;
}

bool qn_plain_text_reach(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t set, bool is_top,
                         qn_plain_reach *reach)
{
    family f = {.table = table, .trie = trie, .chars = &trie->chars, .reach = reach, .is_top = is_top};
    uint64_t leads[4];
    qn_char_ways_leads(table, set, leads);
    bool beyond_ascii = leads[3] != 0;
    int count = __builtin_popcountll(leads[0]) + __builtin_popcountll(leads[1]);
    if (count == 0 && !beyond_ascii) {
        *reach = (qn_plain_reach){.members = {set}, .count = 1};
        return true;
    }
    if (count < FEW_LEADS && !beyond_ascii)
        return false;
    bool was_exhausted = table->exhausted; /* what only this search looks at does not count */
    table->exhausted = false;
    bool found = find_family(&f, set) || find_behind(&f, set);
    found = found && !table->failed && !table->exhausted;
    table->exhausted = was_exhausted;
    return found;
}

static void take_out(const qn_vocabulary_chars *chars, const qn_plain_reach *reach, uint64_t *mask)
{
    const qn_char_ways *w = reach->ways;
    for (size_t k = 0; k < QN_KINDS; k++) {
        if ((w->mixed >> k & 1) || !reach->out[w->kind_group[k]])
            continue;
        const uint64_t *tokens = chars->kind_tokens + k * chars->words;
        for (size_t i = 0; i < chars->words; i++)
            mask[i] &= ~tokens[i];
    }
    for (size_t i = 0; w->mixed && i < chars->count; i++) {
        if (!reach->out[w->groups[i]] || !(w->mixed >> chars->kinds[i] & 1))
            continue;
        for (uint32_t t = chars->first_token[i]; t < chars->first_token[i + 1]; t++)
            mask[chars->tokens[t] / 64] &= ~(UINT64_C(1) << (chars->tokens[t] % 64));
    }
}

void qn_plain_text_allow(const qn_vocabulary_trie *trie, const qn_plain_reach *reach, uint64_t *mask, uint64_t *room)
{
    size_t words = trie->chars.words;
    const uint64_t *plain = qn_plain_tokens(trie, reach->chars);
    if (reach->ways) {
        memcpy(room, plain, words * sizeof *room);
        take_out(&trie->chars, reach, room);
        plain = room;
    }
    for (size_t w = 0; w < words; w++)
        mask[w] |= plain[w];
}
