/* Pairs of states that are reached, by the classes of characters that both automata tell apart together. A pair from
 * which nothing accepted follows is one dead state, whichever it is. */
#include "grammar/automaton_internal.h"

bool *automaton_live(automaton_nfa *n, const qn_automaton *a, bool wanted)
{
    bool *live = automaton_take(n, a->state_count, sizeof *live);
    if (!live)
        return NULL;
    for (size_t i = 0; i < a->state_count; i++)
        live[i] = a->accepting[i] == wanted;
    for (bool changed = true; changed && !n->failed;) {
        changed = false;
        automaton_work(n, a->state_count * a->class_count / 8);
        for (size_t i = a->state_count; i-- > 0;)
            for (size_t k = 0; k < a->class_count && !live[i]; k++)
                if (live[a->next[i * a->class_count + k]])
                    live[i] = changed = true;
    }
    return live;
}

typedef struct product {
    automaton_nfa *n; /* for memory and errors */
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
        automaton_fail_bound(p->n);
    uint64_t *pairs = automaton_grown(p->n, p->pairs, p->count, &p->capacity, sizeof *pairs);
    if (!pairs)
        return 0;
    p->pairs = pairs;
    p->pairs[p->count] = (uint64_t)x << 32 | y;
    p->number[cell] = (uint32_t)++p->count;
    return p->number[cell] - 1;
}

/* Intervals of both, and a class for each pair of classes that occurs; its parts in left and right. */
static void join_classes(automaton_nfa *n, const qn_automaton *a, const qn_automaton *b, automaton_classes *out,
                         uint32_t **left, uint32_t **right)
{
    size_t most = a->interval_count + b->interval_count, i = 0, k = 0;
    uint32_t *number = automaton_take(n, a->class_count * b->class_count, sizeof *number);
    *out = (automaton_classes){.firsts = automaton_take(n, most, sizeof(uint32_t)),
                               .class_of = automaton_take(n, most, sizeof(uint32_t))};
    *left = automaton_take(n, most, sizeof **left);
    *right = automaton_take(n, most, sizeof **right);
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
    automaton_nfa n = {.room = room, .err = err};
    product p = {
        .n = &n, .a = a, .b = b, .a_live = automaton_live(&n, a, true), .b_live = automaton_live(&n, b, inside)};
    automaton_classes cl;
    uint32_t *left, *right, *next = NULL;
    size_t next_capacity = 0;
    if (a->state_count * b->state_count > 2 * (size_t)QN_AUTOMATON_MOST_CELLS)
        automaton_fail_bound(&n);
    p.number = automaton_take(&n, a->state_count * b->state_count, sizeof *p.number);
    join_classes(&n, a, b, &cl, &left, &right);
    qn_automaton *out = automaton_take(&n, 1, sizeof *out);
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
            automaton_fail_bound(&n);
        automaton_work(&n, cl.class_count);
        next = automaton_grown(&n, next, from, &next_capacity, cl.class_count * sizeof *next);
        for (size_t k = 0; next && k < cl.class_count && !n.failed; k++)
            next[from * cl.class_count + k] = pair_number(&p, a->next[x * a->class_count + left[k]],
                                                          b->next[y * b->class_count + right[k]]);
    }
    bool *accepting = automaton_take(&n, p.count, sizeof *accepting);
    if (n.failed)
        return NULL;
    for (size_t i = 0; i < p.count; i++)
        accepting[i] = a->accepting[p.pairs[i] >> 32] && b->accepting[(uint32_t)p.pairs[i]] == inside;
    *out = (qn_automaton){p.count, cl.class_count, cl.interval_count, cl.firsts, cl.class_of, next, accepting};
    return out;
}
