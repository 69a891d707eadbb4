/* Names, literals, and tuples, which also are the targets of assignments. */
#include <string.h>

#include "text/jinja/parser.h"

static qn_status parse_name(qn_parser *p, bool namespaces, qn_node **out)
{
    const qn_token *token = p->at++;
    if (qn_parser_is_name(token, "true") || qn_parser_is_name(token, "True"))
        return qn_parser_constant(p, qn_bool(true), token->offset, out);
    if (qn_parser_is_name(token, "false") || qn_parser_is_name(token, "False"))
        return qn_parser_constant(p, qn_bool(false), token->offset, out);
    if (qn_parser_is_name(token, "none") || qn_parser_is_name(token, "None"))
        return qn_parser_constant(p, qn_none(), token->offset, out);
    QN_TRY(qn_parser_name(p, token, out));
    if (!namespaces || !qn_parser_skip(p, QN_TOKEN_DOT))
        return QN_OK;
    const qn_token *attribute = p->at;
    QN_TRY(qn_parser_expect(p, QN_TOKEN_NAME));
    (*out)->kind = QN_NODE_NAMESPACE_NAME;
    return qn_parser_token_str(p, attribute, &(*out)->name.attribute);
}

/* Strings side by side are one. */
static qn_status parse_strings(qn_parser *p, qn_node **out)
{
    const qn_token *first = p->at;
    size_t bytes = 0, at = 0;
    for (; qn_parser_at(p, QN_TOKEN_STRING); ++p->at)
        bytes += p->at->value.string->bytes;
    if (p->at == first + 1)
        return qn_parser_constant(p, first->value, first->offset, out);
    char *data = qn_compile_alloc(p->compiler, bytes, 1);
    if (!data)
        return qn_compile_status(p->compiler);
    for (const qn_token *token = first; token < p->at; ++token) {
        if (token->value.string->bytes > 0)
            memcpy(data + at, token->value.string->data, token->value.string->bytes);
        at += token->value.string->bytes;
    }
    const qn_str *joined = qn_compile_str(p->compiler, data, bytes);
    if (!joined)
        return qn_compile_status(p->compiler);
    return qn_parser_constant(p, qn_string(joined), first->offset, out);
}

static qn_status parse_list(qn_parser *p, qn_node **out)
{
    size_t capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_LIST, p->at->offset, out));
    QN_TRY(qn_parser_expect(p, QN_TOKEN_LEFT_BRACKET));
    while (!qn_parser_at(p, QN_TOKEN_RIGHT_BRACKET)) {
        qn_node *item;
        if ((*out)->items.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        if (qn_parser_at(p, QN_TOKEN_RIGHT_BRACKET))
            break;
        QN_TRY(qn_parse_expression(p, &item));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->items, &capacity, item));
    }
    QN_TRY(qn_parser_expect(p, QN_TOKEN_RIGHT_BRACKET));
    return qn_parser_finish(p, *out, (*out)->items.items, (*out)->items.count);
}

static qn_status parse_dict(qn_parser *p, qn_node **out)
{
    size_t key_capacity = 0, value_capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_DICT, p->at->offset, out));
    QN_TRY(qn_parser_expect(p, QN_TOKEN_LEFT_BRACE));
    while (!qn_parser_at(p, QN_TOKEN_RIGHT_BRACE)) {
        qn_node *key, *value;
        if ((*out)->dict.keys.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        if (qn_parser_at(p, QN_TOKEN_RIGHT_BRACE))
            break;
        QN_TRY(qn_parse_expression(p, &key));
        QN_TRY(qn_parser_expect(p, QN_TOKEN_COLON));
        QN_TRY(qn_parse_expression(p, &value));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->dict.keys, &key_capacity, key));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->dict.values, &value_capacity, value));
    }
    QN_TRY(qn_parser_expect(p, QN_TOKEN_RIGHT_BRACE));
    QN_TRY(qn_parser_finish(p, *out, (*out)->dict.keys.items, (*out)->dict.keys.count));
    return qn_parser_finish(p, *out, (*out)->dict.values.items, (*out)->dict.values.count);
}

static qn_status fail_unexpected(qn_parser *p)
{
    char what[80];
    qn_parser_describe(p, what, sizeof what);
    return qn_parser_fail(p, "unexpected '%s'", what);
}

