/* A top is walked once with its ground unknown. Those tokens that never look there are allowed or not once and for all;
 * for each of the others the node of the trie is kept where it looks there, and the walk goes on from these nodes with
 * the real ground. Frames with counts near the top belong to it, for in a bounded string all tokens depend on them. */
#include <string.h>

#include "base/memory.h"
#include "grammar/plain_text.h"
#include "grammar/token_mask_internal.h"

enum {
    TOP_FRAMES = 4,    /* among which counts are looked for */
    RETURN_FRAMES = 3, /* that belong to a top: a character of a string is a call or two below the string */
    MOST_WAITING = 4096,
    FEW_TOKENS = 512
};

void qn_top_entry_free(qn_top_entry *entry)
{
    if (!entry)
        return;
    qn_free(entry->mask);
    qn_free(entry->tokens);
    qn_free(entry->waiting);
    qn_free(entry->states);
    qn_free(entry);
}

static void add_waiting(qn_mask_cache *c, qn_top_entry *top, uint32_t node, uint32_t state)
{
    uint32_t i = 0;
    while (i < top->state_count && top->states[i] != state)
        i++;
    if (i == top->state_count) {
        if (!mask_reserve(c, &top->states, &top->state_capacity, top->state_count + 1, sizeof *top->states))
            return;
        top->states[top->state_count++] = state;
    }
    if (mask_reserve(c, &top->waiting, &top->waiting_capacity, top->waiting_count + 1, sizeof *top->waiting))
        top->waiting[top->waiting_count++] = (qn_waiting_node){node, i};
}

/* Notes at which node which stacks of the set wait. Many of them, or a long way to go from there for each ground: a
 * walk from the whole place costs less. */
static void note_waiting(qn_mask_cache *c, qn_top_entry *top, uint32_t set, uint32_t node, size_t *below)
{
    const qn_set_entry *entry = &c->table.sets[set];
    for (uint32_t i = 0; i < entry->count && !top->useless; i++) {
        qn_stack stack = c->table.stacks[entry->first + i];
        if (stack.frame != QN_FRAME_UNKNOWN || c->grammar->states[stack.state].kind == QN_STATE_SET ||
            c->grammar->states[stack.state].kind == QN_STATE_TOKEN)
            continue;
        *below += c->trie->nodes[node].skip - node;
        top->useless = *below > 2 * c->trie->node_count || top->waiting_count > MOST_WAITING ||
                       top->state_count > QN_SET_WIDE;
        add_waiting(c, top, node, stack.state);
    }
}

/* Allows the tokens of a part that are taken from a top on unknown ground, noting what waits. */
static void walk_top(qn_mask_cache *c, uint32_t set, qn_trie_part part, qn_top_entry *top, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    size_t below = 0;
    uint32_t end = mask_part_end(c, part);
    c->path[0] = set;
    for (uint32_t i = mask_part_begin(c, part); i < end && !top->useless && !c->table.failed;) {
        uint32_t to = qn_set_table_next(&c->table, c->path[nodes[i].depth - 1], nodes[i].byte);
        const qn_set_entry *entry = &c->table.sets[to];
        if (to == QN_SET_EMPTY) {
            i = nodes[i].skip;
            continue;
        }
        c->path[nodes[i].depth] = to;
        if (entry->count > QN_SET_WIDE || entry->depth > QN_SET_DEEP)
            top->useless = true;
        if (!entry->waits) {
            i = mask_allow_node(c, i, to, true, mask);
            continue;
        }
        if (entry->alive)
            mask_allow_tokens(c->trie, i, i + 1, mask);
        note_waiting(c, top, to, i, &below);
        i++;
    }
    top->useless |= c->table.exhausted;
}

/* Keeps the mask of a top in the smaller of two forms. */
static void keep_mask(qn_mask_cache *c, qn_top_entry *top, const uint64_t *mask)
{
    size_t count = 0;
    for (size_t w = 0; w < c->words && count <= FEW_TOKENS; w++)
        count += (size_t)__builtin_popcountll(mask[w]);
    if (count > FEW_TOKENS) {
        top->mask = qn_alloc(c->words, sizeof *top->mask);
        c->table.failed |= !top->mask;
        if (top->mask)
            memcpy(top->mask, mask, c->words * sizeof *mask);
        c->table.bytes += c->words * sizeof *mask;
        return;
    }
    top->tokens = qn_alloc(count, sizeof *top->tokens);
    c->table.failed |= !top->tokens;
    for (size_t w = 0; top->tokens && w < c->words; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1)
            top->tokens[top->token_count++] = (int32_t)(64 * w + (size_t)__builtin_ctzll(bits));
    c->table.bytes += count * sizeof *top->tokens;
}

static qn_top_entry *make_top(qn_mask_cache *c, uint32_t set, qn_trie_part part)
{
    qn_top_entry *top = qn_alloc_zero(1, sizeof *top);
    if (!top) {
        c->table.failed = true;
        return NULL;
    }
    memset(c->scratch, 0, c->words * sizeof *c->scratch);
    bool was_exhausted = c->table.exhausted;
    c->table.exhausted = false;
    if (part != QN_TRIE_PLAIN || !mask_allow_plain(c, set, true, c->scratch))
        walk_top(c, set, part, top, c->scratch);
    c->table.exhausted |= was_exhausted;
    if (!top->useless && !c->table.failed)
        keep_mask(c, top, c->scratch);
    if (c->table.failed) {
        qn_top_entry_free(top);
        return NULL;
    }
    if (top->useless) {
        qn_free(top->waiting);
        top->waiting = NULL;
        top->waiting_count = top->waiting_capacity = 0;
    }
    c->table.bytes += sizeof *top + top->waiting_capacity * sizeof *top->waiting;
    c->table.sets[set].tops[part] = top;
    return top;
}

