/* Which expressions have words, which have the empty word, and which rules are recursive on their left.
 *
 * The first two are the same least fixpoint over different leaves: a sequence holds when all parts do, a choice when
 * one does, a repetition when its part does or none is needed. What becomes true is told to what it is a part of, once,
 * so the work is linear in the parts (for groups: times their items). Nothing here recurses: depth is the user's. */
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "grammar/grammar_internal.h"

typedef struct fixpoint {
    const qn_grammar_builder *b;
    uint32_t *starts; /* wholes of expression e: wholes[starts[e] .. starts[e + 1]) */
    uint32_t *wholes;
    uint32_t *missing; /* parts that a sequence still waits for */
    uint32_t *queue;
    size_t queued;
    bool *holds;
} fixpoint;

static const qn_expr *parts_of(const qn_grammar_builder *b, const qn_expr_node *node, size_t *count)
{
    if (node->kind == QN_EXPR_RULE) {
        *count = b->rules[node->first].defined;
        return &b->rules[node->first].expr;
    }
    bool whole = node->kind >= QN_EXPR_CONCAT;
    *count = whole ? node->count : 0;
    return whole ? b->parts + node->first : NULL;
}

/* Wholes by part, by counting. */
static void link_wholes(fixpoint *f)
{
    const qn_grammar_builder *b = f->b;
    for (int round = 0; round < 2; round++) {
        for (size_t i = b->node_count; i-- > 0;) {
            size_t count;
            const qn_expr *parts = parts_of(b, &b->nodes[i], &count);
            for (size_t p = 0; p < count; p++) {
                if (round == 0)
                    f->starts[parts[p] + 1]++;
                else
                    f->wholes[--f->starts[parts[p] + 1]] = (uint32_t)i;
            }
        }
        for (size_t i = 0; round == 0 && i < b->node_count; i++)
            f->starts[i + 1] += f->starts[i];
        if (round == 0)
            f->starts[b->node_count + 1] = f->starts[b->node_count];
    }
    /* starts[e + 1] went down to where the wholes of e begin */
    memmove(f->starts, f->starts + 1, (b->node_count + 1) * sizeof *f->starts);
}

/* Whether some number of items that may come makes the group whole. */
static bool group_holds(const qn_grammar_builder *b, const qn_expr_node *node, const bool *holds)
{
    const qn_expr *parts = b->parts + node->first;
    size_t required = 0, able = 0;
    for (size_t i = 0; i < node->items; i++) {
        bool must = qn_bit_get(b->words + node->required, i);
        if (must && !holds[parts[i]])
            return false;
        required += must;
        able += holds[parts[i]];
    }
    size_t least = qn_max_size(node->min, required);
    bool extra = node->count > node->items + 1 && holds[parts[node->items + 1]];
    return least <= node->max && (least <= able || extra) && (least < 2 || holds[parts[node->items]]);
}

void qn_joint_items(const qn_grammar_builder *b, const qn_expr_node *node, const bool *holds,
                    uint64_t items[QN_JOINT_WORDS])
{
    const qn_joint_entry *joint = &b->joints[node->items];
    uint64_t reached[4 * QN_JOINT_WORDS] = {1}; /* nodes */
    memset(items, 0, QN_JOINT_WORDS * sizeof *items);
    for (size_t e = 0; e < joint->edge_count; e++) {
        const qn_joint_edge *edge = &b->edges[joint->first_edge + e];
        if (!holds[b->parts[node->first + e]] || !qn_bit_get(reached, edge->from))
            continue;
        if (edge->to)
            qn_bit_set(reached, edge->to);
        else
            qn_bit_set(items, edge->first);
    }
}

bool qn_joint_option_holds(const qn_grammar_builder *b, const qn_joint_entry *joint, size_t option,
                           const uint64_t *items, bool separator)
{
    size_t words = qn_ceil_div(joint->items, 64), required = 0, able = 0;
    const uint64_t *repeated = b->words + joint->first_word;
    const uint64_t *own = b->words + qn_joint_option_word(joint->first_word, words, option);
    bool extra = false;
    for (size_t w = 0; w < words; w++) {
        if (own[words + w] & ~items[w])
            return false;
        required += (size_t)__builtin_popcountll(own[words + w]);
        able += (size_t)__builtin_popcountll(own[w] & items[w] & ~repeated[w]);
        extra |= (own[w] & items[w] & repeated[w]) != 0;
    }
    size_t least = qn_max_size(qn_max_size(own[2 * words], required), 1);
    return least <= own[2 * words + 1] && (least <= able || extra) && (least < 2 || separator);
}

