/* Recursive descent, one function per level of precedence. */
#include <string.h>

#include "text/jinja/parser.h"

/* A node of two parts. */
static qn_status combine(qn_parser *p, qn_node_kind kind, qn_operator operation, qn_node *left, qn_node *right,
                         qn_node **out)
{
    qn_node *node;
    QN_TRY(qn_parser_new(p, kind, left->offset, &node));
    node->binary.operation = operation;
    node->binary.left = left;
    node->binary.right = right;
    *out = node;
    return qn_parser_finish(p, node, (qn_node *[]){left, right}, 2);
}

static qn_status parse_unary(qn_parser *p, bool with_filters, qn_node **out)
{
    size_t offset = p->at->offset;
    bool negate = qn_parser_at(p, QN_TOKEN_SUBTRACT), plus = qn_parser_at(p, QN_TOKEN_ADD);
    if (negate || plus) {
        qn_node *operand;
        ++p->at;
        QN_TRY(qn_parser_enter(p));
        QN_TRY(parse_unary(p, false, &operand));
        qn_parser_leave(p);
        QN_TRY(qn_parser_new(p, negate ? QN_NODE_NEGATE : QN_NODE_PLUS, offset, out));
        (*out)->operand = operand;
        QN_TRY(qn_parser_finish(p, *out, &operand, 1));
    } else {
        QN_TRY(qn_parse_primary(p, false, out));
    }
    QN_TRY(qn_parse_postfix(p, out));
    return with_filters ? qn_parse_filters_and_tests(p, out) : QN_OK;
}

/* From the left, unlike in Python: 2 ** 3 ** 2 is 64. */
static qn_status parse_power(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_unary(p, true, out));
    while (qn_parser_skip(p, QN_TOKEN_POWER)) {
        qn_node *right;
        QN_TRY(parse_unary(p, true, &right));
        QN_TRY(combine(p, QN_NODE_BINARY, QN_OPERATOR_POWER, *out, right, out));
    }
    return QN_OK;
}

static qn_status parse_product(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_power(p, out));
    for (;;) {
        qn_operator operation;
        qn_node *right;
        if (qn_parser_skip(p, QN_TOKEN_MULTIPLY))
            operation = QN_OPERATOR_MULTIPLY;
        else if (qn_parser_skip(p, QN_TOKEN_DIVIDE))
            operation = QN_OPERATOR_DIVIDE;
        else if (qn_parser_skip(p, QN_TOKEN_FLOOR_DIVIDE))
            operation = QN_OPERATOR_FLOOR_DIVIDE;
        else if (qn_parser_skip(p, QN_TOKEN_MODULO))
            operation = QN_OPERATOR_MODULO;
        else
            return QN_OK;
        QN_TRY(parse_power(p, &right));
        QN_TRY(combine(p, QN_NODE_BINARY, operation, *out, right, out));
    }
}

static qn_status parse_concatenation(qn_parser *p, qn_node **out)
{
    qn_node *first, *node;
    size_t capacity = 0;
    QN_TRY(parse_product(p, &first));
    *out = first;
    if (!qn_parser_at(p, QN_TOKEN_TILDE))
        return QN_OK;
    QN_TRY(qn_parser_new(p, QN_NODE_CONCATENATE, first->offset, &node));
    QN_TRY(qn_nodes_add(p->compiler, &node->items, &capacity, first));
    while (qn_parser_skip(p, QN_TOKEN_TILDE)) {
        qn_node *next;
        QN_TRY(parse_product(p, &next));
        QN_TRY(qn_nodes_add(p->compiler, &node->items, &capacity, next));
    }
    *out = node;
    return qn_parser_finish(p, node, node->items.items, node->items.count);
}

static qn_status parse_sum(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_concatenation(p, out));
    for (;;) {
        qn_operator operation;
        qn_node *right;
        if (qn_parser_skip(p, QN_TOKEN_ADD))
            operation = QN_OPERATOR_ADD;
        else if (qn_parser_skip(p, QN_TOKEN_SUBTRACT))
            operation = QN_OPERATOR_SUBTRACT;
        else
            return QN_OK;
        QN_TRY(parse_concatenation(p, &right));
        QN_TRY(combine(p, QN_NODE_BINARY, operation, *out, right, out));
    }
}

