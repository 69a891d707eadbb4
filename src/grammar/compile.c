/* From expressions to the automaton, backwards in the sense that each expression is made with the state that follows
 * it.
 *
 * An expression used in several places is made once, as a rule that is called, unless it is small; so the automaton is
 * linear in what was built. A call as the last thing of a rule becomes a jump: recursion on the right keeps no stack.
 * A choice between literals becomes a tree of their bytes, so that a thousand words are one stack and not a thousand.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/grammar_internal.h"

enum { INLINE_STATES = 24, LARGE = 1 << 22, RETURN = 0 };

/* Work to do: `entry` shall match the expression without its first `skip` parts and go on with `next`. */
typedef struct task {
    qn_expr expr;
    uint32_t skip, entry, next;
    bool whole; /* made here although it is shared: the body of its own rule */
} task;

typedef struct literal {
    const unsigned char *bytes;
    size_t count;
    qn_expr option;
    bool more; /* the option is a sequence that begins with the literal */
} literal;

typedef struct range {
    size_t low, high, depth;
    uint32_t entry;
} range;

typedef struct compiler {
    qn_grammar_builder *b; /* its error takes ours */
    const qn_analysis *analysis;
    qn_grammar *g;
    size_t state_capacity, target_capacity, repeat_capacity, group_capacity;
    uint32_t *uses, *sizes;
    uint32_t *expr_entries, *rule_entries; /* 0: not made yet */
    task *tasks;
    size_t task_count, task_capacity;
    literal *literals;
    size_t literal_count, literal_capacity;
    range *ranges;
    size_t range_count, range_capacity;
    qn_expr *options;
    size_t option_count, option_capacity;
} compiler;

static bool reserve(compiler *c, void *block, size_t *capacity, size_t count, size_t more, size_t size)
{
    return qn_builder_reserve(c->b, block, capacity, count, more, (size_t)2 * QN_GRAMMAR_MAX_STATES, size,
                              "states of the automaton");
}

static uint32_t add_state(compiler *c, qn_state_kind kind, uint32_t a, uint32_t b)
{
    if (!qn_builder_reserve(c->b, &c->g->states, &c->state_capacity, c->g->state_count, 1, QN_GRAMMAR_MAX_STATES,
                            sizeof *c->g->states, "states of the automaton"))
        return RETURN;
    c->g->states[c->g->state_count] = (qn_state){kind, a, b};
    return (uint32_t)c->g->state_count++;
}

static void set_state(compiler *c, uint32_t state, qn_state_kind kind, uint32_t a, uint32_t b)
{
    if (!c->b->failed)
        c->g->states[state] = (qn_state){kind, a, b};
}

/* Room for the targets of one split; their first index. */
static uint32_t add_targets(compiler *c, size_t count)
{
    if (!reserve(c, &c->g->targets, &c->target_capacity, c->g->target_count, count, sizeof *c->g->targets))
        return 0;
    uint32_t first = (uint32_t)c->g->target_count;
    for (size_t i = 0; i < count; i++)
        c->g->targets[c->g->target_count++] = RETURN;
    return first;
}

static void split(compiler *c, uint32_t state, const uint32_t *targets, size_t count)
{
    uint32_t first = add_targets(c, count);
    if (c->b->failed)
        return;
    memcpy(c->g->targets + first, targets, count * sizeof *targets);
    set_state(c, state, QN_STATE_SPLIT, first, (uint32_t)count);
}

static void push(compiler *c, qn_expr expr, uint32_t skip, uint32_t entry, uint32_t next, bool whole)
{
    if (reserve(c, &c->tasks, &c->task_capacity, c->task_count, 1, sizeof *c->tasks))
        c->tasks[c->task_count++] = (task){expr, skip, entry, next, whole};
}

static uint32_t new_entry(compiler *c)
{
    return add_state(c, QN_STATE_SPLIT, 0, 0);
}

/* The entry of a new copy of the expression in front of `next`. */
static uint32_t copy(compiler *c, qn_expr expr, uint32_t next)
{
    uint32_t entry = new_entry(c);
    push(c, expr, 0, entry, next, false);
    return entry;
}

