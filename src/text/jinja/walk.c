/* One place that knows which parts a node has, for the passes that only want to visit them. */
#include "text/jinja/walk.h"

static qn_status visit_all(const qn_nodes *nodes, qn_node_visitor *visit, void *context)
{
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(visit(context, nodes->items[i]));
    return QN_OK;
}

/* NULL is fine. */
static qn_status visit_one(qn_node *node, qn_node_visitor *visit, void *context)
{
    return node ? visit(context, node) : QN_OK;
}

static qn_status walk_call(const qn_node *node, qn_node_visitor *visit, void *context)
{
    const qn_call_arguments *arguments = &node->call.arguments;
    QN_TRY(visit_one(node->call.value, visit, context));
    QN_TRY(visit_all(&arguments->positional, visit, context));
    QN_TRY(visit_all(&arguments->keyword_values, visit, context));
    QN_TRY(visit_one(arguments->positional_rest, visit, context));
    return visit_one(arguments->keyword_rest, visit, context);
}

qn_status qn_walk_parts(qn_node *node, qn_node_visitor *visit, void *context)
{
    switch (node->kind) {
    case QN_NODE_TUPLE:
    case QN_NODE_LIST:
    case QN_NODE_CONCATENATE:
        return visit_all(&node->items, visit, context);
    case QN_NODE_DICT:
        for (size_t i = 0; i < node->dict.keys.count; ++i) {
            QN_TRY(visit(context, node->dict.keys.items[i]));
            QN_TRY(visit(context, node->dict.values.items[i]));
        }
        return QN_OK;
    case QN_NODE_CONDITIONAL:
        QN_TRY(visit(context, node->conditional.test));
        QN_TRY(visit(context, node->conditional.then));
        return visit_one(node->conditional.otherwise, visit, context);
    case QN_NODE_BINARY:
    case QN_NODE_AND:
    case QN_NODE_OR:
        QN_TRY(visit(context, node->binary.left));
        return visit(context, node->binary.right);
    case QN_NODE_NEGATE:
    case QN_NODE_PLUS:
    case QN_NODE_NOT:
        return visit(context, node->operand);
    case QN_NODE_COMPARE:
        return visit_all(&node->compare.operands, visit, context);
    case QN_NODE_ATTRIBUTE:
        return visit(context, node->attribute.object);
    case QN_NODE_ITEM:
        QN_TRY(visit(context, node->item.object));
        return visit(context, node->item.key);
    case QN_NODE_SLICE:
        QN_TRY(visit(context, node->slice.object));
        QN_TRY(visit_one(node->slice.start, visit, context));
        QN_TRY(visit_one(node->slice.stop, visit, context));
        return visit_one(node->slice.step, visit, context);
    case QN_NODE_FILTER:
    case QN_NODE_TEST:
    case QN_NODE_CALL:
        return walk_call(node, visit, context);
    default:
        return QN_OK;
    }
}

typedef struct search {
    qn_symbol *const *names;
    size_t count;
    unsigned open, found; /* a bit for each name: not yet set; read before it was set */
} search;

static unsigned bit_of(const search *s, const qn_symbol *symbol)
{
    for (size_t i = 0; i < s->count; ++i) {
        if (s->names[i] == symbol)
            return 1u << i;
    }
    return 0;
}

static qn_status search_expression(void *context, qn_node *node)
{
    search *s = context;
    if (node->kind == QN_NODE_NAME) {
        s->found |= bit_of(s, node->name.symbol) & s->open;
        return QN_OK;
    }
    return qn_walk_parts(node, search_expression, s);
}

static void search_expressions(search *s, const qn_nodes *nodes)
{
    visit_all(nodes, search_expression, s);
}

static void search_target(search *s, const qn_node *target)
{
    if (target->kind == QN_NODE_NAME)
        s->open &= ~bit_of(s, target->name.symbol);
    for (size_t i = 0; target->kind == QN_NODE_TUPLE && i < target->items.count; ++i)
        search_target(s, target->items.items[i]);
}

static void search_targets(search *s, const qn_nodes *targets)
{
    for (size_t i = 0; i < targets->count; ++i)
        search_target(s, targets->items[i]);
}

static void search_statements(search *s, const qn_nodes *nodes);

static void search_for(search *s, const qn_for *loop)
{
    search_target(s, loop->target);
    search_expression(s, loop->iterable);
    search_statements(s, &loop->body);
    search_statements(s, &loop->otherwise);
    if (loop->test)
        search_expression(s, loop->test);
}

static void search_branches(search *s, const qn_node *node)
{
    search_expression(s, node->branch.branches[0].test);
    search_statements(s, &node->branch.branches[0].body);
    for (size_t i = 1; i < node->branch.count; ++i) {
        search_expression(s, node->branch.branches[i].test);
        search_statements(s, &node->branch.branches[i].body);
    }
    search_statements(s, &node->branch.otherwise);
}

static void search_macro(search *s, const qn_node *node)
{
    if (node->macro.call)
        search_expression(s, node->macro.call);
    search_targets(s, &node->macro.code->parameters);
    search_expressions(s, &node->macro.code->defaults);
    search_statements(s, &node->macro.code->body);
}

static void search_block(search *s, const qn_node *node)
{
    bool set = node->kind == QN_NODE_SET_BLOCK;
    if (set)
        search_target(s, node->block.target);
    if (set && node->block.filter)
        search_expression(s, node->block.filter);
    search_statements(s, &node->block.body);
    if (!set)
        search_expression(s, node->block.filter);
}

/* The parts of each statement in the order in which Jinja2's nodes list them. */
static void search_statement(search *s, qn_node *node)
{
    switch (node->kind) {
    case QN_NODE_OUTPUT:
        search_expressions(s, &node->items);
        break;
    case QN_NODE_FOR:
        search_for(s, node->loop);
        break;
    case QN_NODE_IF:
        search_branches(s, node);
        break;
    case QN_NODE_MACRO:
    case QN_NODE_CALL_BLOCK:
        search_macro(s, node);
        break;
    case QN_NODE_FILTER_BLOCK:
    case QN_NODE_SET_BLOCK:
        search_block(s, node);
        break;
    case QN_NODE_WITH:
        search_targets(s, &node->with.targets);
        search_expressions(s, &node->with.values);
        search_statements(s, &node->with.body);
        break;
    case QN_NODE_SET:
        search_target(s, node->set.target);
        search_expression(s, node->set.value);
        break;
    default:
        break;
    }
}

static void search_statements(search *s, const qn_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; ++i)
        search_statement(s, nodes->items[i]);
}

unsigned qn_reads_undeclared(const qn_nodes *statements, qn_symbol *const *names, size_t count)
{
    search s = {.names = names, .count = count, .open = (1u << count) - 1};
    search_statements(&s, statements);
    return s.found;
}
