/* Characters as UTF-8: the ranges are split by the length of the encoding and then byte by byte; blocks of characters
 * with the same rest share one expression, which makes the smallest automaton there is for the set. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/grammar_internal.h"

enum {
    LAST_CHAR = 0x10FFFF,
    FIRST_SURROGATE = 0xD800,
    LAST_SURROGATE = 0xDFFF,
    NEVER = 1,
    LEVELS = 4,
    MANY_RANGES = 8
};

/* Of one call: what the last `level` bytes of an encoding may be, as 64 rests by the first of them. */
typedef struct block {
    uint32_t level;
    qn_expr rests[64]; /* at level 1: 0 or 1 */
    qn_expr expr;
} block;

typedef struct encoder {
    qn_grammar_builder *builder;
    qn_char_range *ranges; /* ascending, apart */
    size_t count;
    uint32_t low, high; /* characters of the length at work */
    block *blocks;
    size_t block_count, block_capacity;
    bool has_full[LEVELS];
    qn_expr full[LEVELS]; /* by level: a block with all its characters, so that large ranges are not walked through */
} encoder;

static int by_first(const void *a, const void *b)
{
    const qn_char_range *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static void add_range(encoder *e, uint32_t first, uint32_t last)
{
    if (first > last)
        return;
    if (e->count > 0 && first <= e->ranges[e->count - 1].last + 1) {
        if (last > e->ranges[e->count - 1].last)
            e->ranges[e->count - 1].last = last;
        return;
    }
    e->ranges[e->count++] = (qn_char_range){first, last};
}

/* Sorts, joins, cuts the surrogates out. */
static void take_ranges(encoder *e, const qn_char_range *sorted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t first = sorted[i].first, last = sorted[i].last < LAST_CHAR ? sorted[i].last : LAST_CHAR;
        if (first < FIRST_SURROGATE)
            add_range(e, first, last < FIRST_SURROGATE ? last : FIRST_SURROGATE - 1);
        if (last > LAST_SURROGATE)
            add_range(e, first > LAST_SURROGATE ? first : LAST_SURROGATE + 1, last);
    }
}

/* What is in no range, in place: the gaps of n ranges are at most n + 1. */
static void invert(encoder *e)
{
    uint32_t next = 0;
    size_t count = e->count;
    qn_char_range *old = e->ranges;
    e->ranges = old + count + 1;
    e->count = 0;
    qn_char_range *gaps = e->ranges;
    for (size_t i = 0; i <= count; i++) {
        uint32_t end = i < count ? old[i].first : LAST_CHAR + 1;
        if (end > next)
            gaps[e->count++] = (qn_char_range){next, end - 1};
        next = i < count ? old[i].last + 1 : end;
    }
}

