/* Equal sets get equal numbers by their stacks in order; a set's table of bytes is made when it is first left. */
#include "grammar/stack_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/char_ways.h"
#include "grammar/token_mask_internal.h"

enum {
    MANY = 64,
    FEW = 24,
    FIRST_SLOTS = 1024,
    MOST_SETS = 1 << 16,
    MOST_STACKS = 1 << 22,
    MOST_FRAMES = 1 << 20,
    MOST_BIT_WORDS = 1 << 22
};

static bool grow(qn_set_table *table, void *block, size_t *capacity, size_t wanted, size_t size)
{
    if (qn_reserve(block, capacity, wanted, size))
        return true;
    table->failed = true;
    return false;
}

bool qn_set_table_init(qn_set_table *table, const qn_grammar *grammar)
{
    *table = (qn_set_table){0};
    table->slots = qn_alloc(FIRST_SLOTS, sizeof *table->slots);
    if (!table->slots || !grow(table, &table->sets, &table->set_capacity, 64, sizeof *table->sets) ||
        !qn_frame_store_init(&table->store, grammar))
        return false;
    table->slot_count = FIRST_SLOTS;
    qn_byte_classes_find(grammar, &table->classes);
    qn_set_table_clear(table);
    return true;
}

static void drop_sets(qn_set_table *table)
{
    for (size_t i = 0; i < table->set_count; i++) {
        qn_free(table->sets[i].next);
        qn_free(table->sets[i].alike);
        qn_free(table->sets[i].mask);
        qn_char_ways_free(table->sets[i].ways);
        qn_top_entry_free(table->sets[i].tops[0]);
        qn_top_entry_free(table->sets[i].tops[1]);
    }
    table->set_count = table->stack_count = table->bytes = 0;
}

void qn_set_table_clear(qn_set_table *table)
{
    drop_sets(table);
    memset(table->slots, 0xFF, table->slot_count * sizeof *table->slots);
    qn_frame_store_clear(&table->store);
    table->sets[QN_SET_EMPTY] = (qn_set_entry){.chain = UINT32_MAX};
    table->set_count = 1;
}

void qn_set_table_free(qn_set_table *table)
{
    drop_sets(table);
    qn_frame_store_free(&table->store);
    qn_free(table->sets);
    qn_free(table->stacks);
    qn_free(table->slots);
    qn_free(table->taken.stacks);
    qn_free(table->made.stacks);
    *table = (qn_set_table){0};
}

bool qn_set_table_full(const qn_set_table *table)
{
    return table->bytes > QN_SET_TABLE_BYTES || table->set_count > MOST_SETS || table->stack_count > MOST_STACKS ||
           table->store.frame_count > MOST_FRAMES || table->store.bit_count > MOST_BIT_WORDS;
}

void qn_set_table_begin(qn_set_table *table)
{
    table->failed = table->overworked = table->exhausted = false;
    table->work_end = table->store.work + QN_SET_TABLE_WORK;
}

static int by_number(const void *a, const void *b)
{
    const qn_stack *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

/* A step makes stacks in descending runs, and most sets are few stacks or a part of a set in order. */
static void sort_stacks(qn_stack *stacks, size_t count)
{
    size_t rising = 1, falling = 1;
    while (rising < count && by_number(&stacks[rising - 1], &stacks[rising]) <= 0)
        rising++;
    while (falling < count && by_number(&stacks[falling - 1], &stacks[falling]) >= 0)
        falling++;
    if (rising == count)
        return;
    for (size_t i = 0; i < falling / 2; i++) {
        qn_stack stack = stacks[i];
        stacks[i] = stacks[falling - 1 - i];
        stacks[falling - 1 - i] = stack;
    }
    if (falling == count)
        return;
    if (count > FEW) {
        qsort(stacks, count, sizeof *stacks, by_number);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        qn_stack stack = stacks[i];
        size_t at = i;
        for (; at > 0 && by_number(&stacks[at - 1], &stack) > 0; at--)
            stacks[at] = stacks[at - 1];
        stacks[at] = stack;
    }
}

static uint64_t hash_stacks(const qn_stack *stacks, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ ((uint64_t)stacks[i].state << 32 | stacks[i].frame)) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 31;
    }
    return hash;
}