static bool joint_holds(const qn_grammar_builder *b, const qn_expr_node *node, const bool *holds)
{
    const qn_joint_entry *joint = &b->joints[node->items];
    uint64_t items[QN_JOINT_WORDS];
    bool any = false;
    qn_joint_items(b, node, holds, items);
    for (size_t o = 0; o < joint->options && !any; o++)
        any = qn_joint_option_holds(b, joint, o, items, holds[b->parts[node->first + joint->edge_count]]);
    return any;
}

static void make_true(fixpoint *f, uint32_t expr)
{
    if (f->holds[expr])
        return;
    f->holds[expr] = true;
    f->queue[f->queued++] = expr;
}

static void tell(fixpoint *f, uint32_t whole)
{
    const qn_expr_node *node = &f->b->nodes[whole];
    if (f->holds[whole] || node->kind == QN_EXPR_JOINT) /* which is looked at when all else is told */
        return;
    bool now = true;
    if (node->kind == QN_EXPR_CONCAT)
        now = --f->missing[whole] == 0;
    else if (node->kind == QN_EXPR_GROUP)
        now = group_holds(f->b, node, f->holds);
    if (now)
        make_true(f, whole);
}

/* Tells those in the queue from `done` on; returns where it ends. */
static size_t tell_all(fixpoint *f, size_t done)
{
    for (; done < f->queued; done++) {
        uint32_t expr = f->queue[done];
        for (uint32_t w = f->starts[expr]; w < f->starts[expr + 1]; w++)
            tell(f, f->wholes[w]);
    }
    return done;
}

static void run_fixpoint(fixpoint *f, bool empty_words)
{
    const qn_grammar_builder *b = f->b;
    f->queued = 0;
    for (size_t i = 0; i < b->node_count; i++) {
        const qn_expr_node *node = &b->nodes[i];
        bool leaf = node->kind == QN_EXPR_EMPTY ||
                    (!empty_words && node->kind >= QN_EXPR_BYTES && node->kind <= QN_EXPR_TOKEN);
        f->missing[i] = node->count;
        if (leaf || (node->kind == QN_EXPR_REPEAT && node->min == 0) ||
            (node->kind == QN_EXPR_GROUP && group_holds(b, node, f->holds)))
            make_true(f, (uint32_t)i);
    }
    size_t done = tell_all(f, 0), before;
    do { /* groups of groups come in the order of their numbers, unless they are recursive */
        before = done;
        for (size_t i = 0; b->joint_count > 0 && i < b->node_count; i++) {
            if (b->nodes[i].kind != QN_EXPR_JOINT || f->holds[i] || !joint_holds(b, &b->nodes[i], f->holds))
                continue;
            make_true(f, (uint32_t)i);
            done = tell_all(f, done);
        }
    } while (done > before);
}

typedef struct visit {
    qn_expr expr;
    uint32_t next; /* part to look at */
} visit;

/* A separator comes first only behind an empty item. */
static bool has_empty_item(const qn_grammar_builder *b, const qn_expr_node *node, const bool *nullable)
{
    for (size_t i = 0; i < node->count; i++)
        if (i != node->items && nullable[b->parts[node->first + i]])
            return true;
    return false;
}

/* The next part with which a word of the expression may begin; false: no more. */
static bool next_left(const qn_grammar_builder *b, const qn_analysis *a, visit *v, qn_expr *out)
{
    const qn_expr_node *node = &b->nodes[v->expr];
    size_t count;
    const qn_expr *parts = parts_of(b, node, &count);
    while (v->next < count) {
        uint32_t i = v->next++;
        if (node->kind == QN_EXPR_CONCAT && !a->nullable[parts[i]])
            v->next = node->count;
        if (node->kind == QN_EXPR_GROUP && i == node->items && !has_empty_item(b, node, a->nullable))
            continue;
        if (node->kind == QN_EXPR_JOINT &&
            (i + 1 == node->count || b->edges[b->joints[node->items].first_edge + i].from))
            continue; /* words begin with an edge from the root, which is not empty */
        if (a->productive[parts[i]]) {
            *out = parts[i];
            return true;
        }
    }
    return false;
}

