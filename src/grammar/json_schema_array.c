/* Arrays. Their elements follow each other like a repetition; where some of them are counted ("contains") they are a
 * graph, whose states tell how many elements and how many of each counted kind have come; where they must differ
 * ("uniqueItems") they are a group of listed values, each of which comes once. */
#include <string.h>

#include "grammar/json_schema_compiler.h"

enum {
    MOST_COUNTED = 2,         /* "contains" that meet */
    MOST_GRAPH_STATES = 4096, /* of elements and counts */
    MOST_TUPLES = 500         /* arrays without repeats that are written out, or were begun */
};

static size_t prefix_length(const shape *s)
{
    size_t most = 0;
    for (const keyword_use *use = s->elements; use; use = use->next) {
        size_t count = json_array_size(schema_prefix(use->node->schema));
        most = count > most ? count : most;
    }
    return most;
}

/* The element at index, behind a rule when it is used more than once; QN_NO_WORDS: the array ends before it. */
static qn_expr element_expr(compiler *c, const shape *s, size_t index, bool shared)
{
    node_set set = {0};
    schema_element_set(c, s, index, &set);
    qn_expr expr = schema_set_expr(c, &set);
    return shared && set.count > 0 ? qn_words_shared(c->b, "array element", expr) : expr;
}

/* "element, ..." min..max times, one at least. */
static qn_expr repeated(compiler *c, qn_expr element, size_t min, size_t max)
{
    qn_expr more = qn_expr_concat2(c->b, c->spelling.comma, element);
    return qn_expr_concat2(c->b, element,
                           qn_expr_repeat(c->b, more, min > 0 ? min - 1 : 0, max == QN_UNBOUNDED ? max : max - 1));
}

static qn_expr plain_array(compiler *c, const shape *s)
{
    qn_grammar_builder *b = c->b;
    size_t prefix = prefix_length(s), max = s->max_items, count = 0;
    qn_expr *elements = schema_alloc(c, prefix + 1, sizeof *elements);
    if (!elements)
        return QN_NO_WORDS;
    while (count < prefix && count < max && !c->failed) {
        elements[count] = element_expr(c, s, count, false);
        if (elements[count] == QN_NO_WORDS)
            max = count;
        else
            count++;
    }
    qn_expr rest = max > prefix ? element_expr(c, s, prefix, true) : QN_NO_WORDS;
    if (rest == QN_NO_WORDS && max > prefix)
        max = prefix;
    if (s->min_items > max || c->failed)
        return QN_NO_WORDS;
    qn_expr inside = QN_NO_WORDS; /* what may follow `count` elements, without the comma before it */
    size_t min_rest = s->min_items > count ? s->min_items - count : 0;
    if (rest != QN_NO_WORDS)
        inside = repeated(c, rest, min_rest, max == QN_UNBOUNDED ? max : max - count);
    for (size_t i = count; i-- > 0;) {
        qn_expr after = QN_NO_WORDS;
        if (inside != QN_NO_WORDS) {
            after = qn_expr_concat2(b, c->spelling.comma, inside);
            if (i + 1 >= s->min_items)
                after = qn_expr_optional(b, after);
        }
        inside = after == QN_NO_WORDS ? elements[i] : qn_expr_concat2(b, elements[i], after);
    }
    return qn_json_enclosed(&c->spelling, '[', inside, s->min_items == 0, ']');
}

/* Counted elements */

typedef struct counted {
    const keyword_use *use;
    size_t min, max, cap; /* counts from the cap on are alike */
} counted;

typedef struct element_graph {
    compiler *c;
    const shape *s;
    counted kinds[MOST_COUNTED];
    size_t kind_count, prefix, length, state_count; /* lengths from `length` on are alike, unless that is the most */
    qn_expr *elements;                              /* of each index up to the prefix and each set of kinds */
    qn_graph_edge *edges;
    size_t edge_count;
} element_graph;

/* minContains and its like, as they were read before (schema_apply_contains). */
static size_t bound_of(const keyword_use *use, const char *keyword, size_t without)
{
    const json_t *value = json_object_get(use->node->schema, keyword);
    size_t number = without;
    if (value && schema_count_of(value, &number) && number == SCHEMA_MOST_COUNT)
        number = QN_UNBOUNDED; /* no array is as long */
    return number;
}

static void list_kinds(element_graph *g)
{
    for (const keyword_use *use = g->s->contains; use; use = use->next) {
        counted kind = {use, bound_of(use, "minContains", 1), bound_of(use, "maxContains", QN_UNBOUNDED), 0};
        kind.cap = kind.max == QN_UNBOUNDED ? kind.min : kind.max;
        if (g->kind_count == MOST_COUNTED) {
            schema_fail(g->c, use->node, use->keyword, "cannot be enforced: more than %d of it for the same array",
                        MOST_COUNTED);
            return;
        }
        g->kinds[g->kind_count++] = kind;
    }
}

