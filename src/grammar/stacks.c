/* A step moves each stack whose top takes the letter, then follows what needs no letter until every top waits for one.
 * Each pair of state and frame is looked at once a step, which ends loops and joins what is ambiguous.
 *
 * Rounds of a counted repetition that took no letter do not count: `fresh` is the depth from which on the rounds of
 * frames began in this very step, and what ends such a round is dropped. Nothing is lost, for the repetition then has
 * no least count and was at the same place with a lower one already. */
#include "grammar/stacks.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "grammar/matcher.h"

enum { FIRST_SLOTS = 64, FIRST_SEEN = 64, MOST_PENDING = 1 << 18, MOST_SEEN = 4 * QN_MATCHER_MAX_STACKS };
enum { MOST_FRAMES = 1 << 24, MOST_WORDS = QN_JOINT_WORDS };

static bool grow(qn_frame_store *store, void *block, size_t *capacity, size_t wanted, size_t size)
{
    if (qn_reserve(block, capacity, wanted, size))
        return true;
    store->short_of_memory = true;
    return false;
}

bool qn_frame_store_init(qn_frame_store *store, const qn_grammar *grammar)
{
    *store = (qn_frame_store){.grammar = grammar};
    store->slots = qn_alloc(FIRST_SLOTS, sizeof *store->slots);
    store->seen = qn_alloc_zero(FIRST_SEEN, sizeof *store->seen);
    if (!store->slots || !store->seen || !grow(store, &store->frames, &store->frame_capacity, 16, sizeof(qn_frame)))
        return false;
    if (!qn_joint_looks_init(&store->joint, grammar))
        return false;
    store->slot_count = FIRST_SLOTS;
    store->seen_capacity = FIRST_SEEN;
    qn_frame_store_clear(store);
    return true;
}

void qn_frame_store_clear(qn_frame_store *store)
{
    memset(store->slots, 0xFF, store->slot_count * sizeof *store->slots);
    store->frames[QN_FRAME_BOTTOM] = store->frames[QN_FRAME_UNKNOWN] = (qn_frame){.parent = QN_NO_FRAME};
    store->frame_count = QN_FIRST_FRAME;
    store->bit_count = 0;
}

void qn_frame_store_free(qn_frame_store *store)
{
    qn_free(store->frames);
    qn_free(store->bits);
    qn_free(store->slots);
    qn_free(store->pending);
    qn_free(store->seen);
    qn_joint_looks_free(&store->joint);
    *store = (qn_frame_store){0};
}

bool qn_frame_store_copy(qn_frame_store *to, const qn_frame_store *from)
{
    if (!qn_frame_store_init(to, from->grammar))
        return false;
    uint32_t *slots = qn_realloc(to->slots, from->slot_count, sizeof *slots);
    if (!slots)
        return false;
    to->slots = slots;
    to->slot_count = from->slot_count;
    if (!grow(to, &to->frames, &to->frame_capacity, from->frame_count, sizeof *to->frames) ||
        !grow(to, &to->bits, &to->bit_capacity, from->bit_count, sizeof *to->bits))
        return false;
    memcpy(to->slots, from->slots, from->slot_count * sizeof *slots);
    memcpy(to->frames, from->frames, from->frame_count * sizeof *to->frames);
    if (from->bit_count > 0)
        memcpy(to->bits, from->bits, from->bit_count * sizeof *to->bits);
    to->frame_count = from->frame_count;
    to->bit_count = from->bit_count;
    return true;
}

size_t qn_site_words(const qn_grammar *grammar, uint32_t site)
{
    const qn_state *state = &grammar->states[site];
    return state->kind == QN_STATE_GROUP_HEAD ? grammar->groups[state->a].words : 0;
}

static uint64_t hash_frame(uint32_t parent, uint32_t site, uint32_t count, const uint64_t *bits, size_t words)
{
    uint64_t hash = qn_hash_mix((uint64_t)parent << 32 | site, count);
    for (size_t i = 0; bits && i < words; i++)
        hash = qn_hash_mix(hash, bits[i]);
    return qn_hash_mix(hash, hash >> 32);
}

static bool same_bits(const uint64_t *stored, const uint64_t *bits, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (stored[i] != bits[i])
            return false;
    return true;
}

