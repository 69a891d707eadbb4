#include "text/tokenizer_fields.h"

#include <string.h>

qn_status qn_section_check(const json_t *value, const char *what, const char *const *known, qn_error *err)
{
    if (!json_is_object(value))
        return qn_fail(err, QN_BAD_INPUT, "%s: it is %s: an object is expected", what,
                       value ? qn_json_type_name(value) : "missing");
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)value, key, field)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return qn_fail(err, QN_BAD_INPUT, "%s: the field \"%s\" is not known: quern cannot use this tokenizer",
                           what, key);
    }
    return QN_OK;
}

static qn_status wrong_type(const json_t *field, const char *what, const char *key, const char *expected, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: the field \"%s\" is %s: %s is expected", what, key,
                   field ? qn_json_type_name(field) : "missing", expected);
}

qn_status qn_section_type(const json_t *object, const char *what, const char **type, qn_error *err)
{
    const json_t *field = json_object_get(object, "type");
    if (!json_is_string(field))
        return wrong_type(field, what, "type", "a string", err);
    *type = json_string_value(field);
    return QN_OK;
}

qn_status qn_section_bool(const json_t *object, const char *what, const char *key, bool *out, qn_error *err)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_boolean(field))
        return wrong_type(field, what, key, "a boolean", err);
    *out = json_is_true(field);
    return QN_OK;
}

qn_status qn_section_bool_or(const json_t *object, const char *what, const char *key, bool otherwise, bool *out,
                             qn_error *err)
{
    *out = otherwise;
    return json_object_get(object, key) ? qn_section_bool(object, what, key, out, err) : QN_OK;
}

qn_status qn_section_string(const json_t *object, const char *what, const char *key, const json_t **out, qn_error *err)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_string(field))
        return wrong_type(field, what, key, "a string", err);
    *out = field;
    return QN_OK;
}

qn_status qn_section_array(const json_t *object, const char *what, const char *key, const json_t **out, qn_error *err)
{
    const json_t *field = json_object_get(object, key);
    if (!json_is_array(field))
        return wrong_type(field, what, key, "an array", err);
    *out = field;
    return QN_OK;
}

qn_status qn_section_unsupported(const char *what, const char *type, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: the type \"%s\" is not supported: quern cannot use this tokenizer", what,
                   type);
}
