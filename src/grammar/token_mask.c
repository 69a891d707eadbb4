/* A mask is a walk over the trie of the vocabulary with a set of stacks at each depth. Three things make it fast:
 *
 * Where bytes lead is kept (stack_sets.h), so that the walk is a table lookup a node. The mask of a whole set is kept,
 * so that the second time at the same place costs a copy. And since the same top occurs on ever new grounds (a string
 * in another member of an object), what the tokens do from one top state is kept apart from what lies below: those that
 * never look there are allowed or not once and for all, and for each of the others the node of the trie is kept where
 * it looks there; the walk goes on from these nodes with the real ground.
 *
 * A count that is further from its bounds than a token has bytes is as good as any other such count, and all of them
 * are taken for the same. Frames with counts near the top belong to the top, for in a bounded string all tokens depend
 * on them. */
#include "grammar/token_mask.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/matcher_internal.h"
#include "grammar/token_mask_internal.h"
#include "grammar/vocabulary_trie.h"

enum {
    TOP_FRAMES = 4, /* among which counts are looked for */
    MOST_TOPS = 16, /* stacks of a set that are looked at one by one */
    WIDE_SET = 128, /* stacks: wider ones from a single top could pass the matcher's bound together */
    DEEP = QN_MATCHER_MAX_DEPTH / 2,
    FEW_TOKENS = 512
};