/* Twice the slots, when there are more frames than that. */
static bool make_slots(qn_frame_store *store)
{
    if (store->frame_count < store->slot_count)
        return true;
    uint32_t *slots = qn_alloc(2 * store->slot_count, sizeof *slots);
    if (!slots) {
        store->short_of_memory = true;
        return false;
    }
    qn_free(store->slots);
    store->slots = slots;
    store->slot_count *= 2;
    memset(slots, 0xFF, store->slot_count * sizeof *slots);
    for (size_t i = QN_FIRST_FRAME; i < store->frame_count; i++) {
        qn_frame *f = &store->frames[i];
        size_t words = qn_site_words(store->grammar, f->site);
        uint32_t *slot = &slots[hash_frame(f->parent, f->site, f->count, words ? store->bits + f->bits : NULL, words) &
                                (store->slot_count - 1)];
        f->chain = *slot;
        *slot = (uint32_t)i;
    }
    return true;
}

uint32_t qn_frame_store_find(qn_frame_store *store, uint32_t parent, uint32_t site, uint32_t count,
                             const uint64_t *bits)
{
    static const uint64_t NONE[MOST_WORDS] = {0};
    size_t words = qn_site_words(store->grammar, site);
    bits = bits ? bits : NONE;
    uint64_t hash = hash_frame(parent, site, count, words ? bits : NULL, words);
    for (uint32_t i = store->slots[hash & (store->slot_count - 1)]; i != UINT32_MAX; i = store->frames[i].chain) {
        const qn_frame *f = &store->frames[i];
        if (f->parent == parent && f->site == site && f->count == count &&
            (words == 0 || same_bits(store->bits + f->bits, bits, words)))
            return i;
    }
    uint32_t depth = store->frames[parent].depth + 1;
    if (depth > QN_MATCHER_MAX_DEPTH || store->frame_count >= MOST_FRAMES) {
        store->exhausted = true;
        return QN_NO_FRAME;
    }
    uint64_t copy[MOST_WORDS];
    memcpy(copy, bits, words * sizeof *copy); /* `bits` may lie in the store, which grows */
    if (!make_slots(store) ||
        !grow(store, &store->frames, &store->frame_capacity, store->frame_count + 1, sizeof *store->frames) ||
        !grow(store, &store->bits, &store->bit_capacity, store->bit_count + words, sizeof *store->bits))
        return QN_NO_FRAME;
    if (words > 0)
        memcpy(store->bits + store->bit_count, copy, words * sizeof *copy);
    uint32_t *slot = &store->slots[hash & (store->slot_count - 1)];
    store->frames[store->frame_count] = (qn_frame){parent, site, count, (uint32_t)store->bit_count, depth, *slot};
    *slot = (uint32_t)store->frame_count;
    store->bit_count += words;
    return (uint32_t)store->frame_count++;
}

bool qn_frame_store_collect(qn_frame_store *store, qn_stack_set *set)
{
    uint32_t *numbers = qn_alloc_zero(store->frame_count, sizeof *numbers); /* 0: not needed */
    if (!numbers) {
        store->short_of_memory = true;
        return false;
    }
    for (size_t i = 0; i < set->count; i++)
        numbers[set->stacks[i].frame] = 1;
    for (size_t i = store->frame_count; i-- > QN_FIRST_FRAME;)
        if (numbers[i])
            numbers[store->frames[i].parent] = 1;
    numbers[QN_FRAME_BOTTOM] = QN_FRAME_BOTTOM;
    numbers[QN_FRAME_UNKNOWN] = QN_FRAME_UNKNOWN;
    size_t end = store->frame_count, kept = QN_FIRST_FRAME, bits = 0;
    memset(store->slots, 0xFF, store->slot_count * sizeof *store->slots);
    for (size_t i = QN_FIRST_FRAME; i < end; i++) {
        if (!numbers[i])
            continue;
        qn_frame f = store->frames[i];
        size_t words = qn_site_words(store->grammar, f.site);
        if (words > 0)
            memmove(store->bits + bits, store->bits + f.bits, words * sizeof *store->bits);
        f.parent = numbers[f.parent];
        f.bits = (uint32_t)bits;
        bits += words;
        uint64_t hash = hash_frame(f.parent, f.site, f.count, words ? store->bits + f.bits : NULL, words);
        uint32_t *slot = &store->slots[hash & (store->slot_count - 1)];
        f.chain = *slot;
        *slot = numbers[i] = (uint32_t)kept;
        store->frames[kept++] = f;
    }
    store->frame_count = kept;
    store->bit_count = bits;
    for (size_t i = 0; i < set->count; i++)
        set->stacks[i].frame = numbers[set->stacks[i].frame];
    qn_free(numbers);
    return true;
}

