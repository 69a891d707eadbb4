/* A regex is read by its own front-end into a builder of its own, with tokens for sets of characters; the expressions
 * there become an automaton with empty moves, and that a deterministic one by the subset construction. */
#include "grammar/automaton.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/grammar_internal.h"
#include "grammar/words.h"

enum { MOST_MOVES = 1 << 17, LAST_CODE = 0x10FFFF, NO_SET = UINT16_MAX, MOST_SETS = 4096, MOST_CLASSES = 2048 };

typedef struct char_set {
    const qn_char_range *ranges;
    size_t count;
} char_set;

/* A move from a state by a set of characters, or by nothing (NO_SET). */
typedef struct move {
    uint32_t from, to, set;
} move;

typedef struct nfa {
    qn_automaton_room *room;
    qn_error *err;
    bool failed;
    char_set *sets;
    move *moves;
    size_t set_count, set_capacity, move_count, move_capacity, state_count;
} nfa;

static void fail_bound(nfa *n)
{
    if (!n->failed)
        qn_fail(n->err, QN_USAGE, "too large to combine with others: use smaller patterns and bounds");
    n->failed = true;
}

static void work(nfa *n, size_t steps)
{
    n->room->work += steps;
    if (n->room->work > QN_AUTOMATON_MOST_WORK)
        fail_bound(n);
}

static void *take(nfa *n, size_t count, size_t size)
{
    void *data = n->failed ? NULL : qn_arena_alloc(n->room->arena, count, size);
    if (!data && !n->failed) {
        n->failed = true;
        qn_fail_memory(n->err, "pattern", count * size);
    }
    return data;
}

/* Room for one more; NULL when there is none. */
static void *grown(nfa *n, void *block, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return block;
    size_t more = *capacity ? 2 * *capacity : 64;
    void *data = take(n, more, size);
    if (!data)
        return NULL;
    if (count > 0)
        memcpy(data, block, count * size);
    *capacity = more;
    return data;
}

static uint32_t add_set(nfa *n, const qn_char_range *ranges, size_t count)
{
    for (size_t i = 0; i < n->set_count; i++)
        if (n->sets[i].count == count && (count == 0 || memcmp(n->sets[i].ranges, ranges, count * sizeof *ranges) == 0))
            return (uint32_t)i;
    if (n->set_count == MOST_SETS)
        fail_bound(n);
    char_set *sets = grown(n, n->sets, n->set_count, &n->set_capacity, sizeof *n->sets);
    qn_char_range *copy = take(n, count + 1, sizeof *copy);
    if (!sets || !copy)
        return 0;
    if (count > 0)
        memcpy(copy, ranges, count * sizeof *copy);
    n->sets = sets;
    n->sets[n->set_count] = (char_set){copy, count};
    return (uint32_t)n->set_count++;
}

static void add_move(nfa *n, uint32_t from, uint32_t to, uint32_t set)
{
    if (n->move_count == MOST_MOVES)
        fail_bound(n);
    move *moves = grown(n, n->moves, n->move_count, &n->move_capacity, sizeof *n->moves);
    if (!moves)
        return;
    n->moves = moves;
    n->moves[n->move_count++] = (move){from, to, set};
}

static uint32_t new_state(nfa *n)
{
    if (n->state_count >= MOST_MOVES)
        fail_bound(n);
    return (uint32_t)n->state_count++;
}

/* From expressions to moves */

static void add_expr(nfa *n, const qn_grammar_builder *b, qn_expr expr, uint32_t from, uint32_t to);

static void add_repeat(nfa *n, const qn_grammar_builder *b, const qn_expr_node *node, uint32_t from, uint32_t to)
{
    qn_expr part = b->parts[node->first];
    uint32_t at = from;
    for (size_t i = 0; i < node->min && !n->failed; i++) {
        uint32_t next = new_state(n);
        add_expr(n, b, part, at, next);
        at = next;
    }
    if (node->max == QN_UNBOUNDED) {
        uint32_t loop = new_state(n), end = new_state(n);
        add_move(n, at, loop, NO_SET);
        add_expr(n, b, part, loop, end);
        add_move(n, end, loop, NO_SET);
        add_move(n, loop, to, NO_SET);
        return;
    }
    for (size_t i = node->min; i < node->max && !n->failed; i++) {
        uint32_t next = new_state(n);
        add_move(n, at, to, NO_SET);
        add_expr(n, b, part, at, next);
        at = next;
    }
    add_move(n, at, to, NO_SET);
}

