/* Each set knows one set to go to and the kinds of characters that lead there, all of them and nowhere else; itself
 * when some kind does, as in a repetition, else where most lead, as in a counted one. */
#include "grammar/plain_run.h"

#include "grammar/char_kinds.h"

#define SEVERAL UINT32_MAX /* places, or one that has to be looked at */

enum { WANTED = 256 }; /* a search costs about as much as to look at this part of all nodes */
enum { CONTINUE_FIRST = 0x80, CONTINUE_LAST = 0xBF };

static uint32_t go(qn_set_table *table, uint32_t set, unsigned byte, bool is_top)
{
    uint32_t to = qn_set_table_next(table, set, (uint8_t)byte);
    const qn_set_entry *entry = &table->sets[to];
    bool too_much = is_top && (entry->waits || entry->count > QN_SET_WIDE || entry->depth > QN_SET_DEEP);
    return too_much || table->exhausted ? SEVERAL : to;
}

/* Where all bytes from `first` to `last` lead, with bytes from `from` to `until` behind each and `more` of 80 to BF
 * behind those; from 0: nothing is behind them. Goes 3 deep at most. */
static uint32_t go_all(qn_set_table *table, uint32_t set, const qn_char_form *form, // NOLINT(misc-no-recursion)
                       bool is_top)
{
    uint32_t all = SEVERAL, before = SEVERAL;
    qn_char_form rest = {form->kind, form->from, form->until, 0, 0, 0};
    if (form->more > 0)
        rest = (qn_char_form){form->kind,     form->from,    form->until,
                              CONTINUE_FIRST, CONTINUE_LAST, (uint8_t)(form->more - 1)};
    for (unsigned byte = form->first; byte <= form->last; byte++) {
        uint32_t to = go(table, set, byte, is_top);
        if (to == before && to != SEVERAL)
            continue;
        before = to;
        if (form->from > 0 && to != SEVERAL && to != QN_SET_EMPTY)
            to = go_all(table, to, &rest, is_top);
        if (to == SEVERAL || (byte > form->first && to != all))
            return SEVERAL;
        all = to;
    }
    return all;
}

/* Where the characters of each kind lead: all to one set, which may be the empty one, or to several. */
static void find_ways(qn_set_table *table, uint32_t set, bool is_top, uint32_t ways[QN_KINDS])
{
    bool seen[QN_KINDS] = {false};
    size_t count;
    const qn_char_form *forms = qn_char_forms(&count);
    for (unsigned byte = ' '; byte < 0x7F; byte++) {
        unsigned kind = qn_ascii_kind((uint8_t)byte);
        if (!qn_is_plain_ascii((uint8_t)byte) || (seen[kind] && ways[kind] == SEVERAL))
            continue;
        uint32_t to = go(table, set, byte, is_top);
        ways[kind] = seen[kind] && to != ways[kind] ? SEVERAL : to;
        seen[kind] = true;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned kind = forms[i].kind;
        if (seen[kind] && ways[kind] == SEVERAL)
            continue;
        uint32_t to = go_all(table, set, &forms[i], is_top);
        ways[kind] = seen[kind] && to != ways[kind] ? SEVERAL : to;
        seen[kind] = true;
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

static void describe(qn_set_table *table, uint32_t set, bool is_top)
{
    uint32_t ways[QN_KINDS];
    bool was_exhausted = table->exhausted; /* what only this search looks at does not count */
    table->exhausted = false;
    find_ways(table, set, is_top, ways);
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
            describe(table, set, is_top);
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