static bool grow_slots(qn_set_table *table)
{
    if (table->set_count < table->slot_count)
        return true;
    uint32_t *slots = qn_alloc(2 * table->slot_count, sizeof *slots);
    if (!slots) {
        table->failed = true;
        return false;
    }
    qn_free(table->slots);
    table->slots = slots;
    table->slot_count *= 2;
    memset(slots, 0xFF, table->slot_count * sizeof *slots);
    for (size_t i = 1; i < table->set_count; i++) {
        qn_set_entry *set = &table->sets[i];
        uint32_t *slot = &slots[hash_stacks(table->stacks + set->first, set->count) & (table->slot_count - 1)];
        set->chain = *slot;
        *slot = (uint32_t)i;
    }
    return true;
}

static void describe(const qn_set_table *table, const qn_stack_set *set, qn_set_entry *entry)
{
    const qn_grammar *g = table->store.grammar;
    for (size_t i = 0; i < set->count; i++) {
        qn_state_kind kind = g->states[set->stacks[i].state].kind;
        uint32_t frame = set->stacks[i].frame;
        bool goes_on = kind == QN_STATE_SET || kind == QN_STATE_TOKEN || frame == QN_FRAME_BOTTOM;
        entry->alive |= goes_on;
        entry->waits |= !goes_on;
        entry->depth = (uint32_t)qn_max_size(entry->depth, table->store.frames[frame].depth);
    }
}

uint32_t qn_set_table_find(qn_set_table *table, qn_stack_set *set)
{
    if (set->count == 0 || table->failed)
        return QN_SET_EMPTY;
    sort_stacks(set->stacks, set->count);
    size_t kept = 1;
    for (size_t i = 1; i < set->count; i++)
        if (by_number(&set->stacks[i], &set->stacks[kept - 1]) != 0)
            set->stacks[kept++] = set->stacks[i];
    set->count = kept;
    uint64_t hash = hash_stacks(set->stacks, kept);
    for (uint32_t i = table->slots[hash & (table->slot_count - 1)]; i != UINT32_MAX; i = table->sets[i].chain)
        if (table->sets[i].count == kept &&
            memcmp(table->stacks + table->sets[i].first, set->stacks, kept * sizeof *set->stacks) == 0)
            return i;
    if (!grow_slots(table) ||
        !grow(table, &table->sets, &table->set_capacity, table->set_count + 1, sizeof *table->sets) ||
        !grow(table, &table->stacks, &table->stack_capacity, table->stack_count + kept, sizeof *table->stacks))
        return QN_SET_EMPTY;
    memcpy(table->stacks + table->stack_count, set->stacks, kept * sizeof *set->stacks);
    uint32_t *slot = &table->slots[hash & (table->slot_count - 1)];
    qn_set_entry entry = {.first = table->stack_count, .count = (uint32_t)kept, .chain = *slot};
    describe(table, set, &entry);
    table->sets[table->set_count] = entry;
    table->stack_count += kept;
    *slot = (uint32_t)table->set_count;
    return (uint32_t)table->set_count++;
}

static bool is_overworked(qn_set_table *table)
{
    table->overworked = table->overworked || table->store.work > table->work_end;
    return table->overworked;
}

/* The set that a step made, or none when it was cut off. */
static uint32_t take_made(qn_set_table *table, bool whole)
{
    if (table->store.short_of_memory || is_overworked(table))
        table->failed = true;
    if (table->store.exhausted)
        table->exhausted = true;
    return whole ? qn_set_table_find(table, &table->made) : QN_SET_EMPTY;
}

uint32_t qn_set_table_start(qn_set_table *table, uint32_t state, uint32_t frame)
{
    return take_made(table, qn_stacks_start(&table->store, state, frame, &table->made));
}

/* Where the set's stacks are right behind the byte, in table->taken. */
static bool take_byte(qn_set_table *table, const qn_set_entry *entry, uint8_t byte, uint64_t *which)
{
    const qn_grammar *g = table->store.grammar;
    table->taken.count = 0;
    if (!grow(table, &table->taken.stacks, &table->taken.capacity, entry->count, sizeof(qn_stack)))
        return false;
    for (uint32_t i = 0; i < entry->count; i++) {
        qn_stack stack = table->stacks[entry->first + i];
        const qn_state *s = &g->states[stack.state];
        if (s->kind == QN_STATE_SET && qn_bit_get(g->sets[s->a].bits, byte)) {
            table->taken.stacks[table->taken.count++] = (qn_stack){s->b, stack.frame};
            *which |= UINT64_C(1) << (i % 64);
        }
    }
    table->store.work += entry->count;
    table->failed = is_overworked(table);
    return !table->failed;
}

