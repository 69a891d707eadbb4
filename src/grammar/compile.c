/* From expressions to the automaton, backwards in the sense that each expression is made with the state that follows
 * it.
 *
 * An expression used in several places is made once, as a rule that is called, unless it is small; so the automaton is
 * linear in what was built. A call as the last thing of a rule becomes a jump: recursion on the right keeps no stack.
 */
#include "grammar/compile_internal.h"

#include <string.h>

#include "base/memory.h"
#include "base/size.h"

enum { INLINE_STATES = 24, LARGE = 1 << 22 };

bool compile_reserve(compiler *c, void *block, size_t *capacity, size_t count, size_t more, size_t size)
{
    return qn_builder_reserve(c->b, block, capacity, count, more, (size_t)2 * QN_GRAMMAR_MAX_STATES, size,
                              "states of the automaton");
}

static uint32_t add_state(compiler *c, qn_state_kind kind, uint32_t a, uint32_t b, size_t most)
{
    if (!qn_builder_reserve(c->b, &c->g->states, &c->state_capacity, c->g->state_count, 1, most, sizeof *c->g->states,
                            "states of the automaton"))
        return COMPILE_RETURN;
    c->g->states[c->g->state_count] = (qn_state){kind, a, b};
    return (uint32_t)c->g->state_count++;
}

uint32_t compile_add_chained(compiler *c, uint32_t byte, uint32_t next)
{
    if (++c->chained > QN_GRAMMAR_MAX_CHAINED) {
        qn_error err;
        qn_fail(&err, QN_USAGE,
                "grammar: more than %d bytes in which no other text of a choice shares: make it smaller",
                QN_GRAMMAR_MAX_CHAINED);
        qn_grammar_builder_fail(c->b, &err);
    }
    return add_state(c, QN_STATE_SET, byte, next, SIZE_MAX);
}

uint32_t compile_add_state(compiler *c, qn_state_kind kind, uint32_t a, uint32_t b)
{
    return add_state(c, kind, a, b, QN_GRAMMAR_MAX_STATES + c->chained);
}

void compile_set_state(compiler *c, uint32_t state, qn_state_kind kind, uint32_t a, uint32_t b)
{
    if (!c->b->failed)
        c->g->states[state] = (qn_state){kind, a, b};
}

uint32_t compile_add_targets(compiler *c, size_t count)
{
    if (!compile_reserve(c, &c->g->targets, &c->target_capacity, c->g->target_count, count, sizeof *c->g->targets))
        return 0;
    uint32_t first = (uint32_t)c->g->target_count;
    for (size_t i = 0; i < count; i++)
        c->g->targets[c->g->target_count++] = COMPILE_RETURN;
    return first;
}

void compile_split(compiler *c, uint32_t state, const uint32_t *targets, size_t count)
{
    uint32_t first = compile_add_targets(c, count);
    if (c->b->failed)
        return;
    memcpy(c->g->targets + first, targets, count * sizeof *targets);
    compile_set_state(c, state, QN_STATE_SPLIT, first, (uint32_t)count);
}

void compile_push(compiler *c, qn_expr expr, uint32_t skip, uint32_t entry, uint32_t next, bool whole)
{
    if (compile_reserve(c, &c->tasks, &c->task_capacity, c->task_count, 1, sizeof *c->tasks))
        c->tasks[c->task_count++] = (compile_task){expr, skip, entry, next, whole};
}

uint32_t compile_new_entry(compiler *c)
{
    return compile_add_state(c, QN_STATE_SPLIT, 0, 0);
}

