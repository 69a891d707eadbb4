/* Macros take arguments by rules of their own (Macro.__call__ in Jinja2's runtime), everything else by Python's. */
#include "text/jinja/call.h"

#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/execute.h"
#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

qn_status qn_macro_new(qn_render *r, const qn_macro_code *code, qn_value *out)
{
    qn_macro *macro = qn_render_alloc(r, 1, sizeof *macro);
    if (!macro)
        return qn_render_status(r);
    macro->name = code->name;
    macro->code = code;
    macro->closure = r->activation;
    *out = (qn_value){.kind = QN_VALUE_MACRO, .macro = macro};
    return QN_OK;
}

qn_status qn_macro_attribute(qn_render *r, const qn_macro *macro, const qn_str *name, qn_value *out)
{
    const qn_macro_code *code = macro->code;
    if (qn_str_is(name, "name")) {
        *out = macro->name ? qn_string(macro->name) : qn_none();
    } else if (qn_str_is(name, "arguments")) {
        qn_list_builder names = {0};
        for (size_t i = 0; i < code->parameters.count; ++i)
            QN_TRY(qn_list_add(r, &names, qn_string(code->parameters.items[i]->name.text)));
        return qn_list_value(r, QN_VALUE_TUPLE, names.items, names.count, out);
    } else if (qn_str_is(name, "catch_kwargs")) {
        *out = qn_bool(code->takes_keywords);
    } else if (qn_str_is(name, "catch_varargs")) {
        *out = qn_bool(code->takes_rest);
    } else if (qn_str_is(name, "caller")) {
        *out = qn_bool(code->takes_caller);
    } else if (qn_str_is(name, "explicit_caller")) {
        *out = qn_bool(code->names_caller);
    }
    return QN_OK;
}

/* Keywords that no parameter has taken yet, by name. */
typedef struct leftovers {
    const qn_arguments *arguments;
    bool *taken; /* one for each keyword */
    size_t left;
} leftovers;

/* MISSING when it was not given. */
static qn_value take_keyword(leftovers *l, const qn_str *name)
{
    for (size_t i = 0; i < l->arguments->keyword_count; ++i) {
        if (l->taken[i] || !qn_str_equal(l->arguments->keywords[i].name, name))
            continue;
        l->taken[i] = true;
        --l->left;
        return l->arguments->keywords[i].value;
    }
    return qn_missing();
}

static qn_status take_caller(qn_render *r, leftovers *l, qn_value *out)
{
    const qn_str caller = {.data = "caller", .bytes = 6, .length = 6};
    *out = take_keyword(l, &caller);
    if (qn_is_missing(*out) || out->kind == QN_VALUE_NONE)
        return qn_undefined_hint(r, "No caller defined", out);
    return QN_OK;
}

static qn_status keywords_left(qn_render *r, leftovers *l, qn_value *out)
{
    qn_dict *dict;
    QN_TRY(qn_dict_new(r, l->left, &dict));
    for (size_t i = 0; i < l->arguments->keyword_count; ++i) {
        const qn_keyword *keyword = &l->arguments->keywords[i];
        if (!l->taken[i])
            QN_TRY(qn_dict_set(r, dict, qn_string(keyword->name), keyword->value));
    }
    *out = qn_dictionary(dict);
    return QN_OK;
}

static qn_status fail_keyword(qn_render *r, const qn_macro *macro, const leftovers *l)
{
    size_t i = 0;
    while (l->taken[i])
        ++i;
    const qn_str *name = l->arguments->keywords[i].name;
    return qn_render_fail(r, "macro '%.*s' takes no keyword argument '%.*s'", macro->name ? (int)macro->name->bytes : 0,
                          macro->name ? macro->name->data : "", (int)(name->bytes < 100 ? name->bytes : 100),
                          name->data);
}