/* What is reached from table->taken. Many bytes lead to the same few places (the last one of a character to the next
 * character), and from there on all may be large: so it is found once for each of these. */
static uint32_t close_taken(qn_set_table *table)
{
    uint32_t places = qn_set_table_find(table, &table->taken);
    if (places == QN_SET_EMPTY || table->sets[places].closure)
        return places == QN_SET_EMPTY ? QN_SET_EMPTY : table->sets[places].closure - 1;
    uint32_t to = take_made(table, qn_stacks_close(&table->store, &table->taken, &table->made));
    if (!table->exhausted && !table->failed)
        table->sets[places].closure = to + 1;
    return to;
}

/* Which classes of bytes the same stacks take, found once for a set of many stacks, since each step looks at them all.
 * Stacks that read the same set of bytes are one bit. Of too many different ones all classes stay apart. */
static void put_together(qn_set_table *table, uint32_t set)
{
    enum { MOST = 64 };
    const qn_set_entry *entry = &table->sets[set];
    const qn_grammar *g = table->store.grammar;
    uint64_t taking[256] = {0};
    uint32_t known[MOST];
    size_t count = 0, classes = table->classes.count;
    for (uint32_t i = 0; i < entry->count && count < MOST; i++) {
        const qn_state *s = &g->states[table->stacks[entry->first + i].state];
        size_t k = count;
        while (k > 0 && known[k - 1] != s->a)
            k--;
        if (s->kind != QN_STATE_SET || k > 0)
            continue;
        known[count] = s->a;
        for (size_t byte = 0; byte < 256; byte++) {
            uint64_t bits = g->sets[s->a].bits[byte / 64] >> (byte % 64);
            byte += bits ? (size_t)__builtin_ctzll(bits) : 63 - byte % 64;
            taking[table->classes.of[byte]] |= (uint64_t)(bits != 0) << count;
        }
        count++;
    }
    uint8_t *alike = qn_alloc(classes, 1);
    table->failed |= !alike;
    for (size_t c = 0; alike && c < classes; c++) {
        size_t first = count < MOST ? 0 : c;
        while (taking[first] != taking[c])
            first++;
        alike[c] = (uint8_t)first;
    }
    table->sets[set].alike = alike;
    table->bytes += classes;
}

/* Where the byte leads, before it is kept for its class; *keep: it may be. */
static uint32_t step(qn_set_table *table, uint32_t set, uint8_t byte, bool *keep)
{
    uint64_t which = 0;
    *keep = false;
    if (!take_byte(table, &table->sets[set], byte, &which))
        return QN_SET_EMPTY;
    bool few = table->sets[set].count <= 64;
    *keep = true;
    if (which == 0)
        return QN_SET_EMPTY;
    if (few && which == table->sets[set].taken)
        return table->sets[set].taken_to;
    bool was_exhausted = table->exhausted;
    table->exhausted = false;
    uint32_t to = close_taken(table);
    *keep = !table->exhausted && !table->failed;
    table->exhausted |= was_exhausted;
    if (*keep && few) {
        table->sets[set].taken = which;
        table->sets[set].taken_to = to;
    }
    return to;
}

uint32_t qn_set_table_step(qn_set_table *table, uint32_t set, uint8_t byte)
{
    if (!table->failed && !table->sets[set].next) {
        table->sets[set].next = qn_alloc_zero(table->classes.count, sizeof(uint32_t));
        table->failed |= !table->sets[set].next;
        table->bytes += table->classes.count * sizeof(uint32_t);
        if (table->sets[set].count > MANY)
            put_together(table, set);
    }
    if (table->failed)
        return QN_SET_EMPTY;
    uint32_t *next = table->sets[set].next;
    uint8_t class_of = table->classes.of[byte], first = class_of;
    if (table->sets[set].alike)
        first = table->sets[set].alike[class_of];
    if (next[first]) {
        next[class_of] = next[first];
        return next[first] - 1;
    }
    bool keep;
    uint32_t to = step(table, set, byte, &keep);
    if (keep)
        next[first] = next[class_of] = to + 1;
    return to;
}