/* The index of the first range that ends at or behind c. */
static size_t find_range(const encoder *e, uint32_t c)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (e->ranges[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One option for each rest, led by the bytes it can follow. */
static qn_expr spell(encoder *e, const qn_expr *rests, size_t count, unsigned first_byte, bool last)
{
    qn_expr options[64];
    size_t option_count = 0;
    bool done[64] = {false};
    for (size_t i = 0; i < count; i++) {
        if (done[i] || rests[i] == (last ? 0 : NEVER))
            continue;
        qn_byte_set set = {{0}};
        for (size_t j = i; j < count; j++)
            if (rests[j] == rests[i]) {
                done[j] = true;
                qn_bit_set(set.bits, first_byte + j);
            }
        qn_expr lead = qn_expr_byte_set(e->builder, set.bits);
        options[option_count++] = last ? lead : qn_expr_concat2(e->builder, lead, rests[i]);
    }
    return qn_expr_choice(e->builder, options, option_count);
}

static qn_expr find_block(encoder *e, const block *wanted)
{
    for (size_t i = 0; i < e->block_count; i++)
        if (e->blocks[i].level == wanted->level && memcmp(e->blocks[i].rests, wanted->rests, sizeof wanted->rests) == 0)
            return e->blocks[i].expr;
    if (!qn_builder_reserve(e->builder, &e->blocks, &e->block_capacity, e->block_count, 1, 1 << 16, sizeof *e->blocks,
                            "blocks of characters"))
        return NEVER;
    block *made = &e->blocks[e->block_count++];
    *made = *wanted;
    made->expr = spell(e, made->rests, 64, 0x80, made->level == 1);
    return made->expr;
}

/* Sets the places, from base on, of the characters from low to high that are in the set; `range` is the first there. */
static void mark_chars(const encoder *e, size_t range, uint32_t base, uint32_t low, uint32_t high, qn_expr *places)
{
    for (; range < e->count && e->ranges[range].first <= high; range++) {
        uint32_t first = e->ranges[range].first > low ? e->ranges[range].first : low;
        uint32_t last = e->ranges[range].last < high ? e->ranges[range].last : high;
        for (uint32_t c = first; c <= last; c++)
            places[c - base] = 1;
    }
}

/* The characters from base of those in the set, by their last `level` bytes. Goes `level` deep, which is at most 3. */
static qn_expr encode(encoder *e, uint32_t base, uint32_t level) // NOLINT(misc-no-recursion)
{
    uint32_t end = base + ((uint32_t)1 << (6 * level)) - 1;
    uint32_t low = base > e->low ? base : e->low, high = end < e->high ? end : e->high;
    size_t range = find_range(e, low);
    if (low > high || range == e->count || e->ranges[range].first > high)
        return NEVER;
    bool full = low == base && high == end && e->ranges[range].first <= base && e->ranges[range].last >= end;
    if (full && e->has_full[level])
        return e->full[level];
    block made = {.level = level};
    if (level > 1) {
        uint32_t step = (uint32_t)1 << (6 * (level - 1));
        for (uint32_t i = 0; i < 64; i++)
            made.rests[i] = encode(e, base + i * step, level - 1);
    } else {
        mark_chars(e, range, base, low, high, made.rests);
    }
    qn_expr expr = find_block(e, &made);
    if (full) {
        e->has_full[level] = true;
        e->full[level] = expr;
    }
    return expr;
}

static qn_expr encode_all(encoder *e)
{
    static const struct {
        uint32_t low, high;
        unsigned first_byte, leads;
    } LENGTHS[LEVELS] = {
        {0, 0x7F, 0, 1}, {0x80, 0x7FF, 0xC0, 32}, {0x800, 0xFFFF, 0xE0, 16}, {0x10000, LAST_CHAR, 0xF0, 5}};
    qn_expr options[LEVELS];
    qn_byte_set ascii = {{0}};
    for (uint32_t c = 0; c < 0x80; c++) {
        size_t range = find_range(e, c);
        if (range < e->count && e->ranges[range].first <= c)
            qn_bit_set(ascii.bits, c);
    }
    options[0] = qn_expr_byte_set(e->builder, ascii.bits);
    for (uint32_t level = 1; level < LEVELS; level++) {
        qn_expr rests[64];
        e->low = LENGTHS[level].low;
        e->high = LENGTHS[level].high;
        for (uint32_t lead = 0; lead < LENGTHS[level].leads; lead++)
            rests[lead] = encode(e, lead << (6 * level), level);
        options[level] = spell(e, rests, LENGTHS[level].leads, LENGTHS[level].first_byte, false);
    }
    size_t count = 0;
    for (size_t i = 0; i < LEVELS; i++)
        if (options[i] != NEVER)
            options[count++] = options[i];
    return qn_expr_choice(e->builder, options, count);
}

/* The expression of these ranges when it is one of the last that were made. */
static const qn_made_chars *find_made(const qn_grammar_builder *b, const qn_char_range *ranges, size_t count,
                                      bool except)
{
    for (size_t i = 0; i < QN_MADE_CHARS; i++) {
        const qn_made_chars *made = &b->made_chars[i];
        if (made->ranges && made->count == count && made->except == except &&
            memcmp(made->ranges, ranges, count * sizeof *ranges) == 0)
            return made;
    }
    return NULL;
}

/* So that a large class costs once what it costs, however often it is written. */
static void keep_made(qn_grammar_builder *b, const qn_char_range *ranges, size_t count, bool except, qn_expr expr)
{
    qn_error failure;
    qn_char_range *copy = b->failed ? NULL : qn_alloc(count, sizeof *copy);
    if (!copy) {
        qn_fail_memory(&failure, "grammar", count * sizeof *copy);
        qn_grammar_builder_fail(b, &failure);
        return;
    }
    memcpy(copy, ranges, count * sizeof *copy);
    qn_made_chars *made = &b->made_chars[b->made_char_count++ % QN_MADE_CHARS];
    qn_free(made->ranges);
    *made = (qn_made_chars){copy, count, except, expr};
}

static qn_expr chars(qn_grammar_builder *b, const qn_char_range *ranges, size_t count, bool except)
{
    qn_error failure;
    if (b->failed)
        return NEVER;
    if (count > LAST_CHAR) {
        qn_fail(&failure, QN_USAGE, "grammar: more ranges than there are characters");
        qn_grammar_builder_fail(b, &failure);
        return NEVER;
    }
    const qn_made_chars *known = count >= MANY_RANGES ? find_made(b, ranges, count, except) : NULL;
    if (known)
        return known->expr;
    /* A range can be cut in two at the surrogates; the gaps need as much again. */
    qn_char_range *room = qn_alloc(5 * count + 16, sizeof *room);
    if (!room) {
        qn_fail_memory(&failure, "grammar", (5 * count + 16) * sizeof *room);
        qn_grammar_builder_fail(b, &failure);
        return NEVER;
    }
    encoder e = {.builder = b, .ranges = room + count};
    if (count > 0)
        memcpy(room, ranges, count * sizeof *ranges);
    qsort(room, count, sizeof *room, by_first);
    take_ranges(&e, room, count);
    if (except) {
        invert(&e);
        encoder cut = {.ranges = e.ranges + e.count + 1};
        take_ranges(&cut, e.ranges, e.count);
        e.ranges = cut.ranges;
        e.count = cut.count;
    }
    qn_expr made = encode_all(&e);
    qn_free(e.blocks);
    qn_free(room);
    if (count >= MANY_RANGES)
        keep_made(b, ranges, count, except, made);
    return made;
}

qn_expr qn_expr_chars(qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    return chars(b, ranges, count, false);
}

qn_expr qn_expr_chars_except(qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    return chars(b, ranges, count, true);
}
