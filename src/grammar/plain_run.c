/* Each set knows one set to go to and the kinds of characters that lead there, all of them and nowhere else; itself
 * when some kind does, as in a repetition, else where most lead, as in a counted one. */
#include "grammar/plain_run.h"

#include "grammar/char_ways.h"

#define SEVERAL QN_WAY_SEVERAL

enum { WANTED = 256 }; /* a search costs about as much as to look at this part of all nodes */

/* Where the characters of each kind lead: all to one set, which may be the empty one, or to several. */
static void find_ways(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t set, bool is_top,
                      uint32_t ways[QN_KINDS])
{
    uint32_t targets[QN_WAY_MOST];
    const qn_char_ways *found = qn_char_ways_find(table, &trie->chars, set);
    if (found)
        qn_char_ways_follow(table, &trie->chars, found, set, is_top, targets);
    for (size_t k = 0; k < QN_KINDS; k++) {
        bool single = found && !(found->mixed >> k & 1) && found->kind_group[k] < QN_WAY_MOST;
        ways[k] = single ? targets[found->kind_group[k]] : SEVERAL;
    }
    ways[QN_KIND_CUT] = SEVERAL;
}

/* The set itself if some kind leads back to it, else where most lead. */
static uint32_t find_best(uint32_t set, const uint32_t ways[QN_KINDS])
{
    uint32_t best = SEVERAL;
    size_t most = 0;
    for (size_t k = 0; k < QN_KINDS; k++) {
        size_t same = 0;
        if (ways[k] == set)
            return set;
        if (ways[k] == best || ways[k] == SEVERAL || ways[k] == QN_SET_EMPTY)
            continue;
        for (size_t i = k; i < QN_KINDS; i++)
            same += ways[i] == ways[k];
        if (same > most) {
            most = same;
            best = ways[k];
        }
    }
    return best;
}

static void describe(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t set, bool is_top)
{
    uint32_t ways[QN_KINDS];
    bool was_exhausted = table->exhausted; /* what only this search looks at does not count */
    table->exhausted = false;
    find_ways(table, trie, set, is_top, ways);
    table->exhausted = was_exhausted;
    qn_set_entry *entry = &table->sets[set];
    entry->run_to = find_best(set, ways);
    for (size_t k = 0; k < QN_KINDS; k++) {
        entry->run_kinds |= (uint64_t)(ways[k] == entry->run_to && ways[k] != SEVERAL) << k;
        entry->run_refused |= (uint64_t)(ways[k] == QN_SET_EMPTY) << k;
    }
    entry->run_known = true;
}

bool qn_plain_run_find(qn_set_table *table, const qn_vocabulary_trie *trie, uint32_t node, uint32_t set, bool is_top,
                       uint64_t *kinds)
{
    uint64_t below = trie->kinds[node];
    qn_set_entry *first = &table->sets[set];
    if (below >> QN_KIND_CUT & 1)
        return false;
    if (!first->run_known && first->run_wanted < trie->node_count / WANTED) {
        first->run_wanted += trie->nodes[node].skip - node;
        return false;
    }
    for (unsigned length = 0; length < trie->nodes[node].height; length++) {
        if (!table->sets[set].run_known)
            describe(table, trie, set, is_top);
        const qn_set_entry *entry = &table->sets[set];
        if (length == 0)
            *kinds = below & entry->run_kinds;
        if ((below & entry->run_kinds) != *kinds || (below & ~(*kinds | entry->run_refused)))
            return false;
        if (entry->run_to == set || *kinds == 0)
            return true;
        set = entry->run_to;
    }
    return trie->nodes[node].height < QN_TRIE_TALL;
}
