/* The tree is walked as it is: templates are short, and most of their time goes into text. Each node costs a step and a
 * level of depth, which bounds time and stack. */
#include "text/jinja/evaluate.h"

#include "text/jinja/access.h"
#include "text/jinja/call.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/source.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

qn_status qn_activation_new(qn_render *r, qn_activation *outer, uint32_t slots, qn_activation **out)
{
    /* Zeroed memory is MISSING values. */
    qn_activation *activation = qn_render_alloc(r, 1, sizeof *activation + slots * sizeof(qn_value));
    if (!activation)
        return qn_render_status(r);
    activation->outer = outer;
    *out = activation;
    return QN_OK;
}

qn_value *qn_variable_at(qn_render *r, qn_variable variable)
{
    qn_activation *activation = r->activation;
    for (uint32_t i = 0; i < variable.hops; ++i)
        activation = activation->outer;
    return &activation->slots[variable.slot];
}

void qn_enter_scope(qn_render *r, const qn_scope_entry *entry)
{
    for (size_t i = 0; i < entry->count; ++i) {
        const qn_load *load = &entry->loads[i];
        qn_value *slot = &r->activation->slots[load->slot];
        if (load->kind == QN_LOAD_CONTEXT)
            *slot = qn_dict_get_str(r, r->variables, load->name);
        else if (load->kind == QN_LOAD_OUTER)
            *slot = *qn_variable_at(r, load->outer);
        else if (load->kind == QN_LOAD_NOTHING)
            *slot = qn_missing();
    }
}

void qn_leave_scope(qn_render *r, const qn_scope_entry *entry)
{
    for (size_t i = 0; i < entry->count; ++i)
        r->activation->slots[entry->loads[i].slot] = qn_missing();
}

qn_status qn_place_error(qn_render *r, const qn_node *node, qn_status status)
{
    if (status == QN_OK || r->placed)
        return status;
    r->placed = true;
    qn_template_place(r->template, node->offset, r->err);
    return status;
}

static qn_status evaluate_name(qn_render *r, const qn_node *node, qn_value *out)
{
    *out = *qn_variable_at(r, node->name.variable);
    return qn_is_missing(*out) ? qn_undefined_variable(r, node->name.text, out) : QN_OK;
}

/* The values of several expressions, in the arena. */
static qn_status evaluate_all(qn_render *r, const qn_nodes *nodes, qn_value **out)
{
    *out = qn_render_alloc(r, nodes->count, sizeof **out);
    if (!*out)
        return qn_render_status(r);
    for (size_t i = 0; i < nodes->count; ++i)
        QN_TRY(qn_evaluate(r, nodes->items[i], &(*out)[i]));
    return QN_OK;
}

static qn_status evaluate_list(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value *items;
    QN_TRY(evaluate_all(r, &node->items, &items));
    return qn_list_value(r, node->kind == QN_NODE_LIST ? QN_VALUE_LIST : QN_VALUE_TUPLE, items, node->items.count, out);
}

static qn_status evaluate_dict(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_dict *dict;
    QN_TRY(qn_dict_new(r, node->dict.keys.count, &dict));
    for (size_t i = 0; i < node->dict.keys.count; ++i) {
        qn_value key, value;
        QN_TRY(qn_evaluate(r, node->dict.keys.items[i], &key));
        QN_TRY(qn_evaluate(r, node->dict.values.items[i], &value));
        QN_TRY(qn_dict_set(r, dict, key, value));
    }
    *out = qn_dictionary(dict);
    return QN_OK;
}

static qn_status evaluate_conditional(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value test;
    QN_TRY(qn_evaluate(r, node->conditional.test, &test));
    if (qn_value_truth(test))
        return qn_evaluate(r, node->conditional.then, out);
    if (node->conditional.otherwise)
        return qn_evaluate(r, node->conditional.otherwise, out);
    return qn_undefined_hint(r, "the inline if-expression evaluated to false and no else section was defined", out);
}

static qn_status evaluate_binary(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value left, right;
    QN_TRY(qn_evaluate(r, node->binary.left, &left));
    QN_TRY(qn_evaluate(r, node->binary.right, &right));
    return qn_value_operate(r, node->binary.operation, left, right, out);
}

/* `and` and `or` give one of their operands. */
static qn_status evaluate_choice(qn_render *r, const qn_node *node, qn_value *out)
{
    QN_TRY(qn_evaluate(r, node->binary.left, out));
    bool decided = qn_value_truth(*out) == (node->kind == QN_NODE_OR);
    return decided ? QN_OK : qn_evaluate(r, node->binary.right, out);
}

