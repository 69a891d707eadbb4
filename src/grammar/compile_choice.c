/* A choice. Options that begin with a literal become a tree of their bytes, so that a thousand words are one stack and
 * not a thousand. Where a single word is left on its way through the tree, the rest of it is a chain of states; chains
 * are made from their ends, and what ends alike is the same states: as much of it as literals before have had in
 * common, and LEARNT bytes more. So the table of what can be shared stays small where random words share nothing. */
#include "grammar/compile_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"

enum { LEARNT = 8 };

typedef struct literal {
    const unsigned char *bytes;
    size_t count;
    qn_expr option;
    bool more; /* the option is a sequence that begins with the literal */
} literal;

/* Literals low..high-1, which agree in their first `depth` bytes, are to be matched from `entry` on. */
typedef struct range {
    size_t low, high, depth;
    uint32_t entry;
} range;

typedef struct compile_literals {
    literal *all;
    size_t count, capacity;
    range *ranges;
    size_t range_count, range_capacity;
    qn_expr *options;
    size_t option_count, option_capacity;
    qn_expr rest_of; /* the last single expression behind a literal, */
    uint32_t rest;   /* and its entry; COMPILE_RETURN: none */
    uint32_t *links; /* a hash table of the states of chains, 0: empty */
    size_t link_count, link_capacity;
} compile_literals;

/* Chains */

static size_t link_slot(const compile_literals *l, unsigned char byte, uint32_t next)
{
    uint64_t h = ((uint64_t)next << 8 | byte) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h >> 32) & (l->link_capacity - 1);
}

static void put_link(const compiler *c, uint32_t *links, uint32_t state)
{
    const compile_literals *l = c->literals;
    size_t at = link_slot(l, (unsigned char)c->g->states[state].a, c->g->states[state].b);
    while (links[at] != 0)
        at = (at + 1) & (l->link_capacity - 1);
    links[at] = state;
}

static bool grow_links(compiler *c)
{
    compile_literals *l = c->literals;
    size_t before = l->link_capacity;
    size_t capacity = before ? 2 * before : 64;
    uint32_t *old = l->links, *links = qn_alloc_zero(capacity, sizeof *links);
    if (!links) {
        qn_error err;
        qn_fail_memory(&err, "grammar", capacity * sizeof *links);
        qn_grammar_builder_fail(c->b, &err);
        return false;
    }
    l->link_capacity = capacity;
    for (size_t i = 0; i < before; i++)
        if (old[i] != 0)
            put_link(c, links, old[i]);
    qn_free(old);
    l->links = links;
    return true;
}

/* The state that takes the byte and goes on with next, of those that chains have in common; COMPILE_RETURN: none. */
static uint32_t find_link(const compiler *c, unsigned char byte, uint32_t next)
{
    const compile_literals *l = c->literals;
    for (size_t at = link_slot(l, byte, next); l->link_count > 0 && l->links[at] != 0;
         at = (at + 1) & (l->link_capacity - 1)) {
        const qn_state *s = &c->g->states[l->links[at]];
        if (s->a == byte && s->b == next)
            return l->links[at];
    }
    return COMPILE_RETURN;
}

/* The state that takes the byte and goes on with next: one that is there already, else, where *learnt is not yet
 * LEARNT, a new one for others to share. */
static uint32_t link_to(compiler *c, unsigned char byte, uint32_t next, size_t *learnt)
{
    compile_literals *l = c->literals;
    if (c->b->failed)
        return COMPILE_RETURN;
    if (*learnt >= LEARNT) /* what goes on with a new state is new itself */
        return compile_add_chained(c, byte, next);
    uint32_t state = *learnt == 0 ? find_link(c, byte, next) : COMPILE_RETURN;
    if (state != COMPILE_RETURN || (2 * (l->link_count + 1) > l->link_capacity && !grow_links(c)))
        return state;
    state = compile_add_chained(c, byte, next);
    if (!c->b->failed) {
        put_link(c, l->links, state);
        l->link_count++;
        ++*learnt;
    }
    return state;
}