static void add_expr(nfa *n, const qn_grammar_builder *b, qn_expr expr, uint32_t from, uint32_t to)
{
    const qn_expr_node *node = &b->nodes[expr];
    if (n->failed)
        return;
    switch (node->kind) {
    case QN_EXPR_EMPTY:
        add_move(n, from, to, NO_SET);
        break;
    case QN_EXPR_TOKEN:
        add_move(n, from, to, node->first);
        break;
    case QN_EXPR_CHOICE:
        for (uint32_t i = 0; i < node->count; i++)
            add_expr(n, b, b->parts[node->first + i], from, to);
        break;
    case QN_EXPR_CONCAT:
        for (uint32_t i = 0; i < node->count; i++) {
            uint32_t next = i + 1 < node->count ? new_state(n) : to;
            add_expr(n, b, b->parts[node->first + i], from, next);
            from = next;
        }
        break;
    case QN_EXPR_REPEAT:
        add_repeat(n, b, node, from, to);
        break;
    case QN_EXPR_NEVER:
        break;
    default: /* a regex is built of nothing else */
        fail_bound(n);
        break;
    }
}

/* Classes of characters */

typedef struct classes {
    uint32_t *firsts, *class_of;
    size_t interval_count, class_count;
    bool *holds; /* of class k and set s: holds[k * set_count + s] */
} classes;

static int by_code(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool set_holds(const char_set *set, uint32_t code)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranges[low].first <= code;
}

static void cut_intervals(nfa *n, classes *out)
{
    size_t most = 1, kept = 0;
    for (size_t i = 0; i < n->set_count; i++)
        most += 2 * n->sets[i].count;
    uint32_t *cuts = take(n, most, sizeof *cuts);
    if (!cuts)
        return;
    size_t count = 1; /* 0 is the first */
    for (size_t i = 0; i < n->set_count; i++)
        for (size_t k = 0; k < n->sets[i].count; k++) {
            cuts[count++] = n->sets[i].ranges[k].first;
            cuts[count++] = n->sets[i].ranges[k].last + 1;
        }
    qsort(cuts, count, sizeof *cuts, by_code);
    for (size_t i = 0; i < count; i++)
        if (cuts[i] <= LAST_CODE && (kept == 0 || cuts[kept - 1] != cuts[i]))
            cuts[kept++] = cuts[i];
    out->firsts = cuts;
    out->interval_count = kept;
}

static void make_classes(nfa *n, classes *out)
{
    *out = (classes){0};
    cut_intervals(n, out);
    size_t row = n->set_count + 1, capacity = 0;
    out->class_of = take(n, out->interval_count + 1, sizeof *out->class_of);
    bool *signature = take(n, row, 1);
    for (size_t i = 0; i < out->interval_count && !n->failed; i++) {
        for (size_t s = 0; s < n->set_count; s++)
            signature[s] = set_holds(&n->sets[s], out->firsts[i]);
        size_t k = 0;
        work(n, n->set_count + out->class_count);
        while (k < out->class_count && memcmp(out->holds + k * row, signature, row) != 0)
            k++;
        if (k == out->class_count) {
            bool *holds = grown(n, out->holds, k, &capacity, row);
            if (!holds || k == MOST_CLASSES) {
                fail_bound(n);
                return;
            }
            out->holds = holds;
            memcpy(out->holds + k * row, signature, row);
            out->class_count++;
        }
        out->class_of[i] = (uint32_t)k;
    }
}

/* The subset construction. A subset is a bit for each state. */

typedef struct subsets {
    nfa *n;
    const classes *cl;
    size_t words; /* of a subset */
    uint64_t *sets;
    uint32_t *next;
    size_t count, capacity, next_capacity;
    uint32_t *slots; /* hash table of subset numbers + 1 */
    size_t slot_count;
    uint32_t *first_move, *stack; /* moves are sorted by state */
} subsets;