/* Takes a comparison operator. */
static bool skip_comparison(qn_parser *p, qn_comparison *out)
{
    static const struct {
        qn_token_kind token;
        qn_comparison comparison;
    } comparisons[] = {
        {QN_TOKEN_EQUAL, QN_COMPARISON_EQUAL},     {QN_TOKEN_NOT_EQUAL, QN_COMPARISON_NOT_EQUAL},
        {QN_TOKEN_LESS, QN_COMPARISON_LESS},       {QN_TOKEN_LESS_EQUAL, QN_COMPARISON_LESS_EQUAL},
        {QN_TOKEN_GREATER, QN_COMPARISON_GREATER}, {QN_TOKEN_GREATER_EQUAL, QN_COMPARISON_GREATER_EQUAL}};
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; ++i) {
        *out = comparisons[i].comparison;
        if (qn_parser_skip(p, comparisons[i].token))
            return true;
    }
    *out = QN_COMPARISON_IN;
    if (qn_parser_skip_name(p, "in"))
        return true;
    *out = QN_COMPARISON_NOT_IN;
    if (!qn_parser_at_name(p, "not") || !qn_parser_is_name(p->at + 1, "in"))
        return false;
    p->at += 2;
    return true;
}

static qn_status parse_comparison(qn_parser *p, qn_node **out)
{
    qn_node *first, *node;
    qn_comparison comparison, *comparisons = NULL;
    size_t capacity = 0, comparison_capacity = 0;
    QN_TRY(parse_sum(p, &first));
    *out = first;
    if (!skip_comparison(p, &comparison))
        return QN_OK;
    QN_TRY(qn_parser_new(p, QN_NODE_COMPARE, first->offset, &node));
    QN_TRY(qn_nodes_add(p->compiler, &node->compare.operands, &capacity, first));
    do {
        qn_node *next;
        size_t index = node->compare.operands.count - 1;
        if (index == comparison_capacity) {
            comparison_capacity = index ? index * 2 : 2;
            qn_comparison *grown = qn_compile_alloc(p->compiler, comparison_capacity, sizeof *grown);
            if (!grown)
                return qn_compile_status(p->compiler);
            if (index > 0)
                memcpy(grown, comparisons, index * sizeof *grown);
            comparisons = grown;
        }
        comparisons[index] = comparison;
        QN_TRY(parse_sum(p, &next));
        QN_TRY(qn_nodes_add(p->compiler, &node->compare.operands, &capacity, next));
    } while (skip_comparison(p, &comparison));
    node->compare.comparisons = comparisons;
    *out = node;
    return qn_parser_finish(p, node, node->compare.operands.items, node->compare.operands.count);
}

static qn_status parse_not(qn_parser *p, qn_node **out)
{
    size_t offset = p->at->offset;
    qn_node *operand;
    if (!qn_parser_skip_name(p, "not"))
        return parse_comparison(p, out);
    QN_TRY(qn_parser_enter(p));
    QN_TRY(parse_not(p, &operand));
    qn_parser_leave(p);
    QN_TRY(qn_parser_new(p, QN_NODE_NOT, offset, out));
    (*out)->operand = operand;
    return qn_parser_finish(p, *out, &operand, 1);
}

static qn_status parse_and(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_not(p, out));
    while (qn_parser_skip_name(p, "and")) {
        qn_node *right;
        QN_TRY(parse_not(p, &right));
        QN_TRY(combine(p, QN_NODE_AND, QN_OPERATOR_ADD, *out, right, out));
    }
    return QN_OK;
}

static qn_status parse_or(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_and(p, out));
    while (qn_parser_skip_name(p, "or")) {
        qn_node *right;
        QN_TRY(parse_and(p, &right));
        QN_TRY(combine(p, QN_NODE_OR, QN_OPERATOR_ADD, *out, right, out));
    }
    return QN_OK;
}

static qn_status parse_conditional(qn_parser *p, qn_node **out)
{
    QN_TRY(parse_or(p, out));
    while (qn_parser_skip_name(p, "if")) {
        qn_node *node;
        QN_TRY(qn_parser_new(p, QN_NODE_CONDITIONAL, (*out)->offset, &node));
        node->conditional.then = *out;
        QN_TRY(parse_or(p, &node->conditional.test));
        if (qn_parser_skip_name(p, "else"))
            QN_TRY(qn_parse_expression(p, &node->conditional.otherwise));
        *out = node;
        qn_node *parts[] = {node->conditional.test, node->conditional.then, node->conditional.otherwise};
        QN_TRY(qn_parser_finish(p, node, parts, 3));
    }
    return QN_OK;
}

qn_status qn_parse_expression(qn_parser *p, qn_node **out)
{
    QN_TRY(qn_parser_enter(p));
    QN_TRY(parse_conditional(p, out));
    qn_parser_leave(p);
    return QN_OK;
}

qn_status qn_parse_condition(qn_parser *p, qn_node **out)
{
    QN_TRY(qn_parser_enter(p));
    QN_TRY(parse_or(p, out));
    qn_parser_leave(p);
    return QN_OK;
}