static qn_status left_recursive(const qn_grammar_builder *b, const visit *stack, size_t depth, qn_expr again,
                                qn_error *err)
{
    while (depth > 0 && b->nodes[stack[depth - 1].expr].kind != QN_EXPR_RULE && (stack[depth - 1].expr != again))
        depth--;
    if (depth > 0 && b->nodes[stack[depth - 1].expr].kind == QN_EXPR_RULE)
        again = stack[depth - 1].expr;
    const char *name = b->nodes[again].kind == QN_EXPR_RULE ? b->rules[b->nodes[again].first].name : "";
    return qn_fail(err, QN_USAGE,
                   "grammar: rule \"%s\" is recursive on its left, so that it could call itself for ever: let it begin "
                   "with something else, or write it as a repetition",
                   name);
}

/* Depth first along what words may begin with: what is met again while still open begins with itself. */
static qn_status check_left_recursion(const qn_grammar_builder *b, const qn_analysis *a, qn_expr root,
                                      unsigned char *seen, visit *stack, qn_error *err)
{
    enum { NEW, OPEN, CLOSED };
    size_t depth = 0;
    stack[depth++] = (visit){root, 0};
    seen[root] = OPEN;
    while (depth > 0) {
        qn_expr next;
        if (!next_left(b, a, &stack[depth - 1], &next)) {
            seen[stack[--depth].expr] = CLOSED;
        } else if (seen[next] == OPEN) {
            return left_recursive(b, stack, depth, next, err);
        } else if (seen[next] == NEW) {
            seen[next] = OPEN;
            stack[depth++] = (visit){next, 0};
        }
    }
    return QN_OK;
}

static qn_status analyse(const qn_grammar_builder *b, qn_expr root, qn_analysis *a, fixpoint *f, unsigned char *seen,
                         visit *stack, qn_error *err)
{
    link_wholes(f);
    f->holds = a->productive;
    run_fixpoint(f, false);
    if (!a->productive[root])
        return qn_fail(err, QN_USAGE, "grammar: no text can match: it asks for what excludes itself or never ends");
    f->holds = a->nullable;
    run_fixpoint(f, true);
    /* A rule that the root does not begin with may be left-recursive too: each is a start. */
    for (size_t r = 0; r <= b->rule_count; r++) {
        if (r < b->rule_count && (!b->rules[r].used || !a->productive[b->rules[r].expr]))
            continue;
        qn_expr start = r < b->rule_count ? b->rules[r].expr : root;
        if (seen[start])
            continue;
        qn_status status = check_left_recursion(b, a, start, seen, stack, err);
        if (status)
            return status;
    }
    return QN_OK;
}

qn_status qn_analysis_make(const qn_grammar_builder *b, qn_expr root, qn_analysis *out, qn_error *err)
{
    for (size_t r = 0; r < b->rule_count; r++)
        if (b->rules[r].used && !b->rules[r].defined)
            return qn_fail(err, QN_USAGE, "grammar: rule \"%s\" is used and not defined: define it", b->rules[r].name);
    size_t count = b->node_count, links = b->part_count + count;
    qn_analysis a = {qn_alloc_zero(count, sizeof(bool)), qn_alloc_zero(count, sizeof(bool))};
    fixpoint f = {.b = b,
                  .starts = qn_alloc_zero(count + 2, sizeof *f.starts),
                  .wholes = qn_alloc(links, sizeof *f.wholes),
                  .missing = qn_alloc(count, sizeof *f.missing),
                  .queue = qn_alloc(count, sizeof *f.queue)};
    unsigned char *seen = qn_alloc_zero(count, 1);
    visit *stack = qn_alloc(count, sizeof *stack);
    qn_status status;
    if (a.productive && a.nullable && f.starts && f.wholes && f.missing && f.queue && seen && stack)
        status = analyse(b, root, &a, &f, seen, stack, err);
    else
        status = qn_fail_memory(err, "grammar", count * sizeof *stack);
    qn_free(f.starts);
    qn_free(f.wholes);
    qn_free(f.missing);
    qn_free(f.queue);
    qn_free(seen);
    qn_free(stack);
    if (status)
        qn_analysis_free(&a);
    else
        *out = a;
    return status;
}

void qn_analysis_free(qn_analysis *a)
{
    qn_free(a->productive);
    qn_free(a->nullable);
    *a = (qn_analysis){0};
}