static size_t unrolled_copies(const qn_expr_node *node)
{
    return node->max == QN_UNBOUNDED ? qn_max_size(node->min, 1) : node->max;
}

/* Few small copies cost less than counting. An empty round needs the counter's care. */
static bool is_unrolled(const compiler *c, const qn_expr_node *node)
{
    qn_expr part = c->b->parts[node->first];
    size_t copies = unrolled_copies(node);
    return copies == 1 ||
           (!c->analysis->nullable[part] && copies <= INLINE_STATES && copies * c->sizes[part] <= INLINE_STATES);
}

static bool is_shared(const compiler *c, qn_expr expr)
{
    return c->uses[expr] > 1 && c->sizes[expr] == 1 && c->b->nodes[expr].kind != QN_EXPR_RULE &&
           c->expr_entries[expr] != 0;
}

/* Sizes as inlined, parts before wholes; what is too large to be copied gets a mark in expr_entries and counts 1. */
static void measure(compiler *c, qn_expr root)
{
    const qn_grammar_builder *b = c->b;
    c->uses[root]++;
    for (size_t i = 0; i < b->node_count; i++)
        for (size_t p = 0; b->nodes[i].kind >= QN_EXPR_CONCAT && p < b->nodes[i].count; p++)
            c->uses[b->parts[b->nodes[i].first + p]]++;
    for (size_t i = 0; i < b->node_count; i++) {
        const qn_expr_node *node = &b->nodes[i];
        size_t size = node->kind == QN_EXPR_BYTES ? node->count : 1;
        for (size_t p = 0; node->kind >= QN_EXPR_CONCAT && p < node->count; p++)
            size = qn_min_size(LARGE, size + c->sizes[b->parts[node->first + p]]);
        if (node->kind == QN_EXPR_REPEAT && is_unrolled(c, node))
            size = qn_min_size(LARGE, size * unrolled_copies(node));
        c->sizes[i] = (uint32_t)qn_min_size(size, LARGE);
        if (c->uses[i] > 1 && size > INLINE_STATES) {
            c->sizes[i] = 1;
            c->expr_entries[i] = UINT32_MAX;
        }
    }
}

static void make_call(compiler *c, const task *t, uint32_t *known, qn_expr body)
{
    if (*known == 0 || *known == UINT32_MAX) {
        *known = new_entry(c);
        push(c, body, 0, *known, RETURN, true);
    }
    set_state(c, t->entry, QN_STATE_CALL, *known, t->next);
}

static void make_bytes(compiler *c, const qn_expr_node *node, uint32_t entry, uint32_t next)
{
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t after = i + 1 < node->count ? new_entry(c) : next;
        set_state(c, entry, QN_STATE_SET, c->b->bytes[node->first + i], after);
        entry = after;
    }
}

static void make_sequence(compiler *c, const task *t, const qn_expr_node *node)
{
    uint32_t entry = t->entry;
    if (t->skip >= node->count)
        split(c, entry, &t->next, 1);
    for (uint32_t i = t->skip; i < node->count; i++) {
        uint32_t after = i + 1 < node->count ? new_entry(c) : t->next;
        push(c, c->b->parts[node->first + i], 0, entry, after, false);
        entry = after;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const literal *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, qn_min_size(x->count, y->count));
    return order ? order : (x->count > y->count) - (x->count < y->count);
}

static void push_range(compiler *c, size_t low, size_t high, size_t depth, uint32_t entry)
{
    if (reserve(c, &c->ranges, &c->range_capacity, c->range_count, 1, sizeof *c->ranges))
        c->ranges[c->range_count++] = (range){low, high, depth, entry};
}

