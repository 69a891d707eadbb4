/* Tags and the text between them. */
#include <string.h>

#include "text/jinja/parser.h"

/* The tags that may end a block, NULL-terminated. */
typedef const char *const *end_tags;

static qn_status parse_body(qn_parser *p, end_tags ends, qn_nodes *out);

static bool at_end_tag(const qn_parser *p, end_tags ends)
{
    for (; ends && *ends; ++ends) {
        if (qn_parser_at_name(p, *ends))
            return true;
    }
    return false;
}

/* `%}` of the opening tag, and the block up to the name of the tag that ends it. */
static qn_status parse_block(qn_parser *p, end_tags ends, qn_nodes *out)
{
    size_t opened = p->at->offset;
    qn_parser_skip(p, QN_TOKEN_COLON);
    QN_TRY(qn_parser_expect(p, QN_TOKEN_BLOCK_END));
    QN_TRY(qn_parser_enter(p));
    QN_TRY(parse_body(p, ends, out));
    qn_parser_leave(p);
    if (qn_parser_at(p, QN_TOKEN_END))
        return qn_compile_fail(p->compiler, opened, "this block is not closed: '%s' is missing", ends[0]);
    return QN_OK;
}

/* The same for a block that ends with one tag only, whose name is taken too. */
static qn_status parse_whole_block(qn_parser *p, const char *end, qn_nodes *out)
{
    QN_TRY(parse_block(p, (const char *const[]){end, NULL}, out));
    ++p->at;
    return QN_OK;
}

static qn_status parse_for(qn_parser *p, qn_node **out)
{
    qn_for *loop = qn_compile_alloc(p->compiler, 1, sizeof *loop);
    if (!loop)
        return qn_compile_status(p->compiler);
    QN_TRY(qn_parser_new(p, QN_NODE_FOR, p->at++->offset, out));
    (*out)->loop = loop;
    QN_TRY(qn_parse_target(p, (qn_tuple_rules){.end = QN_TUPLE_END_IN}, &loop->target));
    if (!qn_parser_skip_name(p, "in"))
        return qn_parser_fail(p, "expected 'in' in the for loop");
    qn_tuple_rules rules = {.no_condition = true, .end = QN_TUPLE_END_RECURSIVE};
    QN_TRY(qn_parse_tuple(p, rules, &loop->iterable));
    if (qn_parser_skip_name(p, "if"))
        QN_TRY(qn_parse_expression(p, &loop->test));
    loop->recursive = qn_parser_skip_name(p, "recursive");
    QN_TRY(parse_block(p, (const char *const[]){"endfor", "else", NULL}, &loop->body));
    if (qn_parser_skip_name(p, "endfor"))
        return QN_OK;
    ++p->at;
    return parse_whole_block(p, "endfor", &loop->otherwise);
}

static qn_status add_branch(qn_parser *p, qn_node *node, size_t *capacity)
{
    qn_branch branch = {0};
    QN_TRY(qn_parse_tuple(p, (qn_tuple_rules){.no_condition = true}, &branch.test));
    QN_TRY(parse_block(p, (const char *const[]){"endif", "elif", "else", NULL}, &branch.body));
    if (node->branch.count == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 2;
        qn_branch *grown = qn_compile_alloc(p->compiler, *capacity, sizeof *grown);
        if (!grown)
            return qn_compile_status(p->compiler);
        if (node->branch.count > 0)
            memcpy(grown, node->branch.branches, node->branch.count * sizeof *grown);
        node->branch.branches = grown;
    }
    node->branch.branches[node->branch.count++] = branch;
    return QN_OK;
}

static qn_status parse_if(qn_parser *p, qn_node **out)
{
    size_t capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_IF, p->at++->offset, out));
    do
        QN_TRY(add_branch(p, *out, &capacity));
    while (qn_parser_skip_name(p, "elif"));
    if (qn_parser_skip_name(p, "else"))
        return parse_whole_block(p, "endif", &(*out)->branch.otherwise);
    ++p->at;
    return QN_OK;
}

static bool names_parameter(const qn_macro_code *code, const qn_node *name)
{
    for (size_t i = 0; i < code->parameters.count; ++i) {
        if (code->parameters.items[i]->name.symbol == name->name.symbol)
            return true;
    }
    return false;
}