static qn_status compare(qn_render *r, qn_comparison comparison, qn_value left, qn_value right, bool *out)
{
    switch (comparison) {
    case QN_COMPARISON_EQUAL:
        return qn_value_equal(r, left, right, out);
    case QN_COMPARISON_NOT_EQUAL:
        QN_TRY(qn_value_equal(r, left, right, out));
        *out = !*out;
        return QN_OK;
    case QN_COMPARISON_LESS:
        return qn_value_order(r, left, right, "<", out);
    case QN_COMPARISON_LESS_EQUAL:
        return qn_value_order(r, left, right, "<=", out);
    case QN_COMPARISON_GREATER:
        return qn_value_order(r, left, right, ">", out);
    case QN_COMPARISON_GREATER_EQUAL:
        return qn_value_order(r, left, right, ">=", out);
    case QN_COMPARISON_IN:
        return qn_value_contains(r, right, left, out);
    case QN_COMPARISON_NOT_IN:
        QN_TRY(qn_value_contains(r, right, left, out));
        *out = !*out;
        return QN_OK;
    }
    return QN_OK;
}

/* a < b < c: each operand is evaluated once, and no further than the first comparison that fails. */
static qn_status evaluate_compare(qn_render *r, const qn_node *node, qn_value *out)
{
    const qn_nodes *operands = &node->compare.operands;
    qn_value left, right;
    bool holds = true;
    QN_TRY(qn_evaluate(r, operands->items[0], &left));
    for (size_t i = 1; i < operands->count && holds; ++i) {
        QN_TRY(qn_evaluate(r, operands->items[i], &right));
        QN_TRY(compare(r, node->compare.comparisons[i - 1], left, right, &holds));
        left = right;
    }
    *out = qn_bool(holds);
    return QN_OK;
}

static qn_status evaluate_concatenation(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value *parts;
    const qn_str *first;
    QN_TRY(evaluate_all(r, &node->items, &parts));
    QN_TRY(qn_value_str(r, parts[0], &first));
    qn_builder b = qn_builder_extend(r, first);
    for (size_t i = 1; i < node->items.count; ++i)
        QN_TRY(qn_builder_str_of(&b, parts[i]));
    return qn_builder_value(&b, out);
}

/* NULL is no value. */
static qn_status evaluate_optional(qn_render *r, const qn_node *node, qn_value *out)
{
    *out = qn_missing();
    return node ? qn_evaluate(r, node, out) : QN_OK;
}

static qn_status evaluate_slice(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value object, start, stop, step;
    QN_TRY(qn_evaluate(r, node->slice.object, &object));
    QN_TRY(evaluate_optional(r, node->slice.start, &start));
    QN_TRY(evaluate_optional(r, node->slice.stop, &stop));
    QN_TRY(evaluate_optional(r, node->slice.step, &step));
    return qn_get_slice(r, object, start, stop, step, out);
}

static qn_status evaluate_item(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value object, key;
    QN_TRY(qn_evaluate(r, node->item.object, &object));
    QN_TRY(qn_evaluate(r, node->item.key, &key));
    return qn_get_item(r, object, key, out);
}

static qn_status add_rest(qn_render *r, const qn_node *node, qn_list_builder *values)
{
    qn_value rest;
    const qn_list *list;
    QN_TRY(qn_evaluate(r, node, &rest));
    QN_TRY(qn_collect(r, rest, &list));
    for (size_t i = 0; i < list->count; ++i)
        QN_TRY(qn_list_add(r, values, list->items[i]));
    return QN_OK;
}

/* **rest: a dictionary with string keys, none of which was given already. */
static qn_status add_keyword_rest(qn_render *r, const qn_call_arguments *written, qn_keyword **keywords, size_t *count)
{
    qn_value rest;
    QN_TRY(qn_evaluate(r, written->keyword_rest, &rest));
    if (rest.kind != QN_VALUE_DICT)
        return qn_render_fail(r, "argument after ** must be a mapping, not %s", qn_type_name(rest));
    qn_keyword *all = qn_render_alloc(r, *count + rest.dict->count, sizeof *all);
    if (!all)
        return qn_render_status(r);
    for (size_t i = 0; i < *count; ++i)
        all[i] = (*keywords)[i];
    for (size_t i = 0; i < rest.dict->count; ++i) {
        const qn_dict_entry *entry = &rest.dict->entries[i];
        if (!qn_is_string(entry->key))
            return qn_render_fail(r, "keywords must be strings");
        QN_TRY(qn_render_work(r, *count + 1));
        for (size_t j = 0; j < *count; ++j) {
            if (qn_str_equal(all[j].name, entry->key.string))
                return qn_render_fail(r, "got multiple values for keyword argument '%.*s'", (int)all[j].name->bytes,
                                      all[j].name->data);
        }
        all[*count + i] = (qn_keyword){entry->key.string, entry->value};
    }
    *keywords = all;
    *count += rest.dict->count;
    return QN_OK;
}

qn_status qn_evaluate_arguments(qn_render *r, const qn_call_arguments *written, qn_arguments *out)
{
    qn_list_builder values = {.count = written->positional.count, .capacity = written->positional.count};
    qn_keyword *keywords = NULL;
    size_t keyword_count = written->keyword_values.count;
    if (values.count > 0)
        QN_TRY(evaluate_all(r, &written->positional, &values.items));
    if (written->positional_rest)
        QN_TRY(add_rest(r, written->positional_rest, &values));
    if (keyword_count > 0) {
        keywords = qn_render_alloc(r, keyword_count, sizeof *keywords);
        if (!keywords)
            return qn_render_status(r);
    }
    for (size_t i = 0; i < keyword_count; ++i) {
        keywords[i].name = written->keyword_names[i];
        QN_TRY(qn_evaluate(r, written->keyword_values.items[i], &keywords[i].value));
    }
    if (written->keyword_rest)
        QN_TRY(add_keyword_rest(r, written, &keywords, &keyword_count));
    *out = (qn_arguments){values.count, values.items, keyword_count, keywords};
    return QN_OK;
}