/* One node of the tree: literals that end here go on with their rests, the others with their next byte. */
static void make_tree_node(compiler *c, const range *r, uint32_t next)
{
    size_t i = r->low, branches = 0;
    while (i < r->high && c->literals[i].count == r->depth)
        i++, branches++;
    for (size_t j = i; j < r->high; j++)
        branches += j == i || c->literals[j].bytes[r->depth] != c->literals[j - 1].bytes[r->depth];
    uint32_t first = add_targets(c, branches), used = first;
    for (i = r->low; i < r->high && c->literals[i].count == r->depth && !c->b->failed; i++) {
        const literal *l = &c->literals[i];
        uint32_t rest = l->more ? new_entry(c) : next;
        if (l->more)
            push(c, l->option, 1, rest, next, true);
        c->g->targets[used++] = rest;
    }
    while (i < r->high && !c->b->failed) {
        size_t end = i + 1;
        unsigned char byte = c->literals[i].bytes[r->depth];
        while (end < r->high && c->literals[end].bytes[r->depth] == byte)
            end++;
        uint32_t after = new_entry(c);
        c->g->targets[used++] = add_state(c, QN_STATE_SET, byte, after);
        push_range(c, i, end, r->depth + 1, after);
        i = end;
    }
    set_state(c, r->entry, QN_STATE_SPLIT, first, (uint32_t)branches);
}

static void make_tree(compiler *c, uint32_t entry, uint32_t next)
{
    qsort(c->literals, c->literal_count, sizeof *c->literals, by_bytes);
    push_range(c, 0, c->literal_count, 0, entry);
    while (c->range_count > 0 && !c->b->failed) {
        range r = c->ranges[--c->range_count];
        make_tree_node(c, &r, next);
    }
}

static void add_option(compiler *c, qn_expr expr)
{
    if (c->analysis->productive[expr] &&
        reserve(c, &c->options, &c->option_capacity, c->option_count, 1, sizeof *c->options))
        c->options[c->option_count++] = expr;
}

/* Takes the option as a literal, if it begins with one. */
static bool add_literal(compiler *c, qn_expr option)
{
    const qn_expr_node *node = &c->b->nodes[option];
    bool more = node->kind == QN_EXPR_CONCAT;
    if (is_shared(c, option))
        return false;
    if (more && !is_shared(c, c->b->parts[node->first]))
        node = &c->b->nodes[c->b->parts[node->first]];
    if (node->kind != QN_EXPR_BYTES ||
        !reserve(c, &c->literals, &c->literal_capacity, c->literal_count, 1, sizeof *c->literals))
        return false;
    c->literals[c->literal_count++] = (literal){c->b->bytes + node->first, node->count, option, more};
    return true;
}

/* Choices within the choice are opened up: options are looked at until none is a choice of its own. */
static void make_choice(compiler *c, const task *t, const qn_expr_node *node)
{
    c->option_count = c->literal_count = 0;
    for (uint32_t i = node->count; i-- > 0;)
        add_option(c, c->b->parts[node->first + i]);
    size_t others = 0;
    for (size_t i = 0; i < c->option_count && !c->b->failed; i++) {
        qn_expr option = c->options[i];
        const qn_expr_node *inner = &c->b->nodes[option];
        if (inner->kind == QN_EXPR_CHOICE && !is_shared(c, option)) {
            for (uint32_t p = 0; p < inner->count; p++)
                add_option(c, c->b->parts[inner->first + p]);
        } else if (!add_literal(c, option)) {
            c->options[others++] = option;
        }
    }
    size_t branches = others + (c->literal_count > 0);
    uint32_t first = add_targets(c, branches);
    for (size_t i = 0; i < others && !c->b->failed; i++) {
        uint32_t option_entry = copy(c, c->options[i], t->next);
        if (!c->b->failed)
            c->g->targets[first + i] = option_entry;
    }
    if (c->literal_count > 0 && !c->b->failed) {
        uint32_t tree = new_entry(c);
        make_tree(c, tree, t->next);
        if (!c->b->failed)
            c->g->targets[first + others] = tree;
    }
    set_state(c, t->entry, QN_STATE_SPLIT, first, (uint32_t)branches);
}

static uint32_t count_of(size_t n)
{
    return n == QN_UNBOUNDED ? QN_COUNT_UNBOUNDED : (uint32_t)n;
}