/* (a, b=1) */
static qn_status parse_signature(qn_parser *p, qn_macro_code *code)
{
    size_t parameter_capacity = 0, default_capacity = 0;
    QN_TRY(qn_parser_expect(p, QN_TOKEN_LEFT_PARENTHESIS));
    while (!qn_parser_at(p, QN_TOKEN_RIGHT_PARENTHESIS)) {
        qn_node *parameter, *value;
        if (code->parameters.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        QN_TRY(qn_parse_name_target(p, &parameter));
        if (code->parameters.count == QN_TEMPLATE_MAX_PARAMETERS)
            return qn_parser_fail(p, "more than %d parameters", QN_TEMPLATE_MAX_PARAMETERS);
        if (names_parameter(code, parameter))
            return qn_parser_fail(p, "duplicate parameter '%.*s'", (int)parameter->name.text->bytes,
                                  parameter->name.text->data);
        if (qn_parser_skip(p, QN_TOKEN_ASSIGN)) {
            QN_TRY(qn_parse_expression(p, &value));
            QN_TRY(qn_nodes_add(p->compiler, &code->defaults, &default_capacity, value));
        } else if (code->defaults.count > 0) {
            return qn_parser_fail(p, "non-default argument follows default argument");
        }
        code->names_caller = code->names_caller || qn_str_is(parameter->name.text, "caller");
        QN_TRY(qn_nodes_add(p->compiler, &code->parameters, &parameter_capacity, parameter));
    }
    return qn_parser_expect(p, QN_TOKEN_RIGHT_PARENTHESIS);
}

static qn_status new_macro(qn_parser *p, qn_node_kind kind, qn_node **out)
{
    QN_TRY(qn_parser_new(p, kind, p->at++->offset, out));
    (*out)->macro.code = qn_compile_alloc(p->compiler, 1, sizeof *(*out)->macro.code);
    return (*out)->macro.code ? QN_OK : qn_compile_status(p->compiler);
}

static qn_status parse_macro(qn_parser *p, qn_node **out)
{
    qn_node *name;
    QN_TRY(new_macro(p, QN_NODE_MACRO, out));
    QN_TRY(qn_parse_name_target(p, &name));
    (*out)->macro.symbol = name->name.symbol;
    (*out)->macro.code->name = name->name.text;
    QN_TRY(parse_signature(p, (*out)->macro.code));
    return parse_whole_block(p, "endmacro", &(*out)->macro.code->body);
}

static qn_status parse_call_block(qn_parser *p, qn_node **out)
{
    QN_TRY(new_macro(p, QN_NODE_CALL_BLOCK, out));
    if (qn_parser_at(p, QN_TOKEN_LEFT_PARENTHESIS))
        QN_TRY(parse_signature(p, (*out)->macro.code));
    QN_TRY(qn_parse_expression(p, &(*out)->macro.call));
    if ((*out)->macro.call->kind != QN_NODE_CALL)
        return qn_compile_fail(p->compiler, (*out)->offset, "expected call");
    return parse_whole_block(p, "endcall", &(*out)->macro.code->body);
}

/* {% generation %}, which marks what the model is trained on, renders as its body. */
static qn_status parse_generation(qn_parser *p, qn_node **out)
{
    QN_TRY(new_macro(p, QN_NODE_CALL_BLOCK, out));
    return parse_whole_block(p, "endgeneration", &(*out)->macro.code->body);
}

static qn_status parse_filter_block(qn_parser *p, qn_node **out)
{
    QN_TRY(qn_parser_new(p, QN_NODE_FILTER_BLOCK, p->at++->offset, out));
    QN_TRY(qn_parse_filters(p, NULL, true, &(*out)->block.filter));
    return parse_whole_block(p, "endfilter", &(*out)->block.body);
}

static qn_status parse_set(qn_parser *p, qn_node **out)
{
    qn_node *target, *filter;
    size_t offset = p->at++->offset;
    QN_TRY(qn_parse_target(p, (qn_tuple_rules){.namespaces = true}, &target));
    if (qn_parser_skip(p, QN_TOKEN_ASSIGN)) {
        QN_TRY(qn_parser_new(p, QN_NODE_SET, offset, out));
        (*out)->set.target = target;
        return qn_parse_tuple(p, (qn_tuple_rules){0}, &(*out)->set.value);
    }
    QN_TRY(qn_parse_filters(p, NULL, false, &filter));
    QN_TRY(qn_parser_new(p, QN_NODE_SET_BLOCK, offset, out));
    (*out)->block.target = target;
    (*out)->block.filter = filter;
    return parse_whole_block(p, "endset", &(*out)->block.body);
}

static qn_status parse_with(qn_parser *p, qn_node **out)
{
    size_t target_capacity = 0, value_capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_WITH, p->at++->offset, out));
    while (!qn_parser_at(p, QN_TOKEN_BLOCK_END)) {
        qn_node *target, *value;
        if ((*out)->with.targets.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        QN_TRY(qn_parse_target(p, (qn_tuple_rules){0}, &target));
        QN_TRY(qn_parser_expect(p, QN_TOKEN_ASSIGN));
        QN_TRY(qn_parse_expression(p, &value));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->with.targets, &target_capacity, target));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->with.values, &value_capacity, value));
    }
    return parse_whole_block(p, "endwith", &(*out)->with.body);
}