/* The element at index that is of the kinds in the set, and not of a kind outside it of which there may be too many. */
static qn_expr kind_expr(const element_graph *g, size_t index, size_t kinds)
{
    compiler *c = g->c;
    node_set set = {0};
    schema_element_set(c, g->s, index, &set);
    for (size_t k = 0; k < g->kind_count && !c->failed; k++) {
        const keyword_use *use = g->kinds[k].use;
        const schema_node *kind = schema_child(c, use->node, use->keyword, NULL, use->value);
        if (kinds >> k & 1) {
            schema_set_add(c, &set, kind);
        } else if (g->kinds[k].max != QN_UNBOUNDED) {
            json_t *opposite = schema_made_not(c, kind);
            if (opposite)
                schema_set_add(c, &set, schema_child(c, use->node, use->keyword, NULL, opposite));
        }
    }
    qn_expr expr = c->failed ? QN_NO_WORDS : schema_set_expr(c, &set);
    return qn_words_shared(c->b, "array element", expr);
}

/* A state is a length, and a count of each kind. */
static size_t state_of(const element_graph *g, size_t length, const size_t counts[MOST_COUNTED])
{
    size_t state = length;
    for (size_t k = 0; k < g->kind_count; k++)
        state = state * (g->kinds[k].cap + 1) + counts[k];
    return state;
}

static size_t read_state(const element_graph *g, size_t state, size_t counts[MOST_COUNTED])
{
    for (size_t k = g->kind_count; k-- > 0;) {
        counts[k] = state % (g->kinds[k].cap + 1);
        state /= g->kinds[k].cap + 1;
    }
    return state;
}

static bool may_end(const element_graph *g, size_t state)
{
    size_t counts[MOST_COUNTED], length = read_state(g, state, counts);
    bool end = length >= g->s->min_items;
    for (size_t k = 0; k < g->kind_count; k++)
        end &= counts[k] >= g->kinds[k].min;
    return end;
}

/* The edges for one more element behind the state. */
static void add_edges(element_graph *g, size_t state)
{
    compiler *c = g->c;
    size_t counts[MOST_COUNTED] = {0}, next[MOST_COUNTED] = {0}, length = read_state(g, state, counts);
    if (length >= g->s->max_items)
        return;
    size_t index = length < g->prefix ? length : g->prefix;
    for (size_t kinds = 0; kinds < (size_t)1 << g->kind_count; kinds++) {
        qn_expr element = g->elements[index << g->kind_count | kinds];
        bool room = element != QN_NO_WORDS;
        for (size_t k = 0; k < g->kind_count; k++) {
            bool one = kinds >> k & 1, full = counts[k] == g->kinds[k].cap;
            room &= !(one && full && g->kinds[k].max != QN_UNBOUNDED);
            next[k] = counts[k] + (one && !full);
        }
        if (!room)
            continue;
        size_t to = state_of(g, length < g->length ? length + 1 : length, next);
        qn_expr label = length == 0 ? element : qn_expr_concat2(c->b, c->spelling.comma, element);
        g->edges[g->edge_count++] = (qn_graph_edge){(uint32_t)state, (uint32_t)to, label};
    }
}

static qn_expr counted_array(compiler *c, const shape *s)
{
    element_graph g = {.c = c, .s = s, .prefix = prefix_length(s)};
    list_kinds(&g);
    g.length = g.prefix > s->min_items ? g.prefix : s->min_items;
    if (s->max_items != QN_UNBOUNDED)
        g.length = s->max_items;
    g.length = g.length > 0 ? g.length : 1;
    g.state_count = g.length + 1;
    for (size_t k = 0; k < g.kind_count; k++)
        g.state_count = g.state_count > MOST_GRAPH_STATES ? g.state_count : g.state_count * (g.kinds[k].cap + 1);
    if (g.state_count > MOST_GRAPH_STATES) {
        schema_fail(c, s->contains->node, s->contains->keyword,
                    "cannot be enforced: the bounds beside it are too large");
        return QN_NO_WORDS;
    }
    size_t sets = (size_t)1 << g.kind_count;
    g.elements = schema_alloc(c, (g.prefix + 1) * sets, sizeof *g.elements);
    g.edges = schema_alloc(c, g.state_count * sets, sizeof *g.edges);
    bool *accepting = schema_alloc(c, g.state_count, sizeof *accepting);
    for (size_t i = 0; i < (g.prefix + 1) * sets && !c->failed; i++)
        g.elements[i] = kind_expr(&g, i >> g.kind_count, i & (sets - 1));
    if (c->failed)
        return QN_NO_WORDS;
    for (size_t state = 0; state < g.state_count; state++)
        add_edges(&g, state);
    bool *reached = schema_alloc(c, g.state_count, sizeof *reached), any = false;
    for (size_t i = 0; reached && i < g.edge_count; i++) { /* in the order of their first states, none leads back */
        const qn_graph_edge *edge = &g.edges[i];
        reached[edge->to] |= edge->from == 0 || reached[edge->from];
        accepting[edge->to] = may_end(&g, edge->to);
        any |= reached[edge->to] && accepting[edge->to];
    }
    qn_expr inside = any ? qn_expr_graph(c->b, g.edges, g.edge_count, accepting, g.state_count) : QN_NO_WORDS;
    return qn_json_enclosed(&c->spelling, '[', inside, may_end(&g, 0), ']');
}

