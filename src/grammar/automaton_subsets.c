/* Characters that no set of the automaton tells apart are one class. The subset construction follows classes from the
 * start; a subset of states is a bit for each of them. */
#include <stdlib.h>
#include <string.h>

#include "grammar/automaton_internal.h"
#include "grammar/grammar_internal.h"

enum { LAST_CODE = 0x10FFFF, MOST_CLASSES = 2048 };

static int by_code(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool set_holds(const automaton_set *set, uint32_t code)
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

static void cut_intervals(automaton_nfa *n, automaton_classes *out)
{
    size_t most = 1, kept = 0;
    for (size_t i = 0; i < n->set_count; i++)
        most += 2 * n->sets[i].count;
    uint32_t *cuts = automaton_take(n, most, sizeof *cuts);
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

static void make_classes(automaton_nfa *n, automaton_classes *out)
{
    *out = (automaton_classes){0};
    cut_intervals(n, out);
    size_t row = n->set_count + 1, capacity = 0;
    out->class_of = automaton_take(n, out->interval_count + 1, sizeof *out->class_of);
    bool *signature = automaton_take(n, row, 1);
    for (size_t i = 0; i < out->interval_count && !n->failed; i++) {
        for (size_t s = 0; s < n->set_count; s++)
            signature[s] = set_holds(&n->sets[s], out->firsts[i]);
        size_t k = 0;
        automaton_work(n, n->set_count + out->class_count);
        while (k < out->class_count && memcmp(out->holds + k * row, signature, row) != 0)
            k++;
        if (k == out->class_count) {
            bool *holds = automaton_grown(n, out->holds, k, &capacity, row);
            if (!holds || k == MOST_CLASSES) {
                automaton_fail_bound(n);
                return;
            }
            out->holds = holds;
            memcpy(out->holds + k * row, signature, row);
            out->class_count++;
        }
        out->class_of[i] = (uint32_t)k;
    }
}

/* Subsets */

typedef struct subsets {
    automaton_nfa *n;
    const automaton_classes *cl;
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
    const automaton_move *x = a, *y = b;
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
            const automaton_move *at = &s->n->moves[m];
            if (at->set == AUTOMATON_NO_SET && !qn_bit_get(set, at->to)) {
                qn_bit_set(set, at->to);
                s->stack[depth++] = at->to;
            }
        }
    }
    automaton_work(s->n, steps);
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
    uint32_t *slots = automaton_take(s->n, count, sizeof *slots);
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
    automaton_nfa *n = s->n;
    grow_slots(s);
    if (n->failed)
        return 0;
    size_t at = hash_words(set, s->words) & (s->slot_count - 1);
    for (; s->slots[at]; at = (at + 1) & (s->slot_count - 1))
        if (memcmp(s->sets + (s->slots[at] - 1) * s->words, set, s->words * sizeof *set) == 0)
            return s->slots[at] - 1;
    size_t cells = (s->count + 1) * (s->cl->class_count + s->words);
    if (s->count == QN_AUTOMATON_MOST_STATES || cells > QN_AUTOMATON_MOST_CELLS)
        automaton_fail_bound(n);
    uint64_t *sets = automaton_grown(n, s->sets, s->count, &s->capacity, s->words * sizeof *set);
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
                if (s->n->moves[m].set != AUTOMATON_NO_SET && holds[s->n->moves[m].set])
                    qn_bit_set(to, s->n->moves[m].to);
        }
    }
    automaton_work(s->n, steps);
    close_subset(s, to);
}

static bool start_subsets(subsets *s)
{
    automaton_nfa *n = s->n;
    s->words = n->state_count / 64 + 1;
    s->stack = automaton_take(n, n->state_count + 1, sizeof *s->stack);
    s->first_move = automaton_take(n, n->state_count + 2, sizeof *s->first_move);
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

const qn_automaton *automaton_determine(automaton_nfa *n)
{
    automaton_classes cl;
    make_classes(n, &cl);
    subsets s = {.n = n, .cl = &cl};
    if (n->failed || !start_subsets(&s))
        return NULL;
    uint64_t *set = automaton_take(n, s.words, sizeof *set);
    qn_automaton *a = automaton_take(n, 1, sizeof *a);
    if (n->failed)
        return NULL;
    qn_bit_set(set, 0);
    close_subset(&s, set);
    number_of(&s, set);
    for (size_t from = 0; from < s.count && !n->failed; from++) {
        uint32_t *next = automaton_grown(n, s.next, from, &s.next_capacity, cl.class_count * sizeof *next);
        if (!next)
            return NULL;
        s.next = next;
        for (size_t k = 0; k < cl.class_count && !n->failed; k++) {
            follow(&s, from, k, set);
            s.next[from * cl.class_count + k] = number_of(&s, set);
        }
    }
    bool *accepting = automaton_take(n, s.count, sizeof *accepting);
    if (n->failed)
        return NULL;
    for (size_t i = 0; i < s.count; i++)
        accepting[i] = qn_bit_get(s.sets + i * s.words, 1);
    *a = (qn_automaton){s.count, cl.class_count, cl.interval_count, cl.firsts, cl.class_of, s.next, accepting};
    return a;
}
