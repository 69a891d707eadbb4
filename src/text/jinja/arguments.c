/* Binding is Python's: positional arguments in order, then keywords by name, each parameter at most once. */
#include "text/jinja/arguments.h"

#include "text/jinja/compare.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

static qn_status bind_keyword(qn_render *r, const qn_function *function, const qn_keyword *keyword, qn_value *bound)
{
    int bytes = (int)(keyword->name->bytes < 100 ? keyword->name->bytes : 100);
    for (size_t i = 0; !function->positional && i < QN_MAX_PARAMETERS && function->parameters[i]; ++i) {
        if (!qn_str_is(keyword->name, function->parameters[i]))
            continue;
        if (!qn_is_missing(bound[i]))
            return qn_render_fail(r, "%s: got multiple values for argument '%s'", function->name,
                                  function->parameters[i]);
        bound[i] = keyword->value;
        return QN_OK;
    }
    return qn_render_fail(r, "%s: got an unexpected keyword argument '%.*s'", function->name, bytes,
                          keyword->name->data);
}

qn_status qn_function_call(qn_render *r, const qn_function *function, qn_value self, const qn_arguments *arguments,
                           qn_value *out)
{
    if (function->raw)
        return function->raw(r, self, arguments, out);
    qn_value bound[QN_MAX_PARAMETERS];
    size_t parameters = 0;
    for (size_t i = 0; i < QN_MAX_PARAMETERS; ++i) {
        bound[i] = qn_missing();
        parameters += function->parameters[i] != NULL;
    }
    if (arguments->count > parameters)
        return qn_render_fail(r, "%s: takes at most %zu arguments, got %zu", function->name, parameters,
                              arguments->count);
    for (size_t i = 0; i < arguments->count; ++i)
        bound[i] = arguments->values[i];
    for (size_t i = 0; i < arguments->keyword_count; ++i)
        QN_TRY(bind_keyword(r, function, &arguments->keywords[i], bound));
    for (size_t i = 0; i < function->required; ++i) {
        if (qn_is_missing(bound[i]))
            return qn_render_fail(r, "%s: missing argument '%s'", function->name, function->parameters[i]);
    }
    return function->native(r, self, bound, out);
}

qn_status qn_argument_integer(qn_render *r, const char *name, qn_value given, int64_t fallback, int64_t *out)
{
    if (qn_is_missing(given)) {
        *out = fallback;
        return QN_OK;
    }
    if (given.kind == QN_VALUE_BIG_INT)
        return qn_render_fail(r, "%s: the integer is too large", name);
    if (given.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, given.undefined);
    if (!qn_is_integer(given))
        return qn_render_fail(r, "%s: '%s' object cannot be interpreted as an integer", name, qn_type_name(given));
    *out = given.kind == QN_VALUE_BOOL ? given.boolean : given.integer;
    return QN_OK;
}

qn_status qn_argument_string(qn_render *r, const char *name, qn_value given, const qn_str **out)
{
    if (given.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, given.undefined);
    if (!qn_is_string(given))
        return qn_render_fail(r, "%s: must be a string, not '%s'", name, qn_type_name(given));
    *out = given.string;
    return QN_OK;
}
