/* What may follow a value: attributes, subscripts, calls, filters and tests. */
#include <string.h>

#include "text/jinja/parser.h"

/* Keywords must not repeat: Python refuses such a call when it compiles the template. */
static qn_status add_keyword(qn_parser *p, qn_call_arguments *arguments, size_t *capacity, size_t *names_capacity)
{
    const qn_token *token = p->at;
    qn_node *value;
    const qn_str *name;
    QN_TRY(qn_parser_token_str(p, token, &name));
    if (arguments->keyword_values.count == QN_TEMPLATE_MAX_PARAMETERS)
        return qn_parser_fail(p, "more than %d keyword arguments", QN_TEMPLATE_MAX_PARAMETERS);
    for (size_t i = 0; i < arguments->keyword_values.count; ++i) {
        if (qn_str_equal(arguments->keyword_names[i], name))
            return qn_parser_fail(p, "keyword argument repeated: %.*s", (int)name->bytes, name->data);
    }
    p->at += 2;
    QN_TRY(qn_parse_expression(p, &value));
    size_t index = arguments->keyword_values.count;
    if (index == *names_capacity) {
        *names_capacity = *names_capacity ? *names_capacity * 2 : 4;
        const qn_str **names = qn_compile_alloc(p->compiler, *names_capacity, sizeof *names);
        if (!names)
            return qn_compile_status(p->compiler);
        if (index > 0)
            memcpy(names, arguments->keyword_names, index * sizeof *names);
        arguments->keyword_names = names;
    }
    arguments->keyword_names[index] = name;
    return qn_nodes_add(p->compiler, &arguments->keyword_values, capacity, value);
}

static qn_status fail_call(qn_parser *p)
{
    return qn_parser_fail(p, "invalid syntax for function call expression");
}

static qn_status parse_argument(qn_parser *p, qn_call_arguments *arguments, size_t capacities[3])
{
    qn_node *value;
    bool rest = arguments->positional_rest != NULL, keyword_rest = arguments->keyword_rest != NULL;
    if (qn_parser_at(p, QN_TOKEN_MULTIPLY)) {
        if (rest || keyword_rest)
            return fail_call(p);
        ++p->at;
        return qn_parse_expression(p, &arguments->positional_rest);
    }
    if (qn_parser_at(p, QN_TOKEN_POWER)) {
        if (keyword_rest)
            return fail_call(p);
        ++p->at;
        return qn_parse_expression(p, &arguments->keyword_rest);
    }
    if (qn_parser_at(p, QN_TOKEN_NAME) && p->at[1].kind == QN_TOKEN_ASSIGN)
        return keyword_rest ? fail_call(p) : add_keyword(p, arguments, &capacities[1], &capacities[2]);
    if (rest || keyword_rest || arguments->keyword_values.count > 0)
        return fail_call(p);
    QN_TRY(qn_parse_expression(p, &value));
    return qn_nodes_add(p->compiler, &arguments->positional, &capacities[0], value);
}

static qn_status parse_arguments(qn_parser *p, qn_call_arguments *arguments)
{
    size_t capacities[3] = {0};
    QN_TRY(qn_parser_expect(p, QN_TOKEN_LEFT_PARENTHESIS));
    for (bool first = true; !qn_parser_at(p, QN_TOKEN_RIGHT_PARENTHESIS); first = false) {
        if (!first) {
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
            if (qn_parser_at(p, QN_TOKEN_RIGHT_PARENTHESIS))
                break;
        }
        QN_TRY(parse_argument(p, arguments, capacities));
    }
    return qn_parser_expect(p, QN_TOKEN_RIGHT_PARENTHESIS);
}

static qn_status finish_call(qn_parser *p, qn_node *node)
{
    const qn_call_arguments *arguments = &node->call.arguments;
    qn_node *parts[] = {node->call.value, arguments->positional_rest, arguments->keyword_rest};
    QN_TRY(qn_parser_finish(p, node, parts, 3));
    QN_TRY(qn_parser_finish(p, node, arguments->positional.items, arguments->positional.count));
    return qn_parser_finish(p, node, arguments->keyword_values.items, arguments->keyword_values.count);
}