/* What follows the literal. */
static uint32_t end_of(compiler *c, const literal *l, uint32_t next)
{
    if (!l->more)
        return next;
    compile_literals *literals = c->literals;
    const qn_expr_node *node = &c->b->nodes[l->option];
    qn_expr only = node->count == 2 ? c->b->parts[node->first + 1] : UINT32_MAX;
    if (node->count == 2 && only == literals->rest_of && literals->rest != COMPILE_RETURN)
        return literals->rest;
    uint32_t rest = compile_new_entry(c);
    compile_push(c, l->option, 1, rest, next, true);
    if (node->count == 2) {
        literals->rest_of = only;
        literals->rest = rest;
    }
    return rest;
}

/* The literal from a byte on. */
static uint32_t chain(compiler *c, const literal *l, size_t from, uint32_t next)
{
    uint32_t state = end_of(c, l, next);
    size_t learnt = 0;
    for (size_t i = l->count; i-- > from && !c->b->failed;)
        state = link_to(c, l->bytes[i], state, &learnt);
    return state;
}

/* Trees */

static int by_bytes(const void *a, const void *b)
{
    const literal *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, qn_min_size(x->count, y->count));
    if (order == 0)
        order = (x->count > y->count) - (x->count < y->count);
    return order ? order : x->more - y->more;
}

/* Sorted, and words that are all of an option each once. */
static void sort_literals(compile_literals *l)
{
    size_t kept = 0;
    qsort(l->all, l->count, sizeof *l->all, by_bytes);
    for (size_t i = 0; i < l->count; i++)
        if (kept == 0 || l->all[i].more || by_bytes(&l->all[kept - 1], &l->all[i]) != 0)
            l->all[kept++] = l->all[i];
    l->count = kept;
}

static size_t group_end(const compile_literals *l, const range *r, size_t i)
{
    size_t end = i + 1;
    while (end < r->high && l->all[end].bytes[r->depth] == l->all[i].bytes[r->depth])
        end++;
    return end;
}

/* Literals first..end-1, whose byte at the range's depth is the same, behind that byte. */
static uint32_t behind_byte(compiler *c, const range *r, size_t first, size_t end, uint32_t next)
{
    compile_literals *l = c->literals;
    if (end - first == 1)
        return chain(c, &l->all[first], r->depth + 1, next);
    uint32_t entry = compile_new_entry(c);
    if (compile_reserve(c, &l->ranges, &l->range_capacity, l->range_count, 1, sizeof *l->ranges))
        l->ranges[l->range_count++] = (range){first, end, r->depth + 1, entry};
    return entry;
}

/* One node of the tree: literals that end here go on with their rests, the others with their next byte. */
static void make_tree_node(compiler *c, const range *r, uint32_t next)
{
    compile_literals *l = c->literals;
    size_t ended = r->low, branches = 0;
    while (ended < r->high && l->all[ended].count == r->depth)
        ended++, branches++;
    for (size_t i = ended; i < r->high; i = group_end(l, r, i))
        branches++;
    if (branches == 1 && ended == r->low) {
        unsigned char byte = l->all[ended].bytes[r->depth];
        compile_set_state(c, r->entry, QN_STATE_SET, byte, behind_byte(c, r, ended, r->high, next));
        return;
    }
    uint32_t first = compile_add_targets(c, branches), used = first;
    for (size_t i = r->low; i < ended && !c->b->failed; i++) {
        uint32_t rest = end_of(c, &l->all[i], next);
        c->g->targets[used++] = rest;
    }
    for (size_t i = ended, end; i < r->high && !c->b->failed; i = end) {
        end = group_end(l, r, i);
        uint32_t after = behind_byte(c, r, i, end, next);
        size_t learnt = end - i == 1 ? 0 : LEARNT; /* a node of the tree is no chain's */
        uint32_t state = link_to(c, l->all[i].bytes[r->depth], after, &learnt);
        c->g->targets[used++] = state;
    }
    compile_set_state(c, r->entry, QN_STATE_SPLIT, first, (uint32_t)branches);
}