static void make_counter(compiler *c, const task *t, const qn_expr_node *node, qn_expr part)
{
    if (!reserve(c, &c->g->repeats, &c->repeat_capacity, c->g->repeat_count, 1, sizeof *c->g->repeats))
        return;
    uint32_t index = (uint32_t)c->g->repeat_count++;
    bool nullable = c->analysis->nullable[part];
    uint32_t head = add_state(c, QN_STATE_REPEAT_HEAD, index, 0), after = add_state(c, QN_STATE_REPEAT_NEXT, index, 0);
    c->g->repeats[index] = (qn_repeat){.min = nullable ? 0 : count_of(node->min),
                                       .max = count_of(node->max),
                                       .body = copy(c, part, after),
                                       .exit = t->next,
                                       .head = head,
                                       .nullable = nullable};
    set_state(c, t->entry, QN_STATE_REPEAT_ENTER, index, 0);
}

/* x{2,4} as x x (x (x)?)?, x{2,} as x x* with its second x in the loop. */
static void make_copies(compiler *c, const task *t, const qn_expr_node *node, qn_expr part)
{
    uint32_t entry = t->entry;
    size_t min = node->min, copies = unrolled_copies(node);
    bool loops = node->max == QN_UNBOUNDED;
    for (size_t i = 0; i < copies && !c->b->failed; i++) {
        bool last = i + 1 == copies, needed = i < min;
        if (last && loops && !needed) { /* x*: one state is both */
            split(c, entry, (uint32_t[]){copy(c, part, entry), t->next}, 2);
            return;
        }
        uint32_t after = last && !loops ? t->next : new_entry(c);
        uint32_t body = copy(c, part, after);
        split(c, entry, (uint32_t[]){body, t->next}, needed ? 1 : 2);
        if (last && loops)
            split(c, after, (uint32_t[]){body, t->next}, 2);
        entry = after;
    }
}

static void make_repeat(compiler *c, const task *t, const qn_expr_node *node)
{
    qn_expr part = c->b->parts[node->first];
    if (!c->analysis->productive[part])
        split(c, t->entry, &t->next, 1);
    else if (is_unrolled(c, node) || (c->analysis->nullable[part] && node->max == QN_UNBOUNDED))
        make_copies(c, t, &(qn_expr_node){.min = c->analysis->nullable[part] ? 0 : node->min, .max = node->max}, part);
    else
        make_counter(c, t, node, part);
}

/* Items without words are left out; without a separator that has any, one item is all. */
static void make_group(compiler *c, const task *t, const qn_expr_node *node)
{
    const qn_expr *parts = c->b->parts + node->first;
    const bool *productive = c->analysis->productive;
    if (!reserve(c, &c->g->groups, &c->group_capacity, c->g->group_count, 1, sizeof *c->g->groups))
        return;
    uint32_t index = (uint32_t)c->g->group_count++;
    qn_group group = {.items = node->items,
                      .words = (uint32_t)qn_ceil_div(node->items, 64),
                      .first_item = add_targets(c, (size_t)node->items + 1),
                      .required = node->required,
                      .min = count_of(node->min),
                      .max = productive[parts[node->items]] ? count_of(node->max) : (uint32_t)qn_min_size(node->max, 1),
                      .has_extra = node->count > node->items + 1 && productive[parts[node->items + 1]],
                      .head = add_state(c, QN_STATE_GROUP_HEAD, index, 0),
                      .choose = add_state(c, QN_STATE_GROUP_CHOOSE, index, 0),
                      .exit = t->next};
    size_t able = 0;
    for (uint32_t i = 0; i <= node->items && !c->b->failed; i++) {
        bool extra = i == node->items;
        if (extra ? !group.has_extra : !productive[parts[i]])
            continue;
        uint32_t done = add_state(c, QN_STATE_GROUP_DONE, index, i);
        uint32_t item = copy(c, parts[extra ? i + 1 : i], done);
        if (!c->b->failed)
            c->g->targets[group.first_item + i] = item;
        able += !extra;
        group.required_count += !extra && qn_bit_get(c->b->words + node->required, i);
    }
    group.separator = productive[parts[node->items]] ? copy(c, parts[node->items], group.choose) : group.choose;
    bool endless = group.max == QN_COUNT_UNBOUNDED || (!group.has_extra && group.max >= able);
    group.max = endless ? QN_COUNT_UNBOUNDED : group.max;
    group.cap = endless ? (uint32_t)qn_max_size(group.min, 1) : group.max;
    if (!c->b->failed)
        c->g->groups[index] = group;
    set_state(c, t->entry, QN_STATE_GROUP_ENTER, index, 0);
}