struct qn_mask_cache {
    pthread_mutex_t lock; /* guards all below */
    const qn_grammar *grammar;
    const qn_vocabulary_trie *trie;
    size_t words;
    qn_set_table table;
    uint32_t *path;    /* the set at each depth of the walk */
    uint32_t *numbers; /* a matcher's frames in the table */
    size_t number_capacity;
    qn_stack_set place;
    uint64_t *scratch;
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

qn_status qn_mask_cache_new(const qn_grammar *grammar, const qn_vocabulary_trie *trie, qn_mask_cache **out,
                            qn_error *err)
{
    qn_mask_cache *c = qn_alloc_zero(1, sizeof *c);
    if (!c)
        return qn_fail_memory(err, "token masks", sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->grammar = grammar;
    c->trie = trie;
    c->words = qn_ceil_div(trie->token_count, 64);
    c->path = qn_alloc(trie->max_depth + 1, sizeof *c->path);
    c->scratch = qn_alloc(c->words, sizeof *c->scratch);
    if (!c->path || !c->scratch || !qn_set_table_init(&c->table, grammar)) {
        qn_fail_memory(err, "token masks", c->words * sizeof *c->scratch);
        qn_mask_cache_free(c);
        return err->status;
    }
    *out = c;
    return QN_OK;
}

void qn_mask_cache_free(qn_mask_cache *c)
{
    if (!c)
        return;
    qn_set_table_free(&c->table);
    pthread_mutex_destroy(&c->lock);
    qn_free(c->path);
    qn_free(c->numbers);
    qn_free(c->place.stacks);
    qn_free(c->scratch);
    qn_free(c);
}

size_t qn_mask_cache_bytes(qn_mask_cache *c)
{
    pthread_mutex_lock(&c->lock);
    size_t bytes = c->table.bytes;
    pthread_mutex_unlock(&c->lock);
    return bytes;
}

static void allow_tokens(const qn_vocabulary_trie *trie, size_t node, uint64_t *mask)
{
    for (uint32_t i = trie->nodes[node].first_token; i < trie->nodes[node + 1].first_token; i++)
        qn_bit_set(mask, (size_t)trie->tokens[i]);
}

static bool grow(qn_mask_cache *c, void *block, size_t *capacity, size_t wanted, size_t size)
{
    if (qn_reserve(block, capacity, wanted, size))
        return true;
    c->table.failed = true;
    return false;
}

static void add_waiting(qn_mask_cache *c, qn_top_entry *top, uint32_t node, uint32_t state)
{
    uint32_t i = 0;
    while (i < top->state_count && top->states[i] != state)
        i++;
    if (i == top->state_count) {
        if (!grow(c, &top->states, &top->state_capacity, top->state_count + 1, sizeof *top->states))
            return;
        top->states[top->state_count++] = state;
    }
    if (grow(c, &top->waiting, &top->waiting_capacity, top->waiting_count + 1, sizeof *top->waiting))
        top->waiting[top->waiting_count++] = (qn_waiting_node){node, i};
}

/* Notes at which node which stacks of the set wait. More nodes below these than the trie has twice: not worth it. */
static void note_waiting(qn_mask_cache *c, qn_top_entry *top, uint32_t set, uint32_t node, size_t *below)
{
    const qn_set_entry *entry = &c->table.sets[set];
    for (uint32_t i = 0; i < entry->count && !top->useless; i++) {
        qn_stack stack = c->table.stacks[entry->first + i];
        if (stack.frame != QN_FRAME_UNKNOWN || c->grammar->states[stack.state].kind == QN_STATE_SET ||
            c->grammar->states[stack.state].kind == QN_STATE_TOKEN)
            continue;
        *below += c->trie->nodes[node].skip - node;
        top->useless = *below > 2 * c->trie->node_count || top->state_count > WIDE_SET;
        add_waiting(c, top, node, stack.state);
    }
}

/* Allows the tokens below `node` that the set at the node takes. */
static void walk(qn_mask_cache *c, uint32_t set, uint32_t node, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    uint32_t end = nodes[node].skip;
    c->path[nodes[node].depth] = set;
    for (uint32_t i = node + 1; i < end;) {
        uint32_t to = qn_set_table_next(&c->table, c->path[nodes[i].depth - 1], nodes[i].byte);
        if (to == QN_SET_EMPTY) {
            i = nodes[i].skip;
            continue;
        }
        c->path[nodes[i].depth] = to;
        allow_tokens(c->trie, i, mask);
        i++;
    }
}

/* The same from a top on unknown ground, noting what waits. */
static void walk_top(qn_mask_cache *c, uint32_t set, qn_top_entry *top, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    size_t below = 0;
    c->path[0] = set;
    for (uint32_t i = 1; i < nodes[0].skip && !top->useless && !c->table.failed;) {
        uint32_t to = qn_set_table_next(&c->table, c->path[nodes[i].depth - 1], nodes[i].byte);
        const qn_set_entry *entry = &c->table.sets[to];
        if (to == QN_SET_EMPTY) {
            i = nodes[i].skip;
            continue;
        }
        c->path[nodes[i].depth] = to;
        if (entry->count > WIDE_SET || entry->depth > DEEP)
            top->useless = true;
        if (entry->alive)
            allow_tokens(c->trie, i, mask);
        if (entry->waits)
            note_waiting(c, top, to, i, &below);
        i++;
    }
    top->useless |= c->table.exhausted;
}

/* Keeps the mask of a top in the smaller of two forms. */
static void keep_mask(qn_mask_cache *c, qn_top_entry *top, const uint64_t *mask)
{
    size_t count = 0;
    for (size_t w = 0; w < c->words; w++)
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

static qn_top_entry *make_top(qn_mask_cache *c, uint32_t set)
{
    qn_top_entry *top = qn_alloc_zero(1, sizeof *top);
    if (!top) {
        c->table.failed = true;
        return NULL;
    }
    memset(c->scratch, 0, c->words * sizeof *c->scratch);
    bool was_exhausted = c->table.exhausted;
    c->table.exhausted = false;
    walk_top(c, set, top, c->scratch);
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
    c->table.sets[set].top = top;
    return top;
}

/* The stack's top on unknown ground, as a set; *ground: the frame that lies below it. */
static uint32_t find_top(qn_mask_cache *c, qn_stack stack, uint32_t *ground)
{
    qn_frame_store *store = &c->table.store;
    uint32_t chain[TOP_FRAMES], frame = stack.frame;
    size_t known = 0;
    *ground = frame;
    for (size_t i = 0; i < TOP_FRAMES && frame >= QN_FIRST_FRAME; i++) {
        chain[i] = frame;
        bool counts = c->grammar->states[store->frames[frame].site].kind == QN_STATE_REPEAT_HEAD;
        frame = store->frames[frame].parent;
        if (counts) {
            known = i + 1;
            *ground = frame;
        }
    }
    uint32_t top = QN_FRAME_UNKNOWN;
    while (known > 0) {
        qn_frame f = store->frames[chain[--known]];
        bool has_bits = qn_site_words(c->grammar, f.site) > 0;
        top = qn_frame_store_find(store, top, f.site, f.count, has_bits ? store->bits + f.bits : NULL);
        if (top == QN_NO_FRAME) {
            c->table.failed = true;
            return QN_SET_EMPTY;
        }
    }
    qn_stack one = {stack.state, top};
    return qn_set_table_find(&c->table, &(qn_stack_set){&one, 1, 1});
}

/* Adds the tokens of one stack; false: it has to be looked at with the whole set. */
static bool fill_stack(qn_mask_cache *c, qn_stack stack, uint64_t *mask)
{
    const qn_state *state = &c->grammar->states[stack.state];
    if (state->kind != QN_STATE_SET)
        return true;
    uint32_t ground, set = find_top(c, stack, &ground);
    qn_top_entry *top = c->table.failed ? NULL : c->table.sets[set].top;
    if (!top && !c->table.failed)
        top = make_top(c, set);
    if (!top || top->useless)
        return false;
    for (size_t w = 0; top->mask && w < c->words; w++)
        mask[w] |= top->mask[w];
    for (size_t i = 0; i < top->token_count; i++)
        qn_bit_set(mask, (size_t)top->tokens[i]);
    uint32_t grounds[WIDE_SET + 2];
    for (size_t i = 0; i < top->state_count; i++) {
        grounds[i] = qn_set_table_start(&c->table, top->states[i], ground);
        if (c->table.sets[grounds[i]].count > WIDE_SET || c->table.failed || c->table.exhausted)
            return false;
    }
    for (size_t i = 0; i < top->waiting_count; i++) {
        uint32_t node = top->waiting[i].node, from = grounds[top->waiting[i].state];
        if (from == QN_SET_EMPTY)
            continue;
        allow_tokens(c->trie, node, mask);
        if (c->trie->nodes[node].skip > node + 1)
            walk(c, from, node, mask);
    }
    return !c->table.failed && !c->table.exhausted;
}

static void fill_letters(const qn_mask_cache *c, const qn_set_entry *place, uint64_t *mask)
{
    for (uint32_t i = 0; i < place->count; i++) {
        const qn_state *state = &c->grammar->states[c->table.stacks[place->first + i].state];
        if (state->kind == QN_STATE_TOKEN && state->a < c->trie->token_count)
            qn_bit_set(mask, state->a);
    }
}

static void fill_place(qn_mask_cache *c, uint32_t place, uint64_t *mask)
{
    uint32_t count = c->table.sets[place].count;
    size_t first = c->table.sets[place].first;
    bool apart = count <= MOST_TOPS && c->table.sets[place].depth <= DEEP;
    for (uint32_t i = 0; i < count && apart; i++)
        apart = fill_stack(c, c->table.stacks[first + i], mask);
    if (!apart && !c->table.failed) {
        memset(mask, 0, c->words * sizeof *mask);
        walk(c, place, 0, mask);
    }
    fill_letters(c, &c->table.sets[place], mask);
}

/* The count that behaves as this one for as long as a token can last. */
static uint32_t usual_count(const qn_repeat *repeat, uint32_t count, size_t reach)
{
    if (repeat->max == QN_COUNT_UNBOUNDED)
        return count < repeat->min && repeat->min - count > reach ? 0 : count;
    if (repeat->max - count <= reach)
        return count;
    if (count < repeat->min)
        return repeat->min - count > reach ? 0 : count;
    return repeat->min;
}

/* A frame of the matcher in the table, from the ground up; those below it are there already. */
static uint32_t import_frame(qn_mask_cache *c, const qn_frame_store *from, uint32_t frame)
{
    const qn_frame *f = &from->frames[frame];
    const qn_state *site = &c->grammar->states[f->site];
    uint32_t count = f->count;
    if (site->kind == QN_STATE_REPEAT_HEAD)
        count = usual_count(&c->grammar->repeats[site->a], count, c->trie->max_depth + 1);
    bool has_bits = qn_site_words(c->grammar, f->site) > 0;
    return qn_frame_store_find(&c->table.store, c->numbers[f->parent], f->site, count,
                               has_bits ? from->bits + f->bits : NULL);
}

static uint32_t import_place(qn_mask_cache *c, const qn_matcher *m)
{
    const qn_frame_store *from = &m->store;
    if (!grow(c, &c->numbers, &c->number_capacity, from->frame_count, sizeof *c->numbers) ||
        !grow(c, &c->place.stacks, &c->place.capacity, m->now.count, sizeof *c->place.stacks))
        return QN_SET_EMPTY;
    memset(c->numbers, 0, from->frame_count * sizeof *c->numbers);
    for (size_t i = 0; i < m->now.count; i++)
        for (uint32_t f = m->now.stacks[i].frame; f >= QN_FIRST_FRAME && !c->numbers[f]; f = from->frames[f].parent)
            c->numbers[f] = 1;
    for (uint32_t f = QN_FIRST_FRAME; f < from->frame_count; f++) {
        if (!c->numbers[f])
            continue;
        c->numbers[f] = import_frame(c, from, f);
        if (c->numbers[f] == QN_NO_FRAME) {
            c->table.failed = true;
            return QN_SET_EMPTY;
        }
    }
    for (size_t i = 0; i < m->now.count; i++)
        c->place.stacks[i] = (qn_stack){m->now.stacks[i].state, c->numbers[m->now.stacks[i].frame]};
    c->place.count = m->now.count;
    return qn_set_table_find(&c->table, &c->place);
}

static void fill(qn_mask_cache *c, const qn_matcher *matcher, uint64_t *allowed)
{
    uint32_t place = import_place(c, matcher);
    if (c->table.failed || place == QN_SET_EMPTY)
        return;
    uint64_t *mask = c->table.sets[place].mask;
    if (!mask) {
        mask = qn_alloc_zero(c->words, sizeof *mask);
        if (!mask) {
            c->table.failed = true;
            return;
        }
        fill_place(c, place, mask);
        if (c->table.failed) {
            qn_free(mask);
            return;
        }
        c->table.sets[place].mask = mask;
        c->table.bytes += c->words * sizeof *mask;
    }
    memcpy(allowed, mask, c->words * sizeof *mask);
}

qn_status qn_mask_fill(qn_mask_cache *c, const qn_matcher *matcher, uint64_t *allowed, qn_error *err)
{
    pthread_mutex_lock(&c->lock);
    if (qn_set_table_full(&c->table))
        qn_set_table_clear(&c->table);
    qn_set_table_begin(&c->table);
    fill(c, matcher, allowed);
    bool failed = c->table.failed;
    if (failed)
        qn_set_table_clear(&c->table);
    pthread_mutex_unlock(&c->lock);
    if (failed)
        return qn_fail(err, QN_RESOURCE,
                       "token mask: out of memory, or the grammar is too ambiguous here to follow all "
                       "its readings: make it simpler");
    return QN_OK;
}
