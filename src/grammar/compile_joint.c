/* Groups that are followed as one. Each node of the tree of their items is a state that goes on to those of its edges
 * below which an item may come; what may come is found when matching, from the items that came. Items without words are
 * taken from the options here, and options without words from the groups. */
#include "grammar/compile_internal.h"

#include <string.h>

#include "base/memory.h"
#include "base/size.h"

/* Options of items that can come alone; a bound that no text can reach is none. *cap is the count from which on all are
 * alike. */
static void clean_options(compiler *c, const qn_joint_entry *joint, const uint64_t *items, bool separator, size_t *cap)
{
    size_t words = qn_ceil_div(joint->items, 64);
    uint64_t *repeated = c->b->words + joint->first_word;
    *cap = 1;
    for (size_t o = 0; o < joint->options; o++) {
        uint64_t *own = c->b->words + qn_joint_option_word(joint->first_word, words, o);
        uint64_t *min = &own[2 * words], *max = min + 1;
        size_t able = 0;
        bool endless = false;
        if (!qn_joint_option_holds(c->b, joint, o, items, separator))
            memset(own, 0, 2 * words * sizeof *own);
        for (size_t w = 0; w < words; w++) {
            own[w] &= items[w];
            able += (size_t)__builtin_popcountll(own[w] & ~repeated[w]);
            endless |= (own[w] & repeated[w]) != 0;
        }
        if (!separator)
            *max = 1;
        else if (!endless && *max >= able)
            *max = QN_UNBOUNDED;
        *cap = qn_max_size(*cap, qn_max_size(*min, *max == QN_UNBOUNDED ? 0 : *max + 1)); /* others have more */
    }
}

/* The states of the nodes, whose branches are set later; NULL: the builder failed. */
static uint32_t *make_nodes(compiler *c, const qn_joint_entry *joint, uint32_t group)
{
    uint32_t *nodes = qn_alloc(joint->nodes, sizeof *nodes);
    if (!nodes) {
        qn_error err;
        qn_fail_memory(&err, "grammar", joint->nodes * sizeof *nodes);
        qn_grammar_builder_fail(c->b, &err);
    }
    for (size_t i = 0; nodes && i < joint->nodes; i++)
        nodes[i] = compile_add_state(c, QN_STATE_JOINT_BRANCH, group, UINT32_MAX);
    return nodes;
}

static void add_branch(compiler *c, uint32_t node, const qn_joint_edge *edge, uint32_t entry, bool again)
{
    qn_grammar *g = c->g;
    if (!compile_reserve(c, &g->branches, &c->branch_capacity, g->branch_count, 1, sizeof *g->branches))
        return;
    if (again)
        g->branches[g->branch_count - 1].more = true;
    else
        g->states[node].b = (uint32_t)g->branch_count;
    g->branches[g->branch_count++] = (qn_branch){edge->first, edge->last, entry, false};
}

/* An edge without words is left out: no item that may come is below it. */
static void make_branches(compiler *c, const qn_expr_node *node, const qn_joint_entry *joint, uint32_t group,
                          const uint32_t *nodes)
{
    uint32_t last = UINT32_MAX;
    for (size_t e = 0; e < joint->edge_count && !c->b->failed; e++) {
        const qn_joint_edge edge = c->b->edges[joint->first_edge + e];
        qn_expr label = c->b->parts[node->first + e];
        if (!c->analysis->productive[label])
            continue;
        uint32_t after = edge.to ? nodes[edge.to] : compile_add_state(c, QN_STATE_GROUP_DONE, group, edge.first);
        add_branch(c, nodes[edge.from], &edge, compile_copy(c, label, after), last == edge.from);
        last = edge.from;
    }
}

void compile_joint(compiler *c, const compile_task *t, const qn_expr_node *node)
{
    const qn_joint_entry *joint = &c->b->joints[node->items];
    qn_expr separator = c->b->parts[node->first + joint->edge_count];
    bool separates = c->analysis->productive[separator];
    uint64_t items[QN_JOINT_WORDS];
    size_t cap;
    if (!compile_reserve(c, &c->g->groups, &c->group_capacity, c->g->group_count, 1, sizeof *c->g->groups))
        return;
    uint32_t index = (uint32_t)c->g->group_count++;
    c->g->groups[index] = (qn_group){0};
    qn_joint_items(c->b, node, c->analysis->productive, items);
    clean_options(c, joint, items, separates, &cap);
    uint32_t *nodes = make_nodes(c, joint, index);
    if (!nodes)
        return;
    qn_group group = {.items = joint->items,
                      .words = (uint32_t)qn_ceil_div(joint->items, 64),
                      .options = joint->options,
                      .first_word = joint->first_word,
                      .cap = (uint32_t)cap,
                      .head = compile_add_state(c, QN_STATE_GROUP_HEAD, index, 0),
                      .choose = nodes[0],
                      .exit = t->next};
    make_branches(c, node, joint, index, nodes);
    group.separator = separates ? compile_copy(c, separator, group.choose) : group.choose;
    if (!c->b->failed)
        c->g->groups[index] = group;
    compile_set_state(c, t->entry, QN_STATE_GROUP_ENTER, index, 0);
    qn_free(nodes);
}