/* A filter, test or call: its value, then its arguments. */
static qn_status evaluate_call(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_value value = r->block_text;
    qn_arguments arguments;
    if (node->call.value)
        QN_TRY(qn_evaluate(r, node->call.value, &value));
    QN_TRY(qn_evaluate_arguments(r, &node->call.arguments, &arguments));
    if (node->kind == QN_NODE_CALL)
        return qn_call(r, value, &arguments, out);
    int bytes = (int)(node->call.name && node->call.name->bytes < 60 ? node->call.name->bytes : 60);
    if (node->kind == QN_NODE_FILTER) {
        if (!node->call.filter)
            return qn_render_fail(r, "no filter named '%.*s' found", bytes, node->call.name->data);
        return qn_filter_apply(r, node->call.filter, value, &arguments, out);
    }
    if (!node->call.test)
        return qn_render_fail(r, "no test named '%.*s' found", bytes, node->call.name->data);
    *out = qn_bool(false);
    return qn_test_apply(r, node->call.test, value, &arguments, &out->boolean);
}

static qn_status evaluate_node(qn_render *r, const qn_node *node, qn_value *out)
{
    switch (node->kind) {
    case QN_NODE_CONSTANT:
        *out = node->constant;
        return QN_OK;
    case QN_NODE_NAME:
        return evaluate_name(r, node, out);
    case QN_NODE_TUPLE:
    case QN_NODE_LIST:
        return evaluate_list(r, node, out);
    case QN_NODE_DICT:
        return evaluate_dict(r, node, out);
    case QN_NODE_CONDITIONAL:
        return evaluate_conditional(r, node, out);
    case QN_NODE_BINARY:
        return evaluate_binary(r, node, out);
    case QN_NODE_NEGATE:
        QN_TRY(qn_evaluate(r, node->operand, out));
        return qn_value_negate(r, *out, out);
    case QN_NODE_PLUS:
        QN_TRY(qn_evaluate(r, node->operand, out));
        return qn_value_plus(r, *out, out);
    case QN_NODE_AND:
    case QN_NODE_OR:
        return evaluate_choice(r, node, out);
    case QN_NODE_NOT:
        QN_TRY(qn_evaluate(r, node->operand, out));
        *out = qn_bool(!qn_value_truth(*out));
        return QN_OK;
    case QN_NODE_COMPARE:
        return evaluate_compare(r, node, out);
    case QN_NODE_CONCATENATE:
        return evaluate_concatenation(r, node, out);
    case QN_NODE_ATTRIBUTE:
        QN_TRY(qn_evaluate(r, node->attribute.object, out));
        return qn_get_attribute(r, *out, node->attribute.name, out);
    case QN_NODE_ITEM:
        return evaluate_item(r, node, out);
    case QN_NODE_SLICE:
        return evaluate_slice(r, node, out);
    default:
        return evaluate_call(r, node, out);
    }
}

qn_status qn_evaluate(qn_render *r, const qn_node *node, qn_value *out)
{
    qn_status status = qn_render_work(r, 1);
    if (status == QN_OK)
        status = qn_render_enter(r);
    if (status == QN_OK) {
        status = evaluate_node(r, node, out);
        qn_render_leave(r);
    }
    return qn_place_error(r, node, status);
}

static qn_status assign_tuple(qn_render *r, const qn_node *target, qn_value value)
{
    const qn_list *list;
    size_t wanted = target->items.count;
    QN_TRY(qn_collect(r, value, &list));
    if (list->count > wanted)
        return qn_render_fail(r, "too many values to unpack (expected %zu)", wanted);
    if (list->count < wanted)
        return qn_render_fail(r, "not enough values to unpack (expected %zu, got %zu)", wanted, list->count);
    for (size_t i = 0; i < wanted; ++i)
        QN_TRY(qn_assign(r, target->items.items[i], list->items[i]));
    return QN_OK;
}

qn_status qn_assign(qn_render *r, const qn_node *target, qn_value value)
{
    qn_status status;
    if (target->kind == QN_NODE_NAME) {
        *qn_variable_at(r, target->name.variable) = value;
        return QN_OK;
    }
    if (target->kind == QN_NODE_TUPLE)
        return qn_place_error(r, target, assign_tuple(r, target, value));
    qn_value names = *qn_variable_at(r, target->name.variable);
    if (names.kind != QN_VALUE_NAMESPACE)
        status = qn_render_fail(r, "cannot assign attribute on non-namespace object");
    else
        status = qn_dict_set(r, names.names, qn_string(target->name.attribute), value);
    return qn_place_error(r, target, status);
}