uint32_t compile_copy(compiler *c, qn_expr expr, uint32_t next)
{
    uint32_t entry = compile_new_entry(c);
    compile_push(c, expr, 0, entry, next, false);
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

bool compile_is_shared(const compiler *c, qn_expr expr)
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

static void make_call(compiler *c, const compile_task *t, uint32_t *known, qn_expr body)
{
    if (*known == 0 || *known == UINT32_MAX) {
        *known = compile_new_entry(c);
        compile_push(c, body, 0, *known, COMPILE_RETURN, true);
    }
    compile_set_state(c, t->entry, QN_STATE_CALL, *known, t->next);
}

static void make_bytes(compiler *c, const qn_expr_node *node, uint32_t entry, uint32_t next)
{
    for (uint32_t i = 0; i < node->count; i++) {
        uint32_t after = i + 1 < node->count ? compile_new_entry(c) : next;
        compile_set_state(c, entry, QN_STATE_SET, c->b->bytes[node->first + i], after);
        entry = after;
    }
}

static void make_sequence(compiler *c, const compile_task *t, const qn_expr_node *node)
{
    uint32_t entry = t->entry;
    if (t->skip >= node->count)
        compile_split(c, entry, &t->next, 1);
    for (uint32_t i = t->skip; i < node->count; i++) {
        uint32_t after = i + 1 < node->count ? compile_new_entry(c) : t->next;
        compile_push(c, c->b->parts[node->first + i], 0, entry, after, false);
        entry = after;
    }
}

static uint32_t count_of(size_t n)
{
    return n == QN_UNBOUNDED ? QN_COUNT_UNBOUNDED : (uint32_t)n;
}

static void make_counter(compiler *c, const compile_task *t, const qn_expr_node *node, qn_expr part)
{
    if (!compile_reserve(c, &c->g->repeats, &c->repeat_capacity, c->g->repeat_count, 1, sizeof *c->g->repeats))
        return;
    uint32_t index = (uint32_t)c->g->repeat_count++;
    bool nullable = c->analysis->nullable[part];
    uint32_t head = compile_add_state(c, QN_STATE_REPEAT_HEAD, index, 0),
             after = compile_add_state(c, QN_STATE_REPEAT_NEXT, index, 0);
    c->g->repeats[index] = (qn_repeat){.min = nullable ? 0 : count_of(node->min),
                                       .max = count_of(node->max),
                                       .body = compile_copy(c, part, after),
                                       .exit = t->next,
                                       .head = head,
                                       .nullable = nullable};
    compile_set_state(c, t->entry, QN_STATE_REPEAT_ENTER, index, 0);
}

/* x{2,4} as x x (x (x)?)?, x{2,} as x x* with its second x in the loop. */
static void make_copies(compiler *c, const compile_task *t, const qn_expr_node *node, qn_expr part)
{
    uint32_t entry = t->entry;
    size_t min = node->min, copies = unrolled_copies(node);
    bool loops = node->max == QN_UNBOUNDED;
    for (size_t i = 0; i < copies && !c->b->failed; i++) {
        bool last = i + 1 == copies, needed = i < min;
        if (last && loops && !needed) { /* x*: one state is both */
            compile_split(c, entry, (uint32_t[]){compile_copy(c, part, entry), t->next}, 2);
            return;
        }
        uint32_t after = last && !loops ? t->next : compile_new_entry(c);
        uint32_t body = compile_copy(c, part, after);
        compile_split(c, entry, (uint32_t[]){body, t->next}, needed ? 1 : 2);
        if (last && loops)
            compile_split(c, after, (uint32_t[]){body, t->next}, 2);
        entry = after;
    }
}

static void make_repeat(compiler *c, const compile_task *t, const qn_expr_node *node)
{
    qn_expr part = c->b->parts[node->first];
    if (!c->analysis->productive[part])
        compile_split(c, t->entry, &t->next, 1);
    else if (is_unrolled(c, node) || (c->analysis->nullable[part] && node->max == QN_UNBOUNDED))
        make_copies(c, t, &(qn_expr_node){.min = c->analysis->nullable[part] ? 0 : node->min, .max = node->max}, part);
    else
        make_counter(c, t, node, part);
}

/* Items without words are left out; without a separator that has any, one item is all. */
static void make_group(compiler *c, const compile_task *t, const qn_expr_node *node)
{
    const qn_expr *parts = c->b->parts + node->first;
    const bool *productive = c->analysis->productive;
    if (!compile_reserve(c, &c->g->groups, &c->group_capacity, c->g->group_count, 1, sizeof *c->g->groups))
        return;
    uint32_t index = (uint32_t)c->g->group_count++;
    qn_group group = {.items = node->items,
                      .words = (uint32_t)qn_ceil_div(node->items, 64),
                      .first_item = compile_add_targets(c, (size_t)node->items + 1),
                      .required = node->required,
                      .min = count_of(node->min),
                      .max = productive[parts[node->items]] ? count_of(node->max) : (uint32_t)qn_min_size(node->max, 1),
                      .has_extra = node->count > node->items + 1 && productive[parts[node->items + 1]],
                      .head = compile_add_state(c, QN_STATE_GROUP_HEAD, index, 0),
                      .choose = compile_add_state(c, QN_STATE_GROUP_CHOOSE, index, 0),
                      .exit = t->next};
    size_t able = 0;
    for (uint32_t i = 0; i <= node->items && !c->b->failed; i++) {
        bool extra = i == node->items;
        if (extra ? !group.has_extra : !productive[parts[i]])
            continue;
        uint32_t done = compile_add_state(c, QN_STATE_GROUP_DONE, index, i);
        uint32_t item = compile_copy(c, parts[extra ? i + 1 : i], done);
        if (!c->b->failed)
            c->g->targets[group.first_item + i] = item;
        able += !extra;
        group.required_count += !extra && qn_bit_get(c->b->words + node->required, i);
    }
    group.separator = productive[parts[node->items]] ? compile_copy(c, parts[node->items], group.choose) : group.choose;
    bool endless = group.max == QN_COUNT_UNBOUNDED || (!group.has_extra && group.max >= able);
    group.max = endless ? QN_COUNT_UNBOUNDED : group.max;
    group.cap = endless ? (uint32_t)qn_max_size(group.min, 1) : group.max;
    if (!c->b->failed)
        c->g->groups[index] = group;
    compile_set_state(c, t->entry, QN_STATE_GROUP_ENTER, index, 0);
}

static void run_task(compiler *c, const compile_task *t)
{
    const qn_expr_node *node = &c->b->nodes[t->expr];
    if (!t->whole && compile_is_shared(c, t->expr)) {
        make_call(c, t, &c->expr_entries[t->expr], t->expr);
        return;
    }
    switch (node->kind) {
    case QN_EXPR_EMPTY:
        compile_split(c, t->entry, &t->next, 1);
        break;
    case QN_EXPR_NEVER: /* only in what has no words, which is left out before */
        break;
    case QN_EXPR_BYTES:
        make_bytes(c, node, t->entry, t->next);
        break;
    case QN_EXPR_SET:
        compile_set_state(c, t->entry, QN_STATE_SET, node->first, t->next);
        break;
    case QN_EXPR_TOKEN:
        compile_set_state(c, t->entry, QN_STATE_TOKEN, node->first, t->next);
        break;
    case QN_EXPR_CONCAT:
        make_sequence(c, t, node);
        break;
    case QN_EXPR_CHOICE:
        compile_choice(c, t, node);
        break;
    case QN_EXPR_REPEAT:
        make_repeat(c, t, node);
        break;
    case QN_EXPR_GROUP:
        make_group(c, t, node);
        break;
    case QN_EXPR_JOINT:
        compile_joint(c, t, node);
        break;
    case QN_EXPR_RULE:
        make_call(c, t, &c->rule_entries[node->first], c->b->rules[node->first].expr);
        break;
    }
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
    compile_add_state(c, QN_STATE_RETURN, 0, 0);
    c->g->start = compile_copy(c, root, COMPILE_RETURN);
    while (c->task_count > 0 && !c->b->failed) {
        compile_task t = c->tasks[--c->task_count];
        run_task(c, &t);
    }
    uint32_t *ends = c->b->failed ? NULL : qn_alloc(c->g->state_count, sizeof *ends);
    if (!c->b->failed && !ends) {
        qn_error err;
        qn_fail_memory(&err, "grammar", c->g->state_count * sizeof *ends);
        qn_grammar_builder_fail(c->b, &err);
    }
    if (ends) {
        compile_straighten(c->g, ends, false);
        compile_straighten(c->g, ends, true);
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
    compile_choice_free(&c);
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
    qn_free(g->branches);
    qn_free(g->words);
    qn_free(g);
}