static qn_seen_stack *find_seen(qn_seen_stack *seen, size_t capacity, uint32_t round, qn_stack stack)
{
    size_t i = qn_hash_mix((uint64_t)stack.frame << 32 | stack.state, 0) & (capacity - 1);
    while (seen[i].round == round && (seen[i].stack.state != stack.state || seen[i].stack.frame != stack.frame))
        i = (i + 1) & (capacity - 1);
    return &seen[i];
}

static bool grow_seen(qn_frame_store *store)
{
    if (2 * store->seen_count < store->seen_capacity)
        return true;
    qn_seen_stack *seen = qn_alloc_zero(2 * store->seen_capacity, sizeof *seen);
    if (!seen) {
        store->short_of_memory = true;
        return false;
    }
    for (size_t i = 0; i < store->seen_capacity; i++)
        if (store->seen[i].round == store->round)
            *find_seen(seen, 2 * store->seen_capacity, store->round, store->seen[i].stack) = store->seen[i];
    qn_free(store->seen);
    store->seen = seen;
    store->seen_capacity *= 2;
    return true;
}

static void begin(qn_frame_store *store, qn_stack_set *to)
{
    store->exhausted = store->short_of_memory = false;
    store->pending_count = store->seen_count = 0;
    store->asked = 0;
    if (++store->round == 0) {
        memset(store->seen, 0, store->seen_capacity * sizeof *store->seen);
        store->round = 1;
    }
    to->count = 0;
}

/* Looks at this stack too, unless it was in this step. */
static void visit(qn_frame_store *store, uint32_t state, uint32_t frame, uint32_t fresh)
{
    qn_stack stack = {state, frame};
    if (frame == QN_NO_FRAME || !grow_seen(store))
        return;
    qn_seen_stack *seen = find_seen(store->seen, store->seen_capacity, store->round, stack);
    if (seen->round == store->round) {
        store->work++;
        return;
    }
    if (store->seen_count >= MOST_SEEN || store->pending_count >= MOST_PENDING) {
        store->exhausted = true;
        return;
    }
    *seen = (qn_seen_stack){stack, store->round};
    store->seen_count++;
    if (grow(store, &store->pending, &store->pending_capacity, store->pending_count + 1, sizeof *store->pending))
        store->pending[store->pending_count++] = (qn_pending){state, frame, fresh};
}

static void keep(qn_frame_store *store, uint32_t state, uint32_t frame, qn_stack_set *to)
{
    if (to->count >= QN_MATCHER_MAX_STACKS)
        store->exhausted = true;
    else if (grow(store, &to->stacks, &to->capacity, to->count + 1, sizeof *to->stacks))
        to->stacks[to->count++] = (qn_stack){state, frame};
}

/* Where required items are still missing, others may only come while there is room for those. */
static bool has_room(const qn_group *group, const qn_frame *frame, size_t missing, bool is_missing)
{
    return group->max == QN_COUNT_UNBOUNDED || frame->count + missing + !is_missing <= group->max;
}

static size_t missing_items(const qn_grammar *g, const qn_group *group, const uint64_t *bits)
{
    size_t missing = 0;
    for (size_t w = 0; w < group->words; w++)
        missing += (size_t)__builtin_popcountll(g->words[group->required + w] & ~bits[w]);
    return missing;
}

