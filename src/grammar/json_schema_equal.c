/* The type of a value, and when two values are the same one: 2 and 2.0 are, and so are objects whatever the order. */
#include <string.h>

#include "grammar/json_schema_compiler.h"

unsigned schema_value_type(const json_t *value)
{
    qn_decimal d;
    if (json_is_null(value))
        return TYPE_NULL;
    if (json_is_boolean(value))
        return TYPE_BOOLEAN;
    if (json_is_string(value))
        return TYPE_STRING;
    if (json_is_array(value))
        return TYPE_ARRAY;
    if (!qn_decimal_of(value, &d))
        return json_is_object(value) ? TYPE_OBJECT : TYPE_FRACTION;
    return qn_decimal_is_integer(&d) ? TYPE_INTEGER : TYPE_FRACTION;
}

static bool objects_equal(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    size_t length;
    if (json_object_size(a) != json_object_size(b))
        return false;
    json_object_keylen_foreach((json_t *)a, key, length, value)
    {
        const json_t *other = json_object_getn(b, key, length);
        if (!other || !schema_values_equal(value, other))
            return false;
    }
    return true;
}

bool schema_values_equal(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_string(a) != json_is_string(b))
        return false;
    unsigned type = schema_value_type(a);
    if (type != schema_value_type(b))
        return false;
    if (type == TYPE_NULL)
        return true;
    if (type == TYPE_BOOLEAN)
        return json_is_true(a) == json_is_true(b);
    if (type == TYPE_STRING)
        return json_string_length(a) == json_string_length(b) &&
               memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
    if (type == TYPE_OBJECT)
        return objects_equal(a, b);
    if (type != TYPE_ARRAY) {
        qn_decimal x, y;
        return qn_decimal_of(a, &x) && qn_decimal_of(b, &y) && qn_decimal_compare(&x, &y) == 0;
    }
    bool equal = json_array_size(a) == json_array_size(b);
    for (size_t i = 0; equal && i < json_array_size(a); i++)
        equal = schema_values_equal(json_array_get(a, i), json_array_get(b, i));
    return equal;
}

bool schema_is_excluded(const shape *s, const json_t *value)
{
    bool excluded = false;
    for (const keyword_use *use = s->excluded; use && !excluded; use = use->next)
        excluded = schema_values_equal(use->value, value);
    return excluded;
}

/* Tells two lists of scalars apart: those that schemas have under enum or const. */
static bool scalars_differ(const json_t *a, const json_t *b)
{
    const json_t *lists[] = {json_object_get(a, "enum"), json_object_get(b, "enum")};
    const json_t *single[] = {json_object_get(a, "const"), json_object_get(b, "const")};
    size_t counts[2];
    enum { FEW = 8 };
    for (int i = 0; i < 2; i++) {
        counts[i] = single[i] ? 1 : json_array_size(lists[i]);
        if (counts[i] == 0 || counts[i] > FEW)
            return false;
    }
    for (size_t i = 0; i < counts[0]; i++)
        for (size_t k = 0; k < counts[1]; k++) {
            const json_t *x = single[0] ? single[0] : json_array_get(lists[0], i);
            const json_t *y = single[1] ? single[1] : json_array_get(lists[1], k);
            if (!(json_is_string(x) || json_is_integer(x)) || !(json_is_string(y) || json_is_integer(y)) ||
                schema_values_equal(x, y))
                return false;
        }
    return true;
}

static bool requires(const json_t *schema, const char *name)
{
    const json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        const char *one = json_string_value(json_array_get(required, i));
        if (one && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

bool schema_lists_differ(const json_t *a, const json_t *b)
{
    const char *type = json_string_value(json_object_get(a, "type")), *name;
    const json_t *others = json_object_get(b, "properties");
    json_t *member;
    if (scalars_differ(a, b))
        return true;
    if (!type || strcmp(type, "object") != 0)
        return false;
    json_object_foreach(json_object_get(a, "properties"), name, member)
    {
        const json_t *other = json_object_get(others, name);
        if (other && scalars_differ(member, other) && requires(a, name) && requires(b, name))
            return true;
    }
    return false;
}
