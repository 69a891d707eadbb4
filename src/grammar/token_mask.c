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

#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/matcher_internal.h"
#include "grammar/token_mask_internal.h"

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
    c->room = qn_alloc(c->words, sizeof *c->room);
    if (!c->path || !c->scratch || !c->room || !qn_set_table_init(&c->table, grammar)) {
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
    qn_free(c->room);
    qn_free(c);
}

size_t qn_mask_cache_bytes(qn_mask_cache *c)
{
    pthread_mutex_lock(&c->lock);
    size_t bytes = c->table.bytes;
    pthread_mutex_unlock(&c->lock);
    return bytes;
}

/* Adds the plain tokens: from the tops when that is no work, else from the whole place without a walk, else by a walk.
 */
static void fill_plain(qn_mask_cache *c, uint32_t place, const mask_parted *p, bool apart, uint64_t *mask)
{
    bool known = apart;
    for (size_t i = 0; i < p->count && known; i++)
        known = mask_is_plain_known(c, p->tops[i]);
    if (!known && mask_allow_plain(c, place, false, mask))
        return;
    if (apart && mask_fill_tops(c, p, QN_TRIE_PLAIN, mask))
        return;
    const uint64_t *plain = qn_plain_tokens(c->trie, QN_PLAIN_MAX_CHARS);
    for (size_t w = 0; w < c->words; w++)
        mask[w] &= ~plain[w];
    c->path[0] = place;
    mask_walk_trie(c, mask_part_begin(c, QN_TRIE_PLAIN), mask_part_end(c, QN_TRIE_PLAIN), mask);
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
    mask_parted p;
    bool apart = mask_take_apart(c, place, &p);
    if (!c->table.failed && !(apart && mask_fill_tops(c, &p, QN_TRIE_OTHERS, mask)) && !c->table.failed) {
        memset(mask, 0, c->words * sizeof *mask);
        c->path[0] = place;
        mask_walk_trie(c, mask_part_begin(c, QN_TRIE_OTHERS), mask_part_end(c, QN_TRIE_OTHERS), mask);
    }
    if (!c->table.failed && !c->lost)
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
    if (!mask_reserve(c, &c->numbers, &c->number_capacity, from->frame_count, sizeof *c->numbers) ||
        !mask_reserve(c, &c->place.stacks, &c->place.capacity, m->now.count, sizeof *c->place.stacks))
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
    c->lost = place == QN_SET_EMPTY; /* only a matcher whose stacks ran out at its beginning has none */
    if (c->table.failed || c->lost)
        return;
    uint64_t *mask = c->table.sets[place].mask;
    if (!mask) {
        mask = qn_alloc_zero(c->words, sizeof *mask);
        if (!mask) {
            c->table.failed = true;
            return;
        }
        fill_place(c, place, mask);
        if (c->table.failed || c->lost) {
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
    bool failed = c->table.failed, ambiguous = c->table.overworked || (c->lost && !failed);
    if (failed)
        qn_set_table_clear(&c->table);
    pthread_mutex_unlock(&c->lock);
    if (ambiguous)
        return qn_fail(err, QN_USAGE,
                       "token mask: the grammar is too ambiguous here to follow all its readings: make it simpler");
    return failed ? qn_fail_memory(err, "token mask", c->words * sizeof *allowed) : QN_OK;
}
