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
 * on them.
 *
 * Inside of a string nearly every token may follow, and looking at each would take some milliseconds. So the tokens of
 * plain text, most of a vocabulary, lie apart in the trie, and where they are all taken alike (plain_text.h) they are
 * not walked at all. */
#include "grammar/token_mask.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/matcher_internal.h"
#include "grammar/token_mask_internal.h"
#include "grammar/plain_run.h"
#include "grammar/plain_text.h"
#include "grammar/vocabulary_trie.h"

enum {
    TOP_FRAMES = 4,    /* among which counts are looked for */
    RETURN_FRAMES = 3, /* that belong to a top: a character of a string is a call or two below the string */
    MOST_TOPS = 64,    /* stacks of a place that is taken apart */
    MOST_WAITING = 4096,
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

/* Those that end from the one node on and before the other. */
static void allow_tokens(const qn_vocabulary_trie *trie, size_t node, size_t end, uint64_t *mask)
{
    for (uint32_t i = trie->nodes[node].first_token; i < trie->nodes[end].first_token; i++)
        qn_bit_set(mask, (size_t)trie->tokens[i]);
}

/* The plain tokens that may follow the set, where they need no walk. */
static bool allow_plain(qn_mask_cache *c, uint32_t set, bool is_top, uint64_t *mask)
{
    size_t chars;
    if (!qn_plain_text_reach(&c->table, set, is_top, &chars))
        return false;
    const uint64_t *plain = qn_plain_tokens(c->trie, chars);
    for (size_t w = 0; w < c->words; w++)
        mask[w] |= plain[w];
    return true;
}

/* The nodes of a part of the trie, without the root. */
static uint32_t part_begin(const qn_mask_cache *c, qn_trie_part part)
{
    return part == QN_TRIE_PLAIN ? (uint32_t)c->trie->first_plain : 1;
}

static uint32_t part_end(const qn_mask_cache *c, qn_trie_part part)
{
    return (uint32_t)(part == QN_TRIE_PLAIN ? c->trie->node_count : c->trie->first_plain);
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

/* Of the tokens from the node on and before the other those whose characters below the node are all of the kinds;
 * false: that cannot be told at once. */
static bool allow_kinds(const qn_vocabulary_trie *trie, uint32_t node, uint32_t end, uint64_t kinds, uint64_t *mask)
{
    if (kinds == trie->kinds[node]) {
        allow_tokens(trie, node, end, mask);
        return true;
    }
    uint32_t first = trie->nodes[node].first_token;
    size_t depth = qn_min_size(trie->nodes[node].depth, QN_TRIE_TAILS);
    const uint64_t *tails = trie->tails[depth];
    if (depth < trie->nodes[node].depth && (tails[first] & ~kinds)) /* what lies between may be of another kind */
        return false;
    for (uint32_t i = first; i < trie->nodes[end].first_token; i++) {
        size_t token = (size_t)trie->tokens[i];
        mask[token / 64] |= (uint64_t)((tails[i] & ~kinds) == 0) << (token % 64);
    }
    return true;
}

/* Allows the tokens of a node where the set stands, and those below it if that needs no walk. Where to go on. */
static uint32_t allow_node(qn_mask_cache *c, uint32_t node, uint32_t set, bool is_top, uint64_t *mask)
{
    uint32_t skip = c->trie->nodes[node].skip;
    uint64_t kinds;
    if (skip > node + 1 && qn_plain_run_find(&c->table, c->trie, node, set, is_top, &kinds) &&
        allow_kinds(c->trie, node, skip, kinds, mask))
        return skip;
    allow_tokens(c->trie, node, node + 1, mask);
    return node + 1;
}

/* Allows the tokens of the nodes from `begin` on that are taken behind the sets in c->path. */
static void walk(qn_mask_cache *c, uint32_t begin, uint32_t end, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    for (uint32_t i = begin; i < end;) {
        uint32_t to = qn_set_table_next(&c->table, c->path[nodes[i].depth - 1], nodes[i].byte);
        if (to == QN_SET_EMPTY) {
            i = nodes[i].skip;
            continue;
        }
        c->path[nodes[i].depth] = to;
        i = allow_node(c, i, to, false, mask);
    }
}

/* The same from a top on unknown ground, noting what waits. */
static void walk_top(qn_mask_cache *c, uint32_t set, qn_trie_part part, qn_top_entry *top, uint64_t *mask)
{
    const qn_trie_node *nodes = c->trie->nodes;
    size_t below = 0;
    uint32_t end = part_end(c, part);
    c->path[0] = set;
    for (uint32_t i = part_begin(c, part); i < end && !top->useless && !c->table.failed;) {
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
            i = allow_node(c, i, to, true, mask);
            continue;
        }
        if (entry->alive)
            allow_tokens(c->trie, i, i + 1, mask);
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
    if (part != QN_TRIE_PLAIN || !allow_plain(c, set, true, c->scratch))
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
    for (size_t i = 0; i < top->state_count; i++) {
        grounds[i] = qn_set_table_start(&c->table, top->states[i], ground);
        if (c->table.sets[grounds[i]].count > QN_SET_WIDE || c->table.failed || c->table.exhausted)
            return false;
    }
    for (size_t i = 0; i < top->waiting_count; i++) {
        uint32_t node = top->waiting[i].node, from = grounds[top->waiting[i].state];
        if (from == QN_SET_EMPTY)
            continue;
        allow_tokens(c->trie, node, node + 1, mask);
        c->path[c->trie->nodes[node].depth] = from;
        walk(c, node + 1, c->trie->nodes[node].skip, mask);
    }
    return !c->table.failed && !c->table.exhausted;
}

/* A place taken apart: its tops as sets, each with its ground. */
typedef struct parted {
    uint32_t tops[MOST_TOPS], grounds[MOST_TOPS];
    size_t count;
} parted;

/* Stacks on the same ground are one top. False: the place is too large to be taken apart. */
static bool take_apart(qn_mask_cache *c, uint32_t place, parted *out)
{
    qn_stack tops[MOST_TOPS], group[MOST_TOPS];
    uint32_t grounds[MOST_TOPS];
    size_t count = 0;
    const qn_set_entry *entry = &c->table.sets[place];
    out->count = 0;
    if (entry->count > MOST_TOPS || entry->depth > QN_SET_DEEP)
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

static bool fill_tops(qn_mask_cache *c, const parted *p, qn_trie_part part, uint64_t *mask)
{
    for (size_t i = 0; i < p->count; i++)
        if (!fill_top(c, p->tops[i], part, p->grounds[i], mask))
            return false;
    return !c->table.failed;
}

static bool is_plain_known(qn_mask_cache *c, uint32_t top)
{
    size_t chars;
    const qn_top_entry *entry = c->table.sets[top].tops[QN_TRIE_PLAIN];
    return entry ? !entry->useless : qn_plain_text_reach(&c->table, top, true, &chars);
}

/* Adds the plain tokens: from the tops when that is no work, else from the whole place without a walk, else by a walk.
 */
static void fill_plain(qn_mask_cache *c, uint32_t place, const parted *p, bool apart, uint64_t *mask)
{
    bool known = apart;
    for (size_t i = 0; i < p->count && known; i++)
        known = is_plain_known(c, p->tops[i]);
    if (!known && allow_plain(c, place, false, mask))
        return;
    if (apart && fill_tops(c, p, QN_TRIE_PLAIN, mask))
        return;
    const uint64_t *plain = qn_plain_tokens(c->trie, QN_PLAIN_MAX_CHARS);
    for (size_t w = 0; w < c->words; w++)
        mask[w] &= ~plain[w];
    c->path[0] = place;
    walk(c, part_begin(c, QN_TRIE_PLAIN), part_end(c, QN_TRIE_PLAIN), mask);
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
    parted p;
    bool apart = take_apart(c, place, &p);
    if (!c->table.failed && !(apart && fill_tops(c, &p, QN_TRIE_OTHERS, mask)) && !c->table.failed) {
        memset(mask, 0, c->words * sizeof *mask);
        c->path[0] = place;
        walk(c, part_begin(c, QN_TRIE_OTHERS), part_end(c, QN_TRIE_OTHERS), mask);
    }
    if (!c->table.failed)
        fill_plain(c, place, &p, apart, mask);
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
    bool failed = c->table.failed, overworked = c->table.overworked;
    if (failed)
        qn_set_table_clear(&c->table);
    pthread_mutex_unlock(&c->lock);
    if (overworked)
        return qn_fail(err, QN_USAGE,
                       "token mask: the grammar is too ambiguous here to follow all its readings: make it simpler");
    return failed ? qn_fail_memory(err, "token mask", c->words * sizeof *allowed) : QN_OK;
}