static void run_task(compiler *c, const task *t)
{
    const qn_expr_node *node = &c->b->nodes[t->expr];
    if (!t->whole && is_shared(c, t->expr)) {
        make_call(c, t, &c->expr_entries[t->expr], t->expr);
        return;
    }
    switch (node->kind) {
    case QN_EXPR_EMPTY:
        split(c, t->entry, &t->next, 1);
        break;
    case QN_EXPR_NEVER: /* only in what has no words, which is left out before */
        break;
    case QN_EXPR_BYTES:
        make_bytes(c, node, t->entry, t->next);
        break;
    case QN_EXPR_SET:
        set_state(c, t->entry, QN_STATE_SET, node->first, t->next);
        break;
    case QN_EXPR_TOKEN:
        set_state(c, t->entry, QN_STATE_TOKEN, node->first, t->next);
        break;
    case QN_EXPR_CONCAT:
        make_sequence(c, t, node);
        break;
    case QN_EXPR_CHOICE:
        make_choice(c, t, node);
        break;
    case QN_EXPR_REPEAT:
        make_repeat(c, t, node);
        break;
    case QN_EXPR_GROUP:
        make_group(c, t, node);
        break;
    case QN_EXPR_RULE:
        make_call(c, t, &c->rule_entries[node->first], c->b->rules[node->first].expr);
        break;
    }
}

/* Where a state that does nothing leads; `calls`: a call whose return does nothing but return is a jump. */
static bool is_jump(const qn_grammar *g, uint32_t state, bool calls, uint32_t *to)
{
    const qn_state *s = &g->states[state];
    if (s->kind == QN_STATE_SPLIT && s->b == 1)
        *to = g->targets[s->a];
    else if (calls && s->kind == QN_STATE_CALL && s->b == RETURN)
        *to = s->a;
    else
        return false;
    return true;
}

/* The end of the chain of jumps, noted along it. A chain never closes: that would be recursion on the left. */
static uint32_t follow(qn_grammar *g, uint32_t *ends, uint32_t state, bool calls)
{
    uint32_t end = state, to;
    while (ends[end] == UINT32_MAX && is_jump(g, end, calls, &to))
        end = to;
    end = ends[end] == UINT32_MAX ? end : ends[end];
    while (state != end && ends[state] == UINT32_MAX) {
        if (!is_jump(g, state, calls, &to))
            break;
        ends[state] = end;
        state = to;
    }
    return end;
}

static void straighten(qn_grammar *g, uint32_t *ends, bool calls)
{
    memset(ends, 0xFF, g->state_count * sizeof *ends);
    for (size_t i = 0; i < g->state_count; i++) {
        qn_state *s = &g->states[i];
        if (s->kind == QN_STATE_SET || s->kind == QN_STATE_TOKEN || s->kind == QN_STATE_CALL)
            s->b = follow(g, ends, s->b, calls);
        if (s->kind == QN_STATE_CALL && (calls ? s->b != RETURN : true))
            s->a = follow(g, ends, s->a, calls);
    }
    for (size_t i = 0; i < g->target_count; i++)
        g->targets[i] = follow(g, ends, g->targets[i], calls);
    for (size_t i = 0; i < g->repeat_count; i++) {
        g->repeats[i].body = follow(g, ends, g->repeats[i].body, calls);
        g->repeats[i].exit = follow(g, ends, g->repeats[i].exit, calls);
    }
    for (size_t i = 0; i < g->group_count; i++) {
        g->groups[i].separator = follow(g, ends, g->groups[i].separator, calls);
        g->groups[i].exit = follow(g, ends, g->groups[i].exit, calls);
    }
    g->start = follow(g, ends, g->start, calls);
}

