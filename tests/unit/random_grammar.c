#include "unit/random_grammar.h"

#include <string.h>

typedef struct judge {
    const random_grammar *g;
    const char *word;
    size_t length;
} judge;

uint64_t random_next(uint64_t *seed)
{
    uint64_t x = *seed += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static int below(random_grammar *g, int n)
{
    return (int)(random_next(&g->seed) % (uint64_t)n);
}

static int add(random_grammar *g, random_node node)
{
    g->nodes[g->count] = node;
    return g->count++;
}

static int literal(random_grammar *g, qn_grammar_builder *b)
{
    random_node node = {.kind = LITERAL};
    int length = 1 + below(g, 2);
    for (int i = 0; i < length; i++)
        node.text[i] = (char)('a' + below(g, 2));
    node.expr = qn_expr_text(b, node.text);
    return add(g, node);
}

static int any(random_grammar *g, qn_grammar_builder *b)
{
    uint64_t set[4] = {0, UINT64_C(3) << ('a' - 64), 0, 0};
    return add(g, (random_node){.kind = ANY, .expr = qn_expr_byte_set(b, set)});
}

static int make(random_grammar *g, qn_grammar_builder *b, int depth);

static int make_repeat(random_grammar *g, qn_grammar_builder *b, int depth)
{
    random_node node = {.kind = REPEAT, .parts = {make(g, b, depth - 1)}, .count = 1};
    static const size_t MOST[] = {1, 2, 3, 5, 40, QN_UNBOUNDED};
    node.min = (size_t)below(g, 4);
    node.max = MOST[below(g, 6)];
    if (node.min > node.max)
        node.min = node.max;
    node.expr = qn_expr_repeat(b, g->nodes[node.parts[0]].expr, node.min, node.max);
    return add(g, node);
}

static int make_group(random_grammar *g, qn_grammar_builder *b, int depth)
{
    random_node node = {.kind = GROUP, .items = 1 + below(g, 3), .has_extra = below(g, 3) == 0};
    qn_expr items[3], extra;
    for (int i = 0; i < node.items; i++) {
        node.parts[i] = make(g, b, depth - 1);
        node.required[i] = below(g, 3) == 0;
        items[i] = g->nodes[node.parts[i]].expr;
    }
    int last = node.items;
    node.parts[last] = literal(g, b);
    qn_expr separator = g->nodes[node.parts[last]].expr;
    int extra_part = literal(g, b);
    extra = g->nodes[extra_part].expr;
    if (node.has_extra && last + 1 < 4)
        node.parts[last + 1] = extra_part;
    else
        node.has_extra = false;
    node.min = (size_t)below(g, 2);
    node.max = below(g, 2) ? QN_UNBOUNDED : node.min + 2;
    qn_each_once group = {items,    node.required, (size_t)node.items, node.has_extra ? &extra : NULL, separator,
                          node.min, node.max};
    node.expr = qn_expr_each_once(b, &group);
    return add(g, node);
}

static int make_list(random_grammar *g, qn_grammar_builder *b, int depth, bool choice)
{
    random_node node = {.kind = choice ? CHOICE : CONCAT, .count = 2 + below(g, 2)};
    qn_expr parts[4];
    for (int i = 0; i < node.count; i++) {
        node.parts[i] = make(g, b, depth - 1);
        parts[i] = g->nodes[node.parts[i]].expr;
    }
    node.expr = choice ? qn_expr_choice(b, parts, (size_t)node.count) : qn_expr_concat(b, parts, (size_t)node.count);
    return add(g, node);
}

/* A letter, then the rule. */
static int make_call(random_grammar *g, qn_grammar_builder *b)
{
    random_node self = {.kind = SELF, .expr = qn_expr_rule(b, g->rule)};
    random_node node = {.kind = CONCAT, .parts = {literal(g, b), add(g, self)}, .count = 2};
    node.expr = qn_expr_concat2(b, g->nodes[node.parts[0]].expr, g->nodes[node.parts[1]].expr);
    return add(g, node);
}

static int make(random_grammar *g, qn_grammar_builder *b, int depth)
{
    if (depth == 0 || g->count > RANDOM_MOST_NODES - 40)
        return below(g, 4) ? literal(g, b) : any(g, b);
    switch (below(g, 8)) {
    case 0:
        return literal(g, b);
    case 1:
        return make_call(g, b);
    case 2:
    case 3:
        return make_repeat(g, b, depth);
    case 4:
        return make_group(g, b, depth);
    case 5:
        return make_list(g, b, depth, true);
    default:
        return make_list(g, b, depth, false);
    }
}

qn_expr random_grammar_make(uint64_t seed, qn_grammar_builder *b, random_grammar *out)
{
    memset(out, 0, sizeof *out);
    out->seed = seed;
    out->rule = qn_rule_declare(b, "self");
    int body = make(out, b, 3), end = literal(out, b);
    qn_expr parts[2] = {out->nodes[body].expr, out->nodes[end].expr};
    out->root = add(out, (random_node){.kind = CHOICE, .parts = {body, end}, .count = 2});
    out->nodes[out->root].expr = qn_expr_choice(b, parts, 2);
    qn_rule_define(b, out->rule, out->nodes[out->root].expr);
    return qn_expr_rule(b, out->rule);
}

/* Where a word of the node that starts at `at` can end: a bit per position. */
static uint32_t ends(const judge *j, int node, size_t at);

static uint32_t ends_from_all(const judge *j, int node, uint32_t starts)
{
    uint32_t all = 0;
    for (size_t at = 0; at <= j->length; at++)
        if (starts >> at & 1)
            all |= ends(j, node, at);
    return all;
}

static uint32_t group_ends(const judge *j, const random_node *n, size_t at, unsigned seen, size_t count)
{
    uint32_t all = 0;
    bool complete = count >= n->min;
    for (int i = 0; i < n->items; i++)
        complete &= !n->required[i] || (seen >> i & 1);
    if (complete)
        all |= UINT32_C(1) << at;
    if (count >= n->max || count > j->length + 4)
        return all;
    uint32_t starts = count == 0 ? UINT32_C(1) << at : ends(j, n->parts[n->items], at);
    for (size_t s = 0; s <= j->length; s++)
        for (int i = 0; (starts >> s & 1) && i < n->items + n->has_extra; i++) {
            if (i < n->items && (seen >> i & 1))
                continue;
            unsigned now = i < n->items ? seen | 1U << i : seen;
            uint32_t stops = ends(j, n->parts[i < n->items ? i : i + 1], s);
            for (size_t e = 0; e <= j->length; e++)
                if (stops >> e & 1)
                    all |= group_ends(j, n, e, now, count + 1);
        }
    return all;
}

static uint32_t repeat_ends(const judge *j, const random_node *n, size_t at)
{
    uint32_t all = 0, now = UINT32_C(1) << at;
    size_t most = n->max < n->min + j->length + 2 ? n->max : n->min + j->length + 2;
    for (size_t k = 0; now; k++) {
        all |= k >= n->min ? now : 0;
        if (k == most)
            break;
        now = ends_from_all(j, n->parts[0], now);
    }
    return all;
}

static uint32_t ends(const judge *j, int node, size_t at)
{
    const random_node *n = &j->g->nodes[node];
    uint32_t all = 0;
    switch (n->kind) {
    case LITERAL:
        return at + strlen(n->text) <= j->length && memcmp(j->word + at, n->text, strlen(n->text)) == 0
                   ? UINT32_C(1) << (at + strlen(n->text))
                   : 0;
    case ANY:
        return at < j->length ? UINT32_C(1) << (at + 1) : 0;
    case CONCAT:
        all = UINT32_C(1) << at;
        for (int i = 0; i < n->count; i++)
            all = ends_from_all(j, n->parts[i], all);
        return all;
    case CHOICE:
        for (int i = 0; i < n->count; i++)
            all |= ends(j, n->parts[i], at);
        return all;
    case REPEAT:
        return repeat_ends(j, n, at);
    case GROUP:
        return group_ends(j, n, at, 0, 0);
    case SELF:
        return ends(j, j->g->root, at);
    }
    return 0;
}

bool random_grammar_has(const random_grammar *g, const char *word, size_t length)
{
    judge j = {g, word, length};
    return ends(&j, g->root, 0) >> length & 1;
}
