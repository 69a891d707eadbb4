/* The bytes of a node's children are put together by which stacks take them: of each such group one step is made. Where
 * all bytes that may go on lead to the same (the blocks of large classes), what is below is not looked at.
 *
 * The shape of a set: its stacks that take plain text, on unknown ground, when they all lie on one frame. What it does
 * before a character is through does not depend on the ground, and neither does which characters do the same. */
#include "grammar/char_ways.h"

#include <string.h>

#include "base/memory.h"
#include "grammar/vocabulary_trie.h"

enum { WIDE = 256, CONTINUE = 0x80, SIBLINGS = 128 };

/* Which stacks of a set take a byte. */
typedef struct taking {
    uint64_t stacks[WIDE / 64];
} taking;

typedef struct finder {
    qn_set_table *table;
    const qn_vocabulary_chars *chars;
    qn_char_ways *ways;
    uint8_t *groups;
    uint32_t targets[QN_WAY_MOST];
    uint64_t seen, taken; /* kinds */
} finder;

void qn_char_ways_free(qn_char_ways *ways)
{
    if (!ways)
        return;
    qn_free(ways->groups);
    qn_free(ways);
}

static uint8_t group_of(finder *f, uint32_t to, uint32_t sample)
{
    qn_char_ways *w = f->ways;
    if (to == QN_SET_EMPTY)
        return QN_WAY_REFUSED;
    if (to == QN_WAY_SEVERAL)
        return QN_WAY_UNKNOWN;
    for (size_t g = QN_WAY_FIRST; g < w->count; g++)
        if (f->targets[g] == to)
            return (uint8_t)g;
    if (w->count == QN_WAY_MOST)
        return QN_WAY_UNKNOWN;
    f->targets[w->count] = to;
    w->samples[w->count] = sample;
    return (uint8_t)w->count++;
}

static void assign(finder *f, uint32_t first, uint32_t end, uint64_t kinds, uint8_t group)
{
    qn_char_ways *w = f->ways;
    memset(f->groups + first, group, end - first);
    for (uint64_t left = kinds; left; left &= left - 1) {
        size_t kind = (size_t)__builtin_ctzll(left);
        if (!(f->seen >> kind & 1))
            w->kind_group[kind] = group;
        else if (w->kind_group[kind] != group)
            w->mixed |= UINT64_C(1) << kind;
    }
    f->seen |= kinds;
    w->refused |= group == QN_WAY_REFUSED ? kinds : 0;
    f->taken |= group == QN_WAY_REFUSED ? 0 : kinds;
    w->unknown |= group == QN_WAY_UNKNOWN ? kinds : 0;
}

/* The bits of the sets that the set's stacks read; how many. */
static size_t sets_of(const finder *f, uint32_t set, const uint64_t *bits[WIDE])
{
    const qn_set_entry *entry = &f->table->sets[set];
    const qn_grammar *g = f->table->store.grammar;
    size_t count = 0;
    for (uint32_t i = 0; i < entry->count && count < WIDE; i++) {
        const qn_state *s = &g->states[f->table->stacks[entry->first + i].state];
        if (s->kind == QN_STATE_SET)
            bits[count++] = g->sets[s->a].bits;
    }
    return count;
}

static taking takes(const uint64_t *const *bits, size_t count, unsigned byte)
{
    taking t = {{0}};
    for (size_t i = 0; i < count; i++)
        t.stacks[i / 64] |= (uint64_t)qn_bit_get(bits[i], byte) << (i % 64);
    return t;
}

static bool is_none(taking t)
{
    return (t.stacks[0] | t.stacks[1] | t.stacks[2] | t.stacks[3]) == 0;
}