/* Calls `visit` for each item that may come next, or only tells whether there is one. */
static bool choose_items(qn_frame_store *store, const qn_group *group, uint32_t frame, uint32_t fresh, bool go)
{
    const qn_grammar *g = store->grammar;
    qn_frame f = store->frames[frame];
    uint64_t bits[QN_GRAMMAR_MAX_ITEMS / 64];
    memcpy(bits, group->words ? store->bits + f.bits : bits, group->words * sizeof *bits);
    size_t missing = missing_items(g, group, bits);
    bool room = has_room(group, &f, missing, false);
    bool any = false;
    store->work += group->items / QN_WORDS_A_STACK;
    for (uint32_t i = 0; i < group->items; i++) {
        uint32_t entry = g->targets[group->first_item + i];
        if (entry == 0 || qn_bit_get(bits, i) || !(room || qn_bit_get(g->words + group->required, i)))
            continue;
        if (!go)
            return true;
        any = true;
        visit(store, entry, frame, fresh);
    }
    if (group->has_extra && room) {
        any = true;
        if (go)
            visit(store, g->targets[group->first_item + group->items], frame, fresh);
    }
    return any;
}

/* What may come at a frame of joint groups. The step's bound does not depend on which answers are kept: a matcher and a
 * mask come to the same. */
static const qn_joint_look *look_at(qn_frame_store *store, const qn_group *group, const qn_frame *f)
{
    uint64_t before = store->joint.looked;
    const qn_joint_look *look = qn_joint_groups_look(&store->joint, store->grammar, group, store->bits + f->bits,
                                                     f->count);
    store->work += (store->joint.looked - before) / QN_WORDS_A_STACK;
    store->asked += look->cost;
    store->exhausted |= store->asked > QN_STEP_WORDS;
    return look;
}

static void group_head(qn_frame_store *store, const qn_group *group, uint32_t frame, uint32_t fresh)
{
    qn_frame f = store->frames[frame];
    if (group->options) {
        const qn_joint_look *look = look_at(store, group, &f);
        bool may_go_on = look->may_go_on;
        if (look->may_end)
            visit(store, group->exit, f.parent, fresh);
        if (may_go_on)
            visit(store, f.count == 0 ? group->choose : group->separator, frame, fresh);
        return;
    }
    if (f.count >= group->min && missing_items(store->grammar, group, group->words ? store->bits + f.bits : NULL) == 0)
        visit(store, group->exit, f.parent, fresh);
    if (choose_items(store, group, frame, fresh, false))
        visit(store, f.count == 0 ? group->choose : group->separator, frame, fresh);
}

static void group_done(qn_frame_store *store, const qn_group *group, uint32_t item, uint32_t frame, uint32_t fresh)
{
    qn_frame f = store->frames[frame];
    uint64_t bits[MOST_WORDS];
    memcpy(bits, group->words ? store->bits + f.bits : bits, group->words * sizeof *bits);
    if (item < group->items)
        qn_bit_set(bits, item);
    uint32_t count = f.count < group->cap ? f.count + 1 : f.count;
    visit(store, group->head, qn_frame_store_find(store, f.parent, group->head, count, bits), fresh);
}

/* One of the branches below which an item may come. */
static void joint_branch(qn_frame_store *store, const qn_state *state, uint32_t frame, uint32_t fresh)
{
    const qn_grammar *g = store->grammar;
    qn_frame f = store->frames[frame];
    const qn_joint_look *look = look_at(store, &g->groups[state->a], &f);
    for (const qn_branch *branch = &g->branches[state->b];; branch++) {
        if (qn_joint_groups_may_come(look, branch->first, branch->last))
            visit(store, branch->entry, frame, fresh);
        if (!branch->more)
            break;
    }
}

static void repeat_head(qn_frame_store *store, const qn_repeat *repeat, uint32_t frame, uint32_t fresh)
{
    qn_frame f = store->frames[frame];
    if (f.count >= repeat->min)
        visit(store, repeat->exit, f.parent, fresh);
    if (repeat->max == QN_COUNT_UNBOUNDED || f.count < repeat->max)
        visit(store, repeat->body, frame, fresh < f.depth ? fresh : f.depth);
}

static void repeat_next(qn_frame_store *store, const qn_repeat *repeat, uint32_t frame, uint32_t fresh)
{
    qn_frame f = store->frames[frame];
    if (repeat->nullable && f.depth >= fresh)
        return;
    uint32_t count = repeat->max == QN_COUNT_UNBOUNDED && f.count >= repeat->min ? f.count : f.count + 1;
    visit(store, repeat->head, qn_frame_store_find(store, f.parent, repeat->head, count, NULL), fresh);
}

