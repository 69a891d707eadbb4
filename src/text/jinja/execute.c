/* Statements write into the builder that r->output names; a block that captures its text puts another one there. */
#include "text/jinja/execute.h"

#include "text/jinja/call.h"
#include "text/jinja/compare.h"
#include "text/jinja/loop.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"

qn_signal qn_take_signal(qn_render *r)
{
    qn_signal signal = r->signal;
    r->signal = QN_SIGNAL_NONE;
    return signal;
}

/* Jinja2 joins what a filter block and a call block give without turning it into text first. */
static qn_status append_joined(qn_render *r, const qn_node *node, qn_value value)
{
    if (!qn_is_string(value))
        return qn_place_error(r, node, qn_render_fail(r, "expected str instance, %s found", qn_type_name(value)));
    return qn_place_error(r, node, qn_builder_str_of(r->output, value));
}

static qn_status execute_output(qn_render *r, const qn_node *node)
{
    for (size_t i = 0; i < node->items.count; ++i) {
        const qn_node *item = node->items.items[i];
        qn_value value;
        QN_TRY(qn_evaluate(r, item, &value));
        QN_TRY(qn_place_error(r, item, qn_builder_str_of(r->output, value)));
    }
    return QN_OK;
}

qn_status qn_loop_text(qn_render *r, const qn_for *code, qn_activation *outer, qn_value iterable, int64_t depth0,
                       qn_value *out)
{
    qn_activation *held = r->activation, *activation;
    qn_builder *output = r->output, text = qn_builder_start(r);
    QN_TRY(qn_activation_new(r, outer, code->slots, &activation));
    r->activation = activation;
    r->output = &text;
    qn_status status = qn_loop_run(r, code, outer, iterable, depth0);
    r->activation = held;
    r->output = output;
    QN_TRY(status);
    return qn_builder_value(&text, out);
}

static qn_status execute_for(qn_render *r, const qn_node *node)
{
    const qn_for *code = node->loop;
    qn_value iterable, text;
    QN_TRY(qn_evaluate(r, code->iterable, &iterable));
    if (!code->recursive)
        return qn_place_error(r, node, qn_loop_run(r, code, r->activation, iterable, 0));
    QN_TRY(qn_place_error(r, node, qn_loop_text(r, code, r->activation, iterable, 0, &text)));
    return qn_builder_str_of(r->output, text);
}

static qn_status execute_if(qn_render *r, const qn_node *node)
{
    for (size_t i = 0; i < node->branch.count; ++i) {
        qn_value test;
        QN_TRY(qn_evaluate(r, node->branch.branches[i].test, &test));
        if (qn_value_truth(test))
            return qn_execute(r, &node->branch.branches[i].body);
    }
    return qn_execute(r, &node->branch.otherwise);
}

static qn_status execute_macro(qn_render *r, const qn_node *node)
{
    qn_value macro;
    QN_TRY(qn_macro_new(r, node->macro.code, &macro));
    *qn_variable_at(r, node->macro.variable) = macro;
    return QN_OK;
}

/* The called macro gets the block as its keyword `caller`. */
static qn_status execute_call_block(qn_render *r, const qn_node *node)
{
    qn_value callee, text, caller;
    qn_arguments arguments = {0};
    QN_TRY(qn_macro_new(r, node->macro.code, &caller));
    if (!node->macro.call) {
        QN_TRY(qn_call(r, caller, &arguments, &text));
        return qn_builder_str_of(r->output, text);
    }
    const qn_node *call = node->macro.call;
    QN_TRY(qn_evaluate(r, call->call.value, &callee));
    QN_TRY(qn_evaluate_arguments(r, &call->call.arguments, &arguments));
    qn_keyword *keywords = qn_render_alloc(r, arguments.keyword_count + 1, sizeof *keywords);
    qn_str *name = keywords ? qn_render_alloc(r, 1, sizeof *name) : NULL;
    if (!name)
        return qn_render_status(r);
    *name = (qn_str){.data = "caller", .bytes = 6, .length = 6};
    for (size_t i = 0; i < arguments.keyword_count; ++i) {
        if (qn_str_equal(arguments.keywords[i].name, name))
            return qn_place_error(r, call, qn_render_fail(r, "got multiple values for keyword argument 'caller'"));
        keywords[i] = arguments.keywords[i];
    }
    keywords[arguments.keyword_count++] = (qn_keyword){name, caller};
    arguments.keywords = keywords;
    QN_TRY(qn_place_error(r, call, qn_call(r, callee, &arguments, &text)));
    return append_joined(r, call, text);
}

/* The text of a block; *complete is false when `break` or `continue` left it. */
static qn_status capture(qn_render *r, const qn_nodes *body, qn_value *out, bool *complete)
{
    qn_builder *output = r->output, text = qn_builder_start(r);
    r->output = &text;
    qn_status status = qn_execute(r, body);
    r->output = output;
    QN_TRY(status);
    *complete = r->signal == QN_SIGNAL_NONE;
    return qn_builder_value(&text, out);
}