static qn_status parse_call(qn_parser *p, qn_node *callee, qn_node **out)
{
    qn_node *node;
    QN_TRY(qn_parser_new(p, QN_NODE_CALL, callee->offset, &node));
    node->call.value = callee;
    QN_TRY(parse_arguments(p, &node->call.arguments));
    *out = node;
    return finish_call(p, node);
}

/* start:stop:step, of which `start` has been read if there is one; the parser is at the first colon. */
static qn_status parse_slice(qn_parser *p, qn_node *object, qn_node *start, qn_node **out)
{
    qn_node *node;
    QN_TRY(qn_parser_new(p, QN_NODE_SLICE, object->offset, &node));
    node->slice.object = object;
    node->slice.start = start;
    ++p->at;
    if (!qn_parser_at(p, QN_TOKEN_COLON) && !qn_parser_at(p, QN_TOKEN_RIGHT_BRACKET) &&
        !qn_parser_at(p, QN_TOKEN_COMMA))
        QN_TRY(qn_parse_expression(p, &node->slice.stop));
    if (qn_parser_skip(p, QN_TOKEN_COLON) && !qn_parser_at(p, QN_TOKEN_RIGHT_BRACKET) &&
        !qn_parser_at(p, QN_TOKEN_COMMA))
        QN_TRY(qn_parse_expression(p, &node->slice.step));
    if (qn_parser_at(p, QN_TOKEN_COMMA))
        return qn_parser_fail(p, "a slice among several subscripts is not supported");
    *out = node;
    return qn_parser_finish(p, node, (qn_node *[]){object, start, node->slice.stop, node->slice.step}, 4);
}

/* object[...], behind the opening bracket: several subscripts are a tuple. */
static qn_status parse_subscript(qn_parser *p, qn_node *object, qn_node **out)
{
    qn_node *keys, *node;
    size_t capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_TUPLE, p->at->offset, &keys));
    while (!qn_parser_at(p, QN_TOKEN_RIGHT_BRACKET)) {
        qn_node *key = NULL;
        if (keys->items.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        if (!qn_parser_at(p, QN_TOKEN_COLON))
            QN_TRY(qn_parse_expression(p, &key));
        if (qn_parser_at(p, QN_TOKEN_COLON)) {
            if (keys->items.count > 0)
                return qn_parser_fail(p, "a slice among several subscripts is not supported");
            QN_TRY(parse_slice(p, object, key, out));
            return qn_parser_expect(p, QN_TOKEN_RIGHT_BRACKET);
        }
        QN_TRY(qn_nodes_add(p->compiler, &keys->items, &capacity, key));
    }
    ++p->at;
    QN_TRY(qn_parser_finish(p, keys, keys->items.items, keys->items.count));
    QN_TRY(qn_parser_new(p, QN_NODE_ITEM, object->offset, &node));
    node->item.object = object;
    node->item.key = keys->items.count == 1 ? keys->items.items[0] : keys;
    *out = node;
    return qn_parser_finish(p, node, (qn_node *[]){object, node->item.key}, 2);
}

/* object.name or object.0, behind the dot. */
static qn_status parse_attribute(qn_parser *p, qn_node *object, qn_node **out)
{
    const qn_token *token = p->at;
    qn_node *node;
    if (token->kind == QN_TOKEN_INTEGER) {
        QN_TRY(qn_parser_new(p, QN_NODE_ITEM, object->offset, &node));
        node->item.object = object;
        QN_TRY(qn_parser_constant(p, token->value, token->offset, &node->item.key));
    } else if (token->kind == QN_TOKEN_NAME) {
        QN_TRY(qn_parser_new(p, QN_NODE_ATTRIBUTE, object->offset, &node));
        node->attribute.object = object;
        QN_TRY(qn_parser_token_str(p, token, &node->attribute.name));
    } else {
        return qn_parser_fail(p, "expected name or number");
    }
    ++p->at;
    *out = node;
    return qn_parser_finish(p, node, &object, 1);
}