static void make_tree(compiler *c, uint32_t entry, uint32_t next)
{
    compile_literals *l = c->literals;
    sort_literals(l);
    make_tree_node(c, &(range){0, l->count, 0, entry}, next);
    while (l->range_count > 0 && !c->b->failed) {
        range r = l->ranges[--l->range_count];
        make_tree_node(c, &r, next);
    }
}

/* Options */

static void add_option(compiler *c, qn_expr expr)
{
    compile_literals *l = c->literals;
    if (c->analysis->productive[expr] &&
        compile_reserve(c, &l->options, &l->option_capacity, l->option_count, 1, sizeof *l->options))
        l->options[l->option_count++] = expr;
}

/* Takes the option as a literal, if it begins with one. */
static bool add_literal(compiler *c, qn_expr option)
{
    compile_literals *l = c->literals;
    const qn_expr_node *node = &c->b->nodes[option];
    bool more = node->kind == QN_EXPR_CONCAT;
    if (compile_is_shared(c, option))
        return false;
    if (more && !compile_is_shared(c, c->b->parts[node->first]))
        node = &c->b->nodes[c->b->parts[node->first]];
    if (node->kind != QN_EXPR_BYTES || !compile_reserve(c, &l->all, &l->capacity, l->count, 1, sizeof *l->all))
        return false;
    l->all[l->count++] = (literal){c->b->bytes + node->first, node->count, option, more};
    return true;
}

static bool begin_choice(compiler *c)
{
    if (!c->literals)
        c->literals = qn_alloc_zero(1, sizeof *c->literals);
    if (!c->literals) {
        qn_error err;
        qn_fail_memory(&err, "grammar", sizeof *c->literals);
        qn_grammar_builder_fail(c->b, &err);
        return false;
    }
    c->literals->option_count = c->literals->count = 0;
    c->literals->rest = COMPILE_RETURN;
    return true;
}

/* Choices within the choice are opened up: options are looked at until none is a choice of its own. */
void compile_choice(compiler *c, const compile_task *t, const qn_expr_node *node)
{
    if (!begin_choice(c))
        return;
    compile_literals *l = c->literals;
    for (uint32_t i = node->count; i-- > 0;)
        add_option(c, c->b->parts[node->first + i]);
    size_t others = 0;
    for (size_t i = 0; i < l->option_count && !c->b->failed; i++) {
        qn_expr option = l->options[i];
        const qn_expr_node *inner = &c->b->nodes[option];
        if (inner->kind == QN_EXPR_CHOICE && !compile_is_shared(c, option)) {
            for (uint32_t p = 0; p < inner->count; p++)
                add_option(c, c->b->parts[inner->first + p]);
        } else if (!add_literal(c, option)) {
            l->options[others++] = option;
        }
    }
    size_t branches = others + (l->count > 0);
    uint32_t first = compile_add_targets(c, branches);
    for (size_t i = 0; i < others && !c->b->failed; i++) {
        uint32_t option_entry = compile_copy(c, l->options[i], t->next);
        if (!c->b->failed)
            c->g->targets[first + i] = option_entry;
    }
    if (l->count > 0 && !c->b->failed) {
        uint32_t tree = compile_new_entry(c);
        make_tree(c, tree, t->next);
        if (!c->b->failed)
            c->g->targets[first + others] = tree;
    }
    compile_set_state(c, t->entry, QN_STATE_SPLIT, first, (uint32_t)branches);
}

void compile_choice_free(compiler *c)
{
    if (!c->literals)
        return;
    qn_free(c->literals->all);
    qn_free(c->literals->ranges);
    qn_free(c->literals->options);
    qn_free(c->literals->links);
    qn_free(c->literals);
}