static void follow(qn_frame_store *store, qn_pending p, qn_stack_set *to)
{
    const qn_grammar *g = store->grammar;
    const qn_state *s = &g->states[p.state];
    bool is_end = p.frame < QN_FIRST_FRAME;
    switch ((qn_state_kind)s->kind) {
    case QN_STATE_SET:
    case QN_STATE_TOKEN:
        keep(store, p.state, p.frame, to);
        break;
    case QN_STATE_RETURN:
        if (is_end)
            keep(store, p.state, p.frame, to);
        else
            visit(store, store->frames[p.frame].site, store->frames[p.frame].parent, p.fresh);
        break;
    case QN_STATE_SPLIT:
        for (uint32_t i = 0; i < s->b && !store->exhausted && !store->short_of_memory; i++)
            visit(store, g->targets[s->a + i], p.frame, p.fresh);
        break;
    case QN_STATE_CALL:
        visit(store, s->a, qn_frame_store_find(store, p.frame, s->b, 0, NULL), p.fresh);
        break;
    case QN_STATE_REPEAT_ENTER:
        visit(store, g->repeats[s->a].head, qn_frame_store_find(store, p.frame, g->repeats[s->a].head, 0, NULL),
              p.fresh);
        break;
    case QN_STATE_REPEAT_HEAD:
        repeat_head(store, &g->repeats[s->a], p.frame, p.fresh);
        break;
    case QN_STATE_REPEAT_NEXT:
        if (is_end)
            keep(store, p.state, p.frame, to);
        else
            repeat_next(store, &g->repeats[s->a], p.frame, p.fresh);
        break;
    case QN_STATE_GROUP_ENTER:
        visit(store, g->groups[s->a].head, qn_frame_store_find(store, p.frame, g->groups[s->a].head, 0, NULL), p.fresh);
        break;
    case QN_STATE_GROUP_HEAD:
        group_head(store, &g->groups[s->a], p.frame, p.fresh);
        break;
    case QN_STATE_GROUP_CHOOSE:
        if (is_end)
            keep(store, p.state, p.frame, to);
        else
            choose_items(store, &g->groups[s->a], p.frame, p.fresh, true);
        break;
    case QN_STATE_GROUP_DONE:
        if (is_end)
            keep(store, p.state, p.frame, to);
        else
            group_done(store, &g->groups[s->a], s->b, p.frame, p.fresh);
        break;
    case QN_STATE_JOINT_BRANCH:
        if (is_end)
            keep(store, p.state, p.frame, to);
        else
            joint_branch(store, s, p.frame, p.fresh);
        break;
    }
}

static bool finish(qn_frame_store *store, qn_stack_set *to)
{
    while (store->pending_count > 0 && !store->exhausted && !store->short_of_memory)
        follow(store, store->pending[--store->pending_count], to);
    store->work += store->seen_count;
    return !store->exhausted && !store->short_of_memory;
}

bool qn_stacks_start(qn_frame_store *store, uint32_t state, uint32_t frame, qn_stack_set *to)
{
    begin(store, to);
    visit(store, state, frame, UINT32_MAX);
    return finish(store, to);
}

bool qn_stacks_step(qn_frame_store *store, const qn_stack_set *from, uint64_t letter, qn_stack_set *to)
{
    const qn_grammar *g = store->grammar;
    begin(store, to);
    for (size_t i = 0; i < from->count; i++) {
        qn_stack stack = from->stacks[i];
        const qn_state *s = &g->states[stack.state];
        bool takes = letter < QN_TOKEN_LETTER
                         ? s->kind == QN_STATE_SET && qn_bit_get(g->sets[s->a].bits, (size_t)letter)
                         : s->kind == QN_STATE_TOKEN && s->a == letter - QN_TOKEN_LETTER;
        if (takes)
            visit(store, s->b, stack.frame, UINT32_MAX);
    }
    store->work += from->count;
    return finish(store, to);
}

bool qn_stacks_close(qn_frame_store *store, const qn_stack_set *from, qn_stack_set *to)
{
    begin(store, to);
    for (size_t i = 0; i < from->count; i++)
        visit(store, from->stacks[i].state, from->stacks[i].frame, UINT32_MAX);
    return finish(store, to);
}