/* {% print a, b %} */
static qn_status parse_print(qn_parser *p, qn_node **out)
{
    size_t capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_OUTPUT, p->at++->offset, out));
    while (!qn_parser_at(p, QN_TOKEN_BLOCK_END)) {
        qn_node *value;
        if ((*out)->items.count > 0)
            QN_TRY(qn_parser_expect(p, QN_TOKEN_COMMA));
        QN_TRY(qn_parse_expression(p, &value));
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->items, &capacity, value));
    }
    return QN_OK;
}

static qn_status parse_loop_control(qn_parser *p, qn_node **out)
{
    qn_node_kind kind = qn_parser_at_name(p, "break") ? QN_NODE_BREAK : QN_NODE_CONTINUE;
    return qn_parser_new(p, kind, p->at++->offset, out);
}

static qn_status fail_tag(qn_parser *p, end_tags ends)
{
    static const char *const unsupported[] = {"autoescape", "block", "extends", "from", "import", "include"};
    for (size_t i = 0; i < sizeof unsupported / sizeof unsupported[0]; ++i) {
        if (qn_parser_at_name(p, unsupported[i]))
            return qn_parser_fail(p, "the tag '%s' is not supported", unsupported[i]);
    }
    int bytes = (int)(p->at->bytes < 60 ? p->at->bytes : 60);
    if (ends && ends[0])
        return qn_parser_fail(p, "unknown tag '%.*s' (while looking for '%s')", bytes, p->at->text, ends[0]);
    return qn_parser_fail(p, "unknown tag '%.*s'", bytes, p->at->text);
}

static qn_status parse_statement(qn_parser *p, end_tags ends, qn_node **out)
{
    static const struct {
        const char *name;
        qn_status (*parse)(qn_parser *p, qn_node **out);
    } tags[] = {{"for", parse_for},
                {"if", parse_if},
                {"set", parse_set},
                {"macro", parse_macro},
                {"call", parse_call_block},
                {"filter", parse_filter_block},
                {"with", parse_with},
                {"print", parse_print},
                {"break", parse_loop_control},
                {"continue", parse_loop_control},
                {"generation", parse_generation}};
    if (!qn_parser_at(p, QN_TOKEN_NAME))
        return qn_parser_fail(p, "tag name expected");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; ++i) {
        if (qn_parser_at_name(p, tags[i].name))
            return tags[i].parse(p, out);
    }
    return fail_tag(p, ends);
}

/* Text and print statements side by side are one OUTPUT. */
static qn_status parse_output(qn_parser *p, qn_node **out)
{
    size_t capacity = 0;
    QN_TRY(qn_parser_new(p, QN_NODE_OUTPUT, p->at->offset, out));
    for (;;) {
        qn_node *item;
        if (qn_parser_at(p, QN_TOKEN_DATA)) {
            const qn_str *text;
            QN_TRY(qn_parser_token_str(p, p->at, &text));
            QN_TRY(qn_parser_constant(p, qn_string(text), p->at++->offset, &item));
        } else if (qn_parser_skip(p, QN_TOKEN_PRINT_BEGIN)) {
            QN_TRY(qn_parse_tuple(p, (qn_tuple_rules){0}, &item));
            QN_TRY(qn_parser_expect(p, QN_TOKEN_PRINT_END));
        } else {
            return QN_OK;
        }
        QN_TRY(qn_nodes_add(p->compiler, &(*out)->items, &capacity, item));
    }
}

/* Up to the end of the template, or to the name of an end tag, at which the parser then stands. */
static qn_status parse_body(qn_parser *p, end_tags ends, qn_nodes *out)
{
    size_t capacity = 0;
    while (!qn_parser_at(p, QN_TOKEN_END)) {
        qn_node *node;
        if (!qn_parser_skip(p, QN_TOKEN_BLOCK_BEGIN)) {
            QN_TRY(parse_output(p, &node));
        } else {
            if (at_end_tag(p, ends))
                return QN_OK;
            QN_TRY(parse_statement(p, ends, &node));
            QN_TRY(qn_parser_expect(p, QN_TOKEN_BLOCK_END));
        }
        QN_TRY(qn_nodes_add(p->compiler, out, &capacity, node));
    }
    return QN_OK;
}

qn_status qn_parse(qn_compiler *c, qn_nodes *out)
{
    qn_parser p = {.compiler = c};
    QN_TRY(qn_lex(c, &p.at));
    return parse_body(&p, NULL, out);
}