/* Puts the arguments into the slots of the macro's activation; see Macro.__call__ in Jinja2's runtime. */
static qn_status bind(qn_render *r, const qn_macro *macro, const qn_arguments *arguments, qn_value *slots)
{
    const qn_macro_code *code = macro->code;
    size_t parameters = code->parameters.count, given = arguments->count < parameters ? arguments->count : parameters;
    leftovers l = {.arguments = arguments, .left = arguments->keyword_count};
    bool found_caller = given == parameters && code->names_caller;
    if (arguments->keyword_count > 0) {
        l.taken = qn_render_alloc(r, arguments->keyword_count, sizeof *l.taken);
        if (!l.taken)
            return qn_render_status(r);
    }
    QN_TRY(qn_render_work(r, 1 + parameters * (1 + arguments->keyword_count / 8)));
    for (size_t i = 0; i < parameters; ++i) {
        const qn_node *parameter = code->parameters.items[i];
        slots[parameter->name.variable.slot] = i < given ? arguments->values[i]
                                                         : take_keyword(&l, parameter->name.text);
        found_caller = found_caller || (i >= given && qn_str_is(parameter->name.text, "caller"));
    }
    if (code->takes_caller && !found_caller)
        QN_TRY(take_caller(r, &l, &slots[code->caller_slot]));
    if (code->takes_keywords)
        QN_TRY(keywords_left(r, &l, &slots[code->keywords_slot]));
    else if (l.left > 0)
        return fail_keyword(r, macro, &l);
    if (code->takes_rest) {
        const qn_value *rest = given < arguments->count ? arguments->values + given : NULL;
        return qn_list_value(r, QN_VALUE_TUPLE, rest, arguments->count - given, &slots[code->rest_slot]);
    }
    if (arguments->count > parameters)
        return qn_render_fail(r, "macro '%.*s' takes not more than %zu argument(s)",
                              macro->name ? (int)macro->name->bytes : 0, macro->name ? macro->name->data : "",
                              parameters);
    return QN_OK;
}

/* Parameters that were not given take their defaults, which may read those before them. */
static qn_status set_defaults(qn_render *r, const qn_macro_code *code)
{
    size_t required = code->parameters.count - code->defaults.count;
    for (size_t i = 0; i < code->parameters.count; ++i) {
        const qn_node *parameter = code->parameters.items[i];
        qn_value *slot = qn_variable_at(r, parameter->name.variable);
        if (!qn_is_missing(*slot) || i < required) /* reading an unset one makes it undefined */
            continue;
        qn_value value;
        QN_TRY(qn_evaluate(r, code->defaults.items[i - required], &value));
        *slot = value;
    }
    return QN_OK;
}

static qn_status run_macro(qn_render *r, const qn_macro_code *code, qn_value *out)
{
    qn_builder output = qn_builder_start(r);
    r->output = &output;
    qn_enter_scope(r, &code->entry);
    QN_TRY(set_defaults(r, code));
    QN_TRY(qn_execute(r, &code->body));
    return qn_builder_value(&output, out);
}

static qn_status call_macro(qn_render *r, const qn_macro *macro, const qn_arguments *arguments, qn_value *out)
{
    qn_activation *held = r->activation, *activation;
    qn_builder *output = r->output;
    QN_TRY(qn_activation_new(r, macro->closure, macro->code->slots, &activation));
    QN_TRY(bind(r, macro, arguments, activation->slots));
    r->activation = activation;
    qn_status status = run_macro(r, macro->code, out);
    r->activation = held;
    r->output = output;
    return status;
}

static qn_status call_joiner(qn_render *r, qn_joiner *joiner, const qn_arguments *arguments, qn_value *out)
{
    if (arguments->count + arguments->keyword_count > 0)
        return qn_render_fail(r, "a joiner takes no arguments");
    if (!joiner->used) {
        joiner->used = true;
        return qn_str_literal(r, "", out);
    }
    *out = joiner->separator;
    return QN_OK;
}

qn_status qn_call(qn_render *r, qn_value callee, const qn_arguments *arguments, qn_value *out)
{
    switch (callee.kind) {
    case QN_VALUE_MACRO:
        return call_macro(r, callee.macro, arguments, out);
    case QN_VALUE_FUNCTION:
        return qn_function_call(r, callee.function, qn_none(), arguments, out);
    case QN_VALUE_METHOD:
        if (qn_is_string(callee.method->self) && callee.method->self.string->markup)
            return qn_render_fail(r, "methods of the results of `safe` and `escape` are not supported");
        return qn_function_call(r, callee.method->function, callee.method->self, arguments, out);
    case QN_VALUE_LOOP:
        return qn_loop_call(r, callee.loop, arguments, out);
    case QN_VALUE_JOINER:
        return call_joiner(r, callee.joiner, arguments, out);
    case QN_VALUE_UNDEFINED:
        return qn_undefined_fail(r, callee.undefined);
    default:
        return qn_render_fail(r, "'%s' object is not callable", qn_type_name(callee));
    }
}