qn_status qn_parse_primary(qn_parser *p, bool namespaces, qn_node **out)
{
    switch (p->at->kind) {
    case QN_TOKEN_NAME:
        return parse_name(p, namespaces, out);
    case QN_TOKEN_STRING:
        return parse_strings(p, out);
    case QN_TOKEN_INTEGER:
    case QN_TOKEN_FLOAT:
        QN_TRY(qn_parser_constant(p, p->at->value, p->at->offset, out));
        ++p->at;
        return QN_OK;
    case QN_TOKEN_LEFT_PARENTHESIS:
        ++p->at;
        QN_TRY(qn_parse_tuple(p, (qn_tuple_rules){.parentheses = true}, out));
        return qn_parser_expect(p, QN_TOKEN_RIGHT_PARENTHESIS);
    case QN_TOKEN_LEFT_BRACKET:
        return parse_list(p, out);
    case QN_TOKEN_LEFT_BRACE:
        return parse_dict(p, out);
    default:
        return fail_unexpected(p);
    }
}

static bool at_tuple_end(const qn_parser *p, qn_tuple_end end)
{
    return qn_parser_at(p, QN_TOKEN_PRINT_END) || qn_parser_at(p, QN_TOKEN_BLOCK_END) ||
           qn_parser_at(p, QN_TOKEN_RIGHT_PARENTHESIS) || (end == QN_TUPLE_END_IN && qn_parser_at_name(p, "in")) ||
           (end == QN_TUPLE_END_RECURSIVE && qn_parser_at_name(p, "recursive"));
}

static qn_status parse_tuple_item(qn_parser *p, qn_tuple_rules rules, qn_node **out)
{
    if (!rules.names_only)
        return rules.no_condition ? qn_parse_condition(p, out) : qn_parse_expression(p, out);
    QN_TRY(qn_parser_enter(p));
    QN_TRY(qn_parse_primary(p, rules.namespaces, out));
    qn_parser_leave(p);
    return QN_OK;
}

qn_status qn_parse_tuple(qn_parser *p, qn_tuple_rules rules, qn_node **out)
{
    qn_node *tuple;
    size_t capacity = 0;
    bool is_tuple = false;
    QN_TRY(qn_parser_new(p, QN_NODE_TUPLE, p->at->offset, &tuple));
    while (!at_tuple_end(p, rules.end)) {
        qn_node *item;
        QN_TRY(parse_tuple_item(p, rules, &item));
        QN_TRY(qn_nodes_add(p->compiler, &tuple->items, &capacity, item));
        if (!qn_parser_skip(p, QN_TOKEN_COMMA))
            break;
        is_tuple = true;
    }
    *out = tuple;
    if (!is_tuple && tuple->items.count == 1) {
        *out = tuple->items.items[0];
        return QN_OK;
    }
    if (!is_tuple && !rules.parentheses) {
        char what[80];
        qn_parser_describe(p, what, sizeof what);
        return qn_parser_fail(p, "expected an expression, got '%s'", what);
    }
    return qn_parser_finish(p, tuple, tuple->items.items, tuple->items.count);
}

static bool can_assign(const qn_node *node)
{
    if (node->kind == QN_NODE_NAME || node->kind == QN_NODE_NAMESPACE_NAME)
        return true;
    bool assignable = node->kind == QN_NODE_TUPLE;
    for (size_t i = 0; assignable && i < node->items.count; ++i)
        assignable = can_assign(node->items.items[i]);
    return assignable;
}

qn_status qn_parse_target(qn_parser *p, qn_tuple_rules rules, qn_node **out)
{
    size_t offset = p->at->offset;
    rules.names_only = true;
    QN_TRY(qn_parse_tuple(p, rules, out));
    return can_assign(*out) ? QN_OK
                            : qn_compile_fail(p->compiler, offset, "nothing can be assigned to this expression");
}

qn_status qn_parse_name_target(qn_parser *p, qn_node **out)
{
    const qn_token *token = p->at;
    QN_TRY(qn_parser_expect(p, QN_TOKEN_NAME));
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; ++i) {
        if (qn_parser_is_name(token, constants[i]))
            return qn_compile_fail(p->compiler, token->offset, "can't assign to '%s'", constants[i]);
    }
    return qn_parser_name(p, token, out);
}