static int by_from(const void *a, const void *b)
{
    const move *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static void close_subset(subsets *s, uint64_t *set)
{
    size_t depth = 0, steps = s->words;
    for (size_t w = 0; w < s->words; w++)
        for (uint64_t bits = set[w]; bits; bits &= bits - 1)
            s->stack[depth++] = (uint32_t)(64 * w + (size_t)__builtin_ctzll(bits));
    while (depth > 0) {
        uint32_t state = s->stack[--depth];
        steps += 1 + s->first_move[state + 1] - s->first_move[state];
        for (uint32_t m = s->first_move[state]; m < s->first_move[state + 1]; m++) {
            const move *at = &s->n->moves[m];
            if (at->set == NO_SET && !qn_bit_get(set, at->to)) {
                qn_bit_set(set, at->to);
                s->stack[depth++] = at->to;
            }
        }
    }
    work(s->n, steps);
}

static uint64_t hash_words(const uint64_t *words, size_t count)
{
    uint64_t h = 0x9E3779B97F4A7C15;
    for (size_t i = 0; i < count; i++)
        h = (h ^ words[i]) * UINT64_C(0xFF51AFD7ED558CCD), h ^= h >> 32;
    return h;
}

/* Room in the hash table for one more. */
static void grow_slots(subsets *s)
{
    if (2 * (s->count + 1) <= s->slot_count)
        return;
    size_t count = s->slot_count ? 2 * s->slot_count : 64;
    uint32_t *slots = take(s->n, count, sizeof *slots);
    for (size_t i = 0; slots && i < s->count; i++) {
        size_t at = hash_words(s->sets + i * s->words, s->words) & (count - 1);
        while (slots[at])
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    s->slots = slots;
    s->slot_count = slots ? count : 0;
}

/* The number of the subset, which is added when it is new. */
static uint32_t number_of(subsets *s, const uint64_t *set)
{
    nfa *n = s->n;
    grow_slots(s);
    if (n->failed)
        return 0;
    size_t at = hash_words(set, s->words) & (s->slot_count - 1);
    for (; s->slots[at]; at = (at + 1) & (s->slot_count - 1))
        if (memcmp(s->sets + (s->slots[at] - 1) * s->words, set, s->words * sizeof *set) == 0)
            return s->slots[at] - 1;
    size_t cells = (s->count + 1) * (s->cl->class_count + s->words);
    if (s->count == QN_AUTOMATON_MOST_STATES || cells > QN_AUTOMATON_MOST_CELLS)
        fail_bound(n);
    uint64_t *sets = grown(n, s->sets, s->count, &s->capacity, s->words * sizeof *set);
    if (!sets)
        return 0;
    s->sets = sets;
    memcpy(s->sets + s->count * s->words, set, s->words * sizeof *set);
    s->slots[at] = (uint32_t)++s->count;
    return (uint32_t)s->count - 1;
}

static void follow(subsets *s, size_t from, size_t k, uint64_t *to)
{
    const bool *holds = s->cl->holds + k * (s->n->set_count + 1);
    const uint64_t *set = s->sets + from * s->words;
    size_t steps = s->words;
    memset(to, 0, s->words * sizeof *to);
    for (size_t w = 0; w < s->words; w++) {
        for (uint64_t bits = set[w]; bits; bits &= bits - 1) {
            size_t i = 64 * w + (size_t)__builtin_ctzll(bits);
            steps += 1 + s->first_move[i + 1] - s->first_move[i];
            for (uint32_t m = s->first_move[i]; m < s->first_move[i + 1]; m++)
                if (s->n->moves[m].set != NO_SET && holds[s->n->moves[m].set])
                    qn_bit_set(to, s->n->moves[m].to);
        }
    }
    work(s->n, steps);
    close_subset(s, to);
}

static bool start_subsets(subsets *s)
{
    nfa *n = s->n;
    s->words = n->state_count / 64 + 1;
    s->stack = take(n, n->state_count + 1, sizeof *s->stack);
    s->first_move = take(n, n->state_count + 2, sizeof *s->first_move);
    if (n->failed)
        return false;
    if (n->move_count > 1)
        qsort(n->moves, n->move_count, sizeof *n->moves, by_from);
    for (size_t m = 0; m < n->move_count; m++)
        s->first_move[n->moves[m].from + 1]++;
    for (size_t i = 0; i < n->state_count; i++)
        s->first_move[i + 1] += s->first_move[i];
    return true;
}

/* State 0 of n is its start, state 1 its end. */
static const qn_automaton *determine(nfa *n)
{
    classes cl;
    make_classes(n, &cl);
    subsets s = {.n = n, .cl = &cl};
    if (n->failed || !start_subsets(&s))
        return NULL;
    uint64_t *set = take(n, s.words, sizeof *set);
    qn_automaton *a = take(n, 1, sizeof *a);
    if (n->failed)
        return NULL;
    qn_bit_set(set, 0);
    close_subset(&s, set);
    number_of(&s, set);
    for (size_t from = 0; from < s.count && !n->failed; from++) {
        uint32_t *next = grown(n, s.next, from, &s.next_capacity, cl.class_count * sizeof *next);
        if (!next)
            return NULL;
        s.next = next;
        for (size_t k = 0; k < cl.class_count && !n->failed; k++) {
            follow(&s, from, k, set);
            s.next[from * cl.class_count + k] = number_of(&s, set);
        }
    }
    bool *accepting = take(n, s.count, sizeof *accepting);
    if (n->failed)
        return NULL;
    for (size_t i = 0; i < s.count; i++)
        accepting[i] = qn_bit_get(s.sets + i * s.words, 1);
    *a = (qn_automaton){s.count, cl.class_count, cl.interval_count, cl.firsts, cl.class_of, s.next, accepting};
    return a;
}

/* Sources */

static qn_expr token_for_set(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    return qn_expr_token(b, (int32_t)add_set(context, ranges, count));
}

const qn_automaton *qn_automaton_of_regex(qn_automaton_room *room, const char *regex, size_t bytes, bool search,
                                          qn_error *err)
{
    nfa n = {.room = room, .err = err, .state_count = 2};
    qn_grammar_builder *b;
    qn_expr expr;
    if (qn_grammar_builder_new(&b, err) != QN_OK)
        return NULL;
    qn_regex_letters letters = {&n, token_for_set};
    qn_status status = qn_regex_expr(b, regex, bytes, search, &letters, &expr, err);
    if (status == QN_OK && !n.failed && qn_grammar_builder_status(b, err) == QN_OK)
        add_expr(&n, b, expr, 0, 1);
    else
        n.failed = true;
    qn_grammar_builder_free(b);
    return n.failed ? NULL : determine(&n);
}

const qn_automaton *qn_automaton_of_texts(qn_automaton_room *room, const qn_automaton_text *texts, size_t count,
                                          qn_error *err)
{
    nfa n = {.room = room, .err = err, .state_count = 2};
    for (size_t i = 0; i < count && !n.failed; i++) {
        uint32_t from = 0, code;
        for (size_t at = 0, length; at < texts[i].bytes && !n.failed; at += length) {
            length = qn_utf8_decode(texts[i].data + at, texts[i].bytes - at, &code);
            if (length == 0)
                break;
            uint32_t next = new_state(&n);
            add_move(&n, from, next, add_set(&n, &(qn_char_range){code, code}, 1));
            from = next;
        }
        add_move(&n, from, 1, NO_SET);
    }
    return n.failed ? NULL : determine(&n);
}

const qn_automaton *qn_automaton_of_length(qn_automaton_room *room, size_t min, size_t max, qn_error *err)
{
    nfa n = {.room = room, .err = err};
    size_t last = max == QN_UNBOUNDED ? min : max; /* a state for each length; the one behind takes the rest */
    if (last >= QN_AUTOMATON_MOST_STATES - 1)
        fail_bound(&n);
    size_t count = max == QN_UNBOUNDED ? last + 1 : last + 2;
    uint32_t *next = take(&n, count, sizeof *next), *zero = take(&n, 1, sizeof *zero);
    bool *accepting = take(&n, count, sizeof *accepting);
    qn_automaton *a = take(&n, 1, sizeof *a);
    if (n.failed)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        next[i] = (uint32_t)(i + 1 < count ? i + 1 : i);
        accepting[i] = i >= min && i <= last;
    }
    *a = (qn_automaton){count, 1, 1, zero, zero, next, accepting};
    return a;
}

/* Products */

/* Which states lead to one whose acceptance is `wanted`. */
static bool *find_live(nfa *n, const qn_automaton *a, bool wanted)
{
    bool *live = take(n, a->state_count, sizeof *live);
    if (!live)
        return NULL;
    for (size_t i = 0; i < a->state_count; i++)
        live[i] = a->accepting[i] == wanted;
    for (bool changed = true; changed && !n->failed;) {
        changed = false;
        work(n, a->state_count * a->class_count / 8);
        for (size_t i = a->state_count; i-- > 0;)
            for (size_t k = 0; k < a->class_count && !live[i]; k++)
                if (live[a->next[i * a->class_count + k]])
                    live[i] = changed = true;
    }
    return live;
}

typedef struct product {
    nfa *n; /* for memory and errors */
    const qn_automaton *a, *b;
    const bool *a_live, *b_live; /* states that something accepted follows; */
    uint32_t dead_a, dead_b;     /* all other pairs are this one */
    uint32_t *number;            /* of a pair of states, plus 1 */
    uint64_t *pairs;
    size_t count, capacity;
} product;

static uint32_t pair_number(product *p, uint32_t x, uint32_t y)
{
    if (!p->a_live[x] || !p->b_live[y]) {
        x = p->dead_a;
        y = p->dead_b;
    }
    size_t cell = (size_t)x * p->b->state_count + y;
    if (p->number[cell])
        return p->number[cell] - 1;
    if (p->count == QN_AUTOMATON_MOST_STATES)
        fail_bound(p->n);
    uint64_t *pairs = grown(p->n, p->pairs, p->count, &p->capacity, sizeof *pairs);
    if (!pairs)
        return 0;
    p->pairs = pairs;
    p->pairs[p->count] = (uint64_t)x << 32 | y;
    p->number[cell] = (uint32_t)++p->count;
    return p->number[cell] - 1;
}

/* Intervals of both, and a class for each pair of classes that occurs; its parts in left and right. */
static void join_classes(nfa *n, const qn_automaton *a, const qn_automaton *b, classes *out, uint32_t **left,
                         uint32_t **right)
{
    size_t most = a->interval_count + b->interval_count, i = 0, k = 0;
    uint32_t *number = take(n, a->class_count * b->class_count, sizeof *number);
    *out = (classes){.firsts = take(n, most, sizeof(uint32_t)), .class_of = take(n, most, sizeof(uint32_t))};
    *left = take(n, most, sizeof **left);
    *right = take(n, most, sizeof **right);
    while (!n->failed && (i < a->interval_count || k < b->interval_count)) {
        uint32_t x = i < a->interval_count ? a->firsts[i] : UINT32_MAX;
        uint32_t y = k < b->interval_count ? b->firsts[k] : UINT32_MAX;
        i += x <= y;
        k += y <= x;
        uint32_t ca = a->class_of[i - 1], cb = b->class_of[k - 1];
        uint32_t *slot = &number[(size_t)ca * b->class_count + cb];
        if (*slot == 0) {
            (*left)[out->class_count] = ca;
            (*right)[out->class_count] = cb;
            *slot = (uint32_t)++out->class_count;
        }
        out->firsts[out->interval_count] = x < y ? x : y;
        out->class_of[out->interval_count++] = *slot - 1;
    }
}

const qn_automaton *qn_automaton_both(qn_automaton_room *room, const qn_automaton *a, const qn_automaton *b,
                                      bool inside, qn_error *err)
{
    nfa n = {.room = room, .err = err};
    product p = {.n = &n, .a = a, .b = b, .a_live = find_live(&n, a, true), .b_live = find_live(&n, b, inside)};
    classes cl;
    uint32_t *left, *right, *next = NULL;
    size_t next_capacity = 0;
    if (a->state_count * b->state_count > 2 * (size_t)QN_AUTOMATON_MOST_CELLS)
        fail_bound(&n);
    p.number = take(&n, a->state_count * b->state_count, sizeof *p.number);
    join_classes(&n, a, b, &cl, &left, &right);
    qn_automaton *out = take(&n, 1, sizeof *out);
    if (n.failed)
        return NULL;
    while (p.dead_a < a->state_count && p.a_live[p.dead_a])
        p.dead_a++;
    if (p.dead_a == a->state_count) {
        p.dead_a = 0;
        while (p.dead_b < b->state_count - 1 && p.b_live[p.dead_b])
            p.dead_b++;
    }
    pair_number(&p, 0, 0);
    for (size_t from = 0; from < p.count && !n.failed; from++) {
        uint32_t x = (uint32_t)(p.pairs[from] >> 32), y = (uint32_t)p.pairs[from];
        if ((from + 1) * cl.class_count > QN_AUTOMATON_MOST_CELLS)
            fail_bound(&n);
        work(&n, cl.class_count);
        next = grown(&n, next, from, &next_capacity, cl.class_count * sizeof *next);
        for (size_t k = 0; next && k < cl.class_count && !n.failed; k++)
            next[from * cl.class_count + k] = pair_number(&p, a->next[x * a->class_count + left[k]],
                                                          b->next[y * b->class_count + right[k]]);
    }
    bool *accepting = take(&n, p.count, sizeof *accepting);
    if (n.failed)
        return NULL;
    for (size_t i = 0; i < p.count; i++)
        accepting[i] = a->accepting[p.pairs[i] >> 32] && b->accepting[(uint32_t)p.pairs[i]] == inside;
    *out = (qn_automaton){p.count, cl.class_count, cl.interval_count, cl.firsts, cl.class_of, next, accepting};
    return out;
}

/* Uses */

bool qn_automaton_is_empty(const qn_automaton *a)
{
    for (size_t i = 0; i < a->state_count; i++)
        if (a->accepting[i])
            return false;
    return true;
}

static uint32_t class_of_code(const qn_automaton *a, uint32_t code)
{
    size_t low = 0, high = a->interval_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (a->firsts[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return a->class_of[low];
}

bool qn_automaton_matches(const qn_automaton *a, const char *text, size_t bytes)
{
    uint32_t state = 0, code;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = qn_utf8_decode(text + at, bytes - at, &code);
        if (length == 0)
            return false;
        state = a->next[state * a->class_count + class_of_code(a, code)];
    }
    return a->accepting[state];
}

/* The characters that lead from one state to another. */
static size_t label_ranges(const qn_automaton *a, size_t from, uint32_t to, qn_char_range *out)
{
    size_t count = 0;
    for (size_t i = 0; i < a->interval_count; i++) {
        uint32_t last = i + 1 < a->interval_count ? a->firsts[i + 1] - 1 : LAST_CODE;
        if (a->next[from * a->class_count + a->class_of[i]] != to)
            continue;
        if (count > 0 && out[count - 1].last + 1 == a->firsts[i])
            out[count - 1].last = last;
        else
            out[count++] = (qn_char_range){a->firsts[i], last};
    }
    return count;
}

qn_expr qn_automaton_expr(qn_automaton_room *room, qn_grammar_builder *b, const qn_automaton *a,
                          const qn_regex_letters *letters)
{
    qn_error err;
    nfa n = {.room = room, .err = &err};
    const bool *live = find_live(&n, a, true);
    qn_graph_edge *edges = NULL;
    size_t count = 0, capacity = 0;
    qn_char_range *ranges = take(&n, a->interval_count, sizeof *ranges);
    uint32_t *seen = take(&n, a->state_count, sizeof *seen); /* the last state with an edge to this one, plus 1 */
    if (!n.failed && !live[0])
        return QN_NO_WORDS;
    for (size_t from = 0; from < a->state_count && !n.failed; from++) {
        for (size_t k = 0; live[from] && k < a->class_count && !n.failed; k++) {
            uint32_t to = a->next[from * a->class_count + k];
            if (!live[to] || seen[to] == from + 1)
                continue;
            seen[to] = (uint32_t)from + 1;
            work(&n, a->interval_count);
            size_t range_count = label_ranges(a, from, to, ranges);
            qn_expr label = letters ? letters->chars(letters->context, b, ranges, range_count)
                                    : qn_expr_chars(b, ranges, range_count);
            edges = grown(&n, edges, count, &capacity, sizeof *edges);
            if (edges && label != QN_NO_WORDS)
                edges[count++] = (qn_graph_edge){(uint32_t)from, to, label};
        }
    }
    if (n.failed) {
        qn_grammar_builder_fail(b, &err);
        return QN_NO_WORDS;
    }
    return qn_expr_graph(b, edges, count, a->accepting, a->state_count);
}