/* Elements that differ */

static void refuse_unique(compiler *c, const shape *s)
{
    schema_fail(c, s->unique->node, s->unique->keyword,
                "cannot be enforced: only between elements whose values are listed (by \"enum\", or integers between "
                "bounds): leave it out");
}

static bool is_last_repeated(const json_t *list)
{
    size_t last = json_array_size(list) - 1;
    for (size_t i = 0; i < last; i++)
        if (schema_values_equal(json_array_get(list, i), json_array_get(list, last)))
            return true;
    return false;
}

/* Arrays without repeats, as values: all that begin with `so_far`. *left is how many may be looked at. */
static void list_tuples(compiler *c, const shape *s, const json_t *so_far, json_t *out, size_t *left)
{
    size_t count = json_array_size(so_far);
    if (c->failed || *left == 0) {
        if (!c->failed)
            refuse_unique(c, s);
        return;
    }
    --*left;
    if (count >= s->min_items)
        schema_made_add(c, out, so_far);
    if (count == s->max_items)
        return;
    node_set set = {0};
    schema_element_set(c, s, count, &set);
    json_t *values = schema_finite_values(c, &set);
    if (!values && !c->failed)
        refuse_unique(c, s);
    for (size_t i = 0; i < json_array_size(values) && !c->failed; i++) {
        json_t *longer = schema_made_list(c);
        for (size_t k = 0; k < count; k++)
            longer = schema_made_add(c, longer, json_array_get(so_far, k));
        longer = schema_made_add(c, longer, json_array_get(values, i));
        if (longer && !is_last_repeated(longer))
            list_tuples(c, s, longer, out, left);
    }
}

static qn_expr unique_tuples(compiler *c, const shape *s)
{
    json_t *tuples = schema_made_list(c);
    size_t left = MOST_TUPLES;
    if (tuples)
        list_tuples(c, s, schema_made_list(c), tuples, &left);
    size_t count = json_array_size(tuples), n = 0;
    const json_t **values = schema_alloc(c, count + 1, sizeof *values);
    for (size_t i = 0; values && i < count; i++)
        if (schema_listed_value_fits(c, s, json_array_get(tuples, i)))
            values[n++] = json_array_get(tuples, i);
    return c->failed || n == 0 ? QN_NO_WORDS : schema_values_expr(c, values, n, false);
}

static qn_expr unique_array(compiler *c, const shape *s)
{
    if (prefix_length(s) > 0 || s->contains)
        return unique_tuples(c, s);
    node_set set = {0};
    schema_element_set(c, s, 0, &set);
    json_t *values = schema_finite_values(c, &set);
    size_t count = json_array_size(values);
    qn_expr *items = schema_alloc(c, count + 1, sizeof *items);
    bool *required = schema_alloc(c, count + 1, sizeof *required);
    if (!c->failed && (!values || count > QN_GRAMMAR_MAX_ITEMS))
        refuse_unique(c, s);
    for (size_t i = 0; i < count && !c->failed; i++) {
        const json_t *value = json_array_get(values, i);
        items[i] = schema_values_expr(c, &value, 1, false);
    }
    if (c->failed || s->min_items > count)
        return QN_NO_WORDS;
    qn_each_once group = {items,       required, count, NULL, c->spelling.comma, s->min_items > 0 ? s->min_items : 1,
                          s->max_items};
    qn_expr inside = count > 0 && s->max_items > 0 ? qn_expr_each_once(c->b, &group) : QN_NO_WORDS;
    return qn_json_enclosed(&c->spelling, '[', inside, s->min_items == 0, ']');
}

qn_expr schema_array_expr(compiler *c, const shape *s)
{
    if (s->unique && s->max_items > 1)
        return unique_array(c, s);
    return s->contains ? counted_array(c, s) : plain_array(c, s);
}

/* Listed arrays */

static bool contains_fit(compiler *c, const keyword_use *use, const json_t *value)
{
    size_t found = 0;
    node_set kind = {0};
    schema_set_add(c, &kind, schema_child(c, use->node, use->keyword, NULL, use->value));
    for (size_t i = 0; i < json_array_size(value) && !c->failed; i++)
        found += schema_part_fits(c, &kind, json_array_get(value, i));
    return found >= bound_of(use, "minContains", 1) && found <= bound_of(use, "maxContains", QN_UNBOUNDED);
}

bool schema_array_fits(compiler *c, const shape *s, const json_t *value)
{
    size_t count = json_array_size(value);
    bool fits = count >= s->min_items && count <= s->max_items;
    for (size_t i = 0; i < count && fits; i++) {
        node_set set = {0};
        schema_element_set(c, s, i, &set);
        fits = schema_part_fits(c, &set, json_array_get(value, i));
        for (size_t k = 0; s->unique && k < i && fits; k++)
            fits = !schema_values_equal(json_array_get(value, k), json_array_get(value, i));
    }
    for (const keyword_use *use = s->contains; use && fits; use = use->next)
        fits = contains_fit(c, use, value);
    return fits && !c->failed;
}