static qn_status apply_block_filter(qn_render *r, const qn_node *node, qn_value *text)
{
    if (!node->block.filter)
        return QN_OK;
    r->block_text = *text;
    return qn_evaluate(r, node->block.filter, text);
}

static qn_status execute_filter_block(qn_render *r, const qn_node *node)
{
    qn_value text;
    bool complete;
    qn_enter_scope(r, &node->block.entry);
    QN_TRY(capture(r, &node->block.body, &text, &complete));
    if (!complete)
        return QN_OK;
    QN_TRY(apply_block_filter(r, node, &text));
    QN_TRY(append_joined(r, node, text));
    qn_leave_scope(r, &node->block.entry);
    return QN_OK;
}

static qn_status execute_set_block(qn_render *r, const qn_node *node)
{
    qn_value text;
    bool complete;
    qn_enter_scope(r, &node->block.entry);
    QN_TRY(capture(r, &node->block.body, &text, &complete));
    if (!complete)
        return QN_OK;
    QN_TRY(apply_block_filter(r, node, &text));
    QN_TRY(qn_assign(r, node->block.target, text));
    qn_leave_scope(r, &node->block.entry);
    return QN_OK;
}

static qn_status execute_with(qn_render *r, const qn_node *node)
{
    qn_enter_scope(r, &node->with.entry);
    for (size_t i = 0; i < node->with.targets.count; ++i) {
        qn_value value;
        QN_TRY(qn_evaluate(r, node->with.values.items[i], &value));
        QN_TRY(qn_assign(r, node->with.targets.items[i], value));
    }
    QN_TRY(qn_execute(r, &node->with.body));
    if (r->signal == QN_SIGNAL_NONE)
        qn_leave_scope(r, &node->with.entry);
    return QN_OK;
}

static bool has_namespace(const qn_node *target)
{
    bool found = target->kind == QN_NODE_NAMESPACE_NAME;
    for (size_t i = 0; target->kind == QN_NODE_TUPLE && i < target->items.count && !found; ++i)
        found = has_namespace(target->items.items[i]);
    return found;
}

/* Jinja2 looks whether the targets are namespaces before it evaluates the value. */
static qn_status check_namespaces(qn_render *r, const qn_node *target)
{
    if (target->kind == QN_NODE_TUPLE) {
        for (size_t i = 0; i < target->items.count; ++i)
            QN_TRY(check_namespaces(r, target->items.items[i]));
        return QN_OK;
    }
    bool fine = target->kind == QN_NODE_NAME || qn_variable_at(r, target->name.variable)->kind == QN_VALUE_NAMESPACE;
    return fine ? QN_OK
                : qn_place_error(r, target, qn_render_fail(r, "cannot assign attribute on non-namespace object"));
}

static qn_status execute_set(qn_render *r, const qn_node *node)
{
    qn_value value;
    if (has_namespace(node->set.target))
        QN_TRY(check_namespaces(r, node->set.target));
    QN_TRY(qn_evaluate(r, node->set.value, &value));
    return qn_assign(r, node->set.target, value);
}

static qn_status execute_statement(qn_render *r, const qn_node *node)
{
    switch (node->kind) {
    case QN_NODE_OUTPUT:
        return execute_output(r, node);
    case QN_NODE_FOR:
        return execute_for(r, node);
    case QN_NODE_IF:
        return execute_if(r, node);
    case QN_NODE_MACRO:
        return execute_macro(r, node);
    case QN_NODE_CALL_BLOCK:
        return execute_call_block(r, node);
    case QN_NODE_FILTER_BLOCK:
        return execute_filter_block(r, node);
    case QN_NODE_WITH:
        return execute_with(r, node);
    case QN_NODE_SET:
        return execute_set(r, node);
    case QN_NODE_SET_BLOCK:
        return execute_set_block(r, node);
    default:
        r->signal = node->kind == QN_NODE_BREAK ? QN_SIGNAL_BREAK : QN_SIGNAL_CONTINUE;
        return QN_OK;
    }
}

qn_status qn_execute(qn_render *r, const qn_nodes *statements)
{
    if (statements->count == 0)
        return QN_OK;
    QN_TRY(qn_render_enter(r));
    for (size_t i = 0; i < statements->count && r->signal == QN_SIGNAL_NONE; ++i) {
        qn_status status = qn_render_work(r, 1);
        if (status == QN_OK)
            status = execute_statement(r, statements->items[i]);
        if (status != QN_OK) {
            qn_render_leave(r);
            return qn_place_error(r, statements->items[i], status);
        }
    }
    qn_render_leave(r);
    return QN_OK;
}