qn_status qn_parse_postfix(qn_parser *p, qn_node **node)
{
    for (;;) {
        if (qn_parser_skip(p, QN_TOKEN_DOT))
            QN_TRY(parse_attribute(p, *node, node));
        else if (qn_parser_skip(p, QN_TOKEN_LEFT_BRACKET))
            QN_TRY(parse_subscript(p, *node, node));
        else if (qn_parser_at(p, QN_TOKEN_LEFT_PARENTHESIS))
            QN_TRY(parse_call(p, *node, node));
        else
            return QN_OK;
    }
}

/* The name of a filter or test, which may have dots in it. */
static qn_status parse_dotted_name(qn_parser *p, const qn_str **out)
{
    const qn_token *token = p->at;
    QN_TRY(qn_parser_expect(p, QN_TOKEN_NAME));
    QN_TRY(qn_parser_token_str(p, token, out));
    if (qn_parser_at(p, QN_TOKEN_DOT))
        return qn_parser_fail(p, "no filter or test has a dotted name");
    return QN_OK;
}

qn_status qn_parse_filters(qn_parser *p, qn_node *value, bool inline_first, qn_node **out)
{
    *out = value;
    while (inline_first || qn_parser_at(p, QN_TOKEN_PIPE)) {
        qn_node *node;
        p->at += !inline_first;
        inline_first = false;
        QN_TRY(qn_parser_new(p, QN_NODE_FILTER, p->at->offset, &node));
        node->call.value = *out;
        QN_TRY(parse_dotted_name(p, &node->call.name));
        if (qn_parser_at(p, QN_TOKEN_LEFT_PARENTHESIS))
            QN_TRY(parse_arguments(p, &node->call.arguments));
        QN_TRY(finish_call(p, node));
        *out = node;
    }
    return QN_OK;
}

/* Whether the token starts the one argument that a test takes without parentheses. */
static bool starts_test_argument(const qn_parser *p)
{
    switch (p->at->kind) {
    case QN_TOKEN_NAME:
        return !qn_parser_at_name(p, "else") && !qn_parser_at_name(p, "or") && !qn_parser_at_name(p, "and");
    case QN_TOKEN_STRING:
    case QN_TOKEN_INTEGER:
    case QN_TOKEN_FLOAT:
    case QN_TOKEN_LEFT_BRACKET:
    case QN_TOKEN_LEFT_BRACE:
        return true;
    default:
        return false;
    }
}

/* value is [not] NAME [arguments], behind `is`. */
static qn_status parse_test(qn_parser *p, qn_node *value, qn_node **out)
{
    qn_node *node, *argument;
    size_t capacity = 0;
    bool negated = qn_parser_skip_name(p, "not");
    QN_TRY(qn_parser_new(p, QN_NODE_TEST, p->at->offset, &node));
    node->call.value = value;
    QN_TRY(parse_dotted_name(p, &node->call.name));
    if (qn_parser_at(p, QN_TOKEN_LEFT_PARENTHESIS)) {
        QN_TRY(parse_arguments(p, &node->call.arguments));
    } else if (starts_test_argument(p)) {
        if (qn_parser_at_name(p, "is"))
            return qn_parser_fail(p, "tests with `is` cannot be chained");
        QN_TRY(qn_parser_enter(p));
        QN_TRY(qn_parse_primary(p, false, &argument));
        QN_TRY(qn_parse_postfix(p, &argument));
        qn_parser_leave(p);
        QN_TRY(qn_nodes_add(p->compiler, &node->call.arguments.positional, &capacity, argument));
    }
    QN_TRY(finish_call(p, node));
    *out = node;
    if (!negated)
        return QN_OK;
    QN_TRY(qn_parser_new(p, QN_NODE_NOT, value->offset, out));
    (*out)->operand = node;
    return qn_parser_finish(p, *out, &node, 1);
}

qn_status qn_parse_filters_and_tests(qn_parser *p, qn_node **node)
{
    for (;;) {
        if (qn_parser_at(p, QN_TOKEN_PIPE))
            QN_TRY(qn_parse_filters(p, *node, false, node));
        else if (qn_parser_skip_name(p, "is"))
            QN_TRY(parse_test(p, *node, node));
        else if (qn_parser_at(p, QN_TOKEN_LEFT_PARENTHESIS))
            QN_TRY(parse_call(p, *node, node));
        else
            return QN_OK;
    }
}