static void take(void *to, size_t *to_count, void *from, size_t *from_count)
{
    memcpy(to, from, sizeof(void *));
    memset(from, 0, sizeof(void *));
    *to_count = *from_count;
    *from_count = 0;
}

static void compile(compiler *c, qn_expr root)
{
    measure(c, root);
    add_state(c, QN_STATE_RETURN, 0, 0);
    c->g->start = copy(c, root, RETURN);
    while (c->task_count > 0 && !c->b->failed) {
        task t = c->tasks[--c->task_count];
        run_task(c, &t);
    }
    uint32_t *ends = c->b->failed ? NULL : qn_alloc(c->g->state_count, sizeof *ends);
    if (!c->b->failed && !ends) {
        qn_error err;
        qn_fail_memory(&err, "grammar", c->g->state_count * sizeof *ends);
        qn_grammar_builder_fail(c->b, &err);
    }
    if (ends) {
        straighten(c->g, ends, false);
        straighten(c->g, ends, true);
        take(&c->g->sets, &c->g->set_count, &c->b->sets, &c->b->set_count);
        take(&c->g->words, &c->g->word_count, &c->b->words, &c->b->word_count);
        c->b->failed = true;
        qn_fail(&c->b->error, QN_USAGE, "grammar: the builder has built its grammar: take a new one");
    }
    qn_free(ends);
}

static void compile_root(qn_grammar_builder *b, qn_expr root, const qn_analysis *analysis, qn_grammar *g)
{
    compiler c = {.b = b,
                  .analysis = analysis,
                  .g = g,
                  .uses = qn_alloc_zero(b->node_count, sizeof *c.uses),
                  .sizes = qn_alloc_zero(b->node_count, sizeof *c.sizes),
                  .expr_entries = qn_alloc_zero(b->node_count, sizeof *c.expr_entries),
                  .rule_entries = qn_alloc_zero(b->rule_count, sizeof *c.rule_entries)};
    if (c.uses && c.sizes && c.expr_entries && c.rule_entries) {
        compile(&c, root);
    } else {
        qn_error err;
        qn_fail_memory(&err, "grammar", b->node_count * sizeof *c.uses);
        qn_grammar_builder_fail(b, &err);
    }
    qn_free(c.uses);
    qn_free(c.sizes);
    qn_free(c.expr_entries);
    qn_free(c.rule_entries);
    qn_free(c.tasks);
    qn_free(c.literals);
    qn_free(c.ranges);
    qn_free(c.options);
}

qn_status qn_grammar_build(qn_grammar_builder *b, qn_expr root, qn_grammar **out, qn_error *err)
{
    if (!b->failed && root >= b->node_count) {
        qn_fail(&b->error, QN_USAGE, "grammar: the root is an expression of another builder");
        b->failed = true;
    }
    qn_analysis analysis;
    qn_status status = qn_grammar_builder_status(b, err);
    if (!status)
        status = qn_analysis_make(b, root, &analysis, err);
    if (status)
        return status;
    qn_grammar *g = qn_alloc_zero(1, sizeof *g);
    if (g)
        compile_root(b, root, &analysis, g);
    qn_analysis_free(&analysis);
    if (!g)
        return qn_fail_memory(err, "grammar", sizeof *g);
    if (g->sets) { /* taken last */
        *out = g;
        return QN_OK;
    }
    qn_grammar_free(g);
    return qn_grammar_builder_status(b, err);
}

void qn_grammar_free(qn_grammar *g)
{
    if (!g)
        return;
    qn_free(g->states);
    qn_free(g->targets);
    qn_free(g->sets);
    qn_free(g->repeats);
    qn_free(g->groups);
    qn_free(g->words);
    qn_free(g);
}