/* The stack's top on unknown ground; *ground: the frame that lies below it. */
static qn_stack find_top(qn_mask_cache *c, qn_stack stack, uint32_t *ground)
{
    qn_frame_store *store = &c->table.store;
    uint32_t chain[TOP_FRAMES], frame = stack.frame;
    size_t known = 0;
    *ground = frame;
    for (size_t i = 0; i < TOP_FRAMES && frame >= QN_FIRST_FRAME; i++) {
        chain[i] = frame;
        qn_state_kind site = c->grammar->states[store->frames[frame].site].kind;
        bool belongs = site == QN_STATE_REPEAT_HEAD || (i < RETURN_FRAMES && known == i && site != QN_STATE_GROUP_HEAD);
        frame = store->frames[frame].parent;
        if (belongs) {
            known = i + 1;
            *ground = frame;
        }
    }
    uint32_t top = QN_FRAME_UNKNOWN;
    while (known > 0 && !c->table.failed) {
        qn_frame f = store->frames[chain[--known]];
        bool has_bits = qn_site_words(c->grammar, f.site) > 0;
        top = qn_frame_store_find(store, top, f.site, f.count, has_bits ? store->bits + f.bits : NULL);
        c->table.failed |= top == QN_NO_FRAME;
    }
    return (qn_stack){stack.state, top};
}

/* Adds the tokens of a top, a set, on its ground; false: the whole place has to be looked at. */
static bool fill_top(qn_mask_cache *c, uint32_t set, qn_trie_part part, uint32_t ground, uint64_t *mask)
{
    qn_top_entry *top = c->table.failed ? NULL : c->table.sets[set].tops[part];
    if (!top && !c->table.failed)
        top = make_top(c, set, part);
    if (!top || top->useless)
        return false;
    for (size_t w = 0; top->mask && w < c->words; w++)
        mask[w] |= top->mask[w];
    for (size_t i = 0; i < top->token_count; i++)
        qn_bit_set(mask, (size_t)top->tokens[i]);
    uint32_t grounds[QN_SET_WIDE + 2];
    c->table.exhausted = c->cut = false;
    for (size_t i = 0; i < top->state_count; i++) {
        grounds[i] = qn_set_table_start(&c->table, top->states[i], ground);
        if (c->table.sets[grounds[i]].count > QN_SET_WIDE || c->table.failed || c->table.exhausted)
            return false;
    }
    for (size_t i = 0; i < top->waiting_count; i++) {
        uint32_t node = top->waiting[i].node, from = grounds[top->waiting[i].state];
        if (from == QN_SET_EMPTY)
            continue;
        mask_allow_tokens(c->trie, node, node + 1, mask);
        c->path[c->trie->nodes[node].depth] = from;
        mask_walk_trie(c, node + 1, c->trie->nodes[node].skip, mask);
    }
    return !c->table.failed && !c->cut;
}

bool mask_take_apart(qn_mask_cache *c, uint32_t place, mask_parted *out)
{
    qn_stack tops[MASK_MOST_TOPS], group[MASK_MOST_TOPS];
    uint32_t grounds[MASK_MOST_TOPS];
    size_t count = 0;
    const qn_set_entry *entry = &c->table.sets[place];
    out->count = 0;
    if (entry->count > MASK_MOST_TOPS || entry->depth > QN_SET_DEEP)
        return false;
    for (uint32_t i = 0; i < entry->count; i++) {
        qn_stack stack = c->table.stacks[entry->first + i];
        if (c->grammar->states[stack.state].kind == QN_STATE_SET) {
            tops[count] = find_top(c, stack, &grounds[count]);
            count++;
        }
    }
    while (count > 0) {
        uint32_t ground = grounds[0];
        size_t members = 0, left = 0;
        for (size_t i = 0; i < count; i++) {
            if (grounds[i] == ground) {
                group[members++] = tops[i];
            } else {
                tops[left] = tops[i];
                grounds[left++] = grounds[i];
            }
        }
        count = left;
        out->tops[out->count] = qn_set_table_find(&c->table, &(qn_stack_set){group, members, members});
        out->grounds[out->count++] = ground;
    }
    return !c->table.failed;
}

bool mask_fill_tops(qn_mask_cache *c, const mask_parted *p, qn_trie_part part, uint64_t *mask)
{
    for (size_t i = 0; i < p->count; i++)
        if (!fill_top(c, p->tops[i], part, p->grounds[i], mask)) {
            c->lost = false; /* that is for who looks at the whole place to say */
            return false;
        }
    return !c->table.failed;
}

bool mask_is_plain_known(qn_mask_cache *c, uint32_t top)
{
    qn_plain_reach reach;
    const qn_top_entry *entry = c->table.sets[top].tops[QN_TRIE_PLAIN];
    return entry ? !entry->useless : qn_plain_text_reach(&c->table, c->trie, top, true, &reach);
}
