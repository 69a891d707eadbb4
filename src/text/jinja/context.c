/* Values share the strings of the JSON they come from, so that a long conversation is not copied to be rendered. */
#include "text/jinja/context.h"

#include "base/json_wide.h"
#include "text/jinja/dict.h"
#include "text/jinja/functions.h"
#include "text/jinja/iterate.h"
#include "text/jinja/number.h"

static qn_status from_array(qn_render *r, const json_t *json, qn_origin origin, qn_value *out)
{
    size_t count = json_array_size(json);
    qn_value *items = qn_render_alloc(r, count, sizeof *items);
    if (!items)
        return qn_render_status(r);
    for (size_t i = 0; i < count; ++i)
        QN_TRY(qn_value_from_json(r, json_array_get(json, i), origin, &items[i]));
    return qn_list_value(r, QN_VALUE_LIST, items, count, out);
}

static qn_status add_members(qn_render *r, const json_t *json, qn_origin origin, qn_dict *dict)
{
    json_t *object = (json_t *)(uintptr_t)json; /* jansson's iterators take no const, but only read */
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const qn_str *key;
        qn_value value;
        QN_TRY(qn_str_wrap(r, json_object_iter_key(at), json_object_iter_key_len(at), origin, &key));
        QN_TRY(qn_value_from_json(r, json_object_iter_value(at), origin, &value));
        QN_TRY(qn_dict_set(r, dict, qn_string(key), value));
    }
    return QN_OK;
}

static qn_status from_object(qn_render *r, const json_t *json, qn_origin origin, qn_value *out)
{
    qn_dict *dict;
    const char *digits = qn_json_wide_digits(json);
    if (digits)
        return qn_number_from_digits(r, digits, out);
    QN_TRY(qn_dict_new(r, json_object_size(json), &dict));
    QN_TRY(add_members(r, json, origin, dict));
    *out = qn_dictionary(dict);
    return QN_OK;
}

qn_status qn_value_from_json(qn_render *r, const json_t *json, qn_origin origin, qn_value *out)
{
    const qn_str *string;
    qn_status status;
    QN_TRY(qn_render_work(r, 1));
    switch (json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY:
        QN_TRY(qn_render_enter(r));
        status = json_is_object(json) ? from_object(r, json, origin, out) : from_array(r, json, origin, out);
        qn_render_leave(r);
        return status;
    case JSON_STRING:
        QN_TRY(qn_str_wrap(r, json_string_value(json), json_string_length(json), origin, &string));
        *out = qn_string(string);
        return QN_OK;
    case JSON_INTEGER:
        *out = qn_int(json_integer_value(json));
        return QN_OK;
    case JSON_REAL:
        *out = qn_float(json_real_value(json));
        return QN_OK;
    case JSON_TRUE:
    case JSON_FALSE:
        *out = qn_bool(json_is_true(json));
        return QN_OK;
    case JSON_NULL:
        *out = qn_none();
        return QN_OK;
    }
    return QN_OK;
}

qn_status qn_context_variables(qn_render *r, const json_t *request, const json_t *trusted, const qn_dict **out)
{
    qn_dict *variables;
    if (!qn_json_is_object(request) || (trusted && !qn_json_is_object(trusted)))
        return qn_render_fail(r, "the variables of a chat template must be a JSON object");
    QN_TRY(qn_dict_new(r, 16, &variables));
    QN_TRY(qn_functions_install(r, variables));
    if (trusted)
        QN_TRY(add_members(r, trusted, QN_ORIGIN_TEMPLATE, variables));
    QN_TRY(add_members(r, request, QN_ORIGIN_REQUEST, variables));
    *out = variables;
    return QN_OK;
}