static bool is_same(taking a, taking b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* A set that is not to be gone on from as it is. */
static bool is_open(const finder *f, uint32_t set)
{
    const qn_set_entry *entry = &f->table->sets[set];
    return entry->waits || entry->count > WIDE || f->table->exhausted;
}

/* Where all characters lead that go on from the set by `left` bytes, if it is one place: where no stack tells apart the
 * bytes that go on (a word of its set of bytes). */
static uint32_t go_all(finder *f, uint32_t set, size_t left)
{
    for (; left > 0; left--) {
        const uint64_t *bits[WIDE];
        size_t count = sets_of(f, set, bits);
        for (size_t i = 0; i < count; i++)
            if (bits[i][CONTINUE / 64] != 0 && ~bits[i][CONTINUE / 64] != 0)
                return QN_WAY_SEVERAL;
        set = qn_set_table_next(f->table, set, CONTINUE);
        if (left > 1 && is_open(f, set))
            return QN_WAY_SEVERAL;
    }
    return set;
}

/* The nodes from `begin` on and before `end`, children of one node where the set stands. Goes 4 deep at most. */
static void visit(finder *f, uint32_t set, uint32_t begin, uint32_t end) // NOLINT(misc-no-recursion)
{
    const qn_char_node *nodes = f->chars->nodes;
    const uint64_t *bits[WIDE];
    taking known[SIBLINGS];
    uint32_t targets[SIBLINGS];
    size_t count = sets_of(f, set, bits), known_count = 0;
    for (uint32_t i = begin, next; i < end; i = next) {
        next = nodes[i].skip;
        taking t = takes(bits, count, nodes[i].byte);
        uint32_t to = QN_SET_EMPTY;
        size_t k = 0;
        while (k < known_count && !is_same(known[k], t))
            k++;
        if (k < known_count)
            to = targets[k];
        else if (!is_none(t))
            to = qn_set_table_next(f->table, set, nodes[i].byte);
        if (k == known_count && k < SIBLINGS) {
            known[known_count] = t;
            targets[known_count++] = to;
        }
        if (f->table->exhausted || (nodes[i].left > 0 && is_open(f, to)))
            to = QN_WAY_SEVERAL;
        uint32_t same = nodes[i].left == 0 || to == QN_SET_EMPTY || to == QN_WAY_SEVERAL ? to
                                                                                         : go_all(f, to, nodes[i].left);
        if (f->table->exhausted)
            same = to = QN_WAY_SEVERAL;
        if (same == QN_WAY_SEVERAL && to != QN_WAY_SEVERAL)
            visit(f, to, i + 1, next);
        else
            assign(f, nodes[i].first, nodes[next].first, nodes[i].kinds, group_of(f, same, nodes[i].first));
    }
}

static uint8_t group_of_cut(finder *f, uint32_t set, uint32_t cut)
{
    for (size_t at = 0; at < f->chars->lengths[cut]; at++) {
        set = qn_set_table_next(f->table, set, f->chars->bytes[cut][at]);
        if (is_open(f, set)) /* a step that ran out of stacks leads to the empty set too */
            return QN_WAY_UNKNOWN;
        if (set == QN_SET_EMPTY)
            return QN_WAY_REFUSED;
    }
    return QN_WAY_ENDS;
}

/* Those of the same length behind one first byte at once, where its whole characters all lead to one place. */
static void visit_cut(finder *f, uint32_t set)
{
    const qn_vocabulary_chars *c = f->chars;
    for (uint32_t i = (uint32_t)c->whole, end; i < c->count; i = end) {
        uint8_t lead = c->bytes[i][0], group;
        uint32_t first = qn_set_table_next(f->table, set, lead);
        size_t left = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        bool alike = first == QN_SET_EMPTY || (!is_open(f, first) && go_all(f, first, left) != QN_WAY_SEVERAL);
        end = i + 1;
        while (alike && end < c->count && c->bytes[end][0] == lead && c->lengths[end] == c->lengths[i])
            end++;
        group = group_of_cut(f, set, i);
        assign(f, i, end, UINT64_C(1) << QN_KIND_CUT, group);
    }
}

static const uint64_t PLAIN[4] = {UINT64_C(0xEFFFFFFB00000000), UINT64_C(0x7FFFFFFFEFFFFFFF), 0,
                                  UINT64_C(0x001FFFFFFFFFFFFC)}; /* the bytes with which a plain character begins */

static bool takes_plain(const uint64_t bits[4])
{
    return ((bits[0] & PLAIN[0]) | (bits[1] & PLAIN[1]) | (bits[3] & PLAIN[3])) != 0;
}

void qn_char_ways_leads(const qn_set_table *table, uint32_t set, uint64_t bytes[4])
{
    const qn_set_entry *entry = &table->sets[set];
    const qn_grammar *g = table->store.grammar;
    memset(bytes, 0, 4 * sizeof *bytes);
    for (uint32_t i = 0; i < entry->count; i++) {
        const qn_state *s = &g->states[table->stacks[entry->first + i].state];
        for (size_t w = 0; w < 4 && s->kind == QN_STATE_SET; w++)
            bytes[w] |= g->sets[s->a].bits[w] & PLAIN[w];
    }
}

/* QN_SET_EMPTY: too wide. */
static uint32_t shape_of(qn_set_table *table, uint32_t set)
{
    const qn_set_entry *entry = &table->sets[set];
    const qn_grammar *g = table->store.grammar;
    qn_stack shape[WIDE];
    size_t count = 0, alike = 0;
    for (uint32_t i = 0; i < entry->count; i++) {
        qn_stack stack = table->stacks[entry->first + i];
        const qn_state *s = &g->states[stack.state];
        if (s->kind != QN_STATE_SET || !takes_plain(g->sets[s->a].bits))
            continue;
        if (count == WIDE)
            return QN_SET_EMPTY;
        shape[count++] = stack;
        alike += stack.frame == shape[0].frame;
    }
    for (size_t i = 0; i < count && alike == count; i++)
        shape[i].frame = QN_FRAME_UNKNOWN;
    return qn_set_table_find(table, &(qn_stack_set){shape, count, count});
}

static qn_char_ways *make(qn_set_table *table, const qn_vocabulary_chars *chars, uint32_t set)
{
    qn_char_ways *w = qn_alloc_zero(1, sizeof *w);
    finder f = {.table = table, .chars = chars, .ways = w, .groups = qn_alloc(chars->count + 1, 1)};
    if (w && f.groups) {
        w->count = QN_WAY_FIRST;
        visit(&f, set, 0, (uint32_t)chars->node_count);
        visit_cut(&f, set);
        w->partly = w->refused & f.taken;
        w->refused &= ~f.taken;
    }
    if (!w || !f.groups || table->failed) {
        table->failed = true;
        qn_free(f.groups);
        qn_free(w);
        return NULL;
    }
    if (w->mixed) {
        w->groups = f.groups;
        table->bytes += chars->count;
    } else {
        qn_free(f.groups);
    }
    table->bytes += sizeof *w;
    return w;
}

const qn_char_ways *qn_char_ways_find(qn_set_table *table, const qn_vocabulary_chars *chars, uint32_t set)
{
    uint32_t shape = shape_of(table, set);
    if (shape == QN_SET_EMPTY)
        return NULL;
    if (!table->sets[shape].ways) {
        qn_char_ways *ways = make(table, chars, shape);
        table->sets[shape].ways = ways;
    }
    return table->sets[shape].ways;
}

void qn_char_ways_follow(qn_set_table *table, const qn_vocabulary_chars *chars, const qn_char_ways *ways, uint32_t set,
                         bool is_top, uint32_t targets[QN_WAY_MOST])
{
    targets[QN_WAY_REFUSED] = QN_SET_EMPTY;
    for (size_t g = QN_WAY_FIRST; g < ways->count; g++) {
        uint32_t to = set, sample = ways->samples[g];
        for (size_t at = 0; at < chars->lengths[sample]; at++)
            to = qn_set_table_next(table, to, chars->bytes[sample][at]);
        const qn_set_entry *entry = &table->sets[to];
        bool too_much = is_top && (entry->waits || entry->count > QN_SET_WIDE || entry->depth > QN_SET_DEEP);
        targets[g] = too_much || table->exhausted ? QN_WAY_SEVERAL : to;
    }
}

bool qn_char_ways_refuse_alike(const qn_vocabulary_chars *chars, const qn_char_ways *a, const qn_char_ways *b)
{
    if (a == b)
        return true;
    if (a->refused != b->refused || a->partly != b->partly)
        return false;
    size_t differ = 0;
    for (size_t i = 0; a->partly && i < chars->count; i++)
        differ += (a->groups[i] == QN_WAY_REFUSED) != (b->groups[i] == QN_WAY_REFUSED);
    return differ == 0;
}
