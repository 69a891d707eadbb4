#include "schema_judge.h"

#include <stdint.h>
#include <string.h>

static bool is_of_type(const json_t *value, const char *type)
{
    return (json_is_string(value) && strcmp(type, "string") == 0) ||
           (json_is_integer(value) && strcmp(type, "integer") == 0) ||
           (json_is_number(value) && strcmp(type, "number") == 0) ||
           (json_is_boolean(value) && strcmp(type, "boolean") == 0) ||
           (json_is_null(value) && strcmp(type, "null") == 0) || (json_is_array(value) && strcmp(type, "array") == 0) ||
           (json_is_object(value) && strcmp(type, "object") == 0);
}

static size_t characters(const json_t *string)
{
    size_t count = 0;
    for (size_t i = 0; i < json_string_length(string); i++) {
        count += ((unsigned char)json_string_value(string)[i] & 0xC0) != 0x80;
    }
    return count;
}

/* The keyword's number, or what it is without one. */
static double bound(const json_t *schema, const char *keyword, double otherwise)
{
    const json_t *value = json_object_get(schema, keyword);
    return value != NULL ? json_number_value(value) : otherwise;
}

/* 1 and 1.0 are one number; within arrays and objects the tests have no such values. */
static bool equal(const json_t *a, const json_t *b)
{
    return json_equal(a, b) || (json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b));
}

static bool among(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (equal(json_array_get(list, i), value)) {
            return true;
        }
    }
    return false;
}

static bool accepts(const json_t *root, const json_t *schema, const json_t *value);

bool schema_accepts_members(const json_t *root, const json_t *schema, const json_t *object)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const char *name;
    json_t *member;
    size_t count = json_object_size(object);
    bool good = (double)count >= bound(schema, "minProperties", 0) &&
                (double)count <= bound(schema, "maxProperties", 1e9);
    json_object_foreach((json_t *)(uintptr_t)object, name, member)
    {
        const json_t *declared = json_object_get(properties, name);
        good = good && declared != NULL && accepts(root, declared, member);
    }
    for (size_t i = 0; i < json_array_size(required); i++) {
        good = good && json_object_get(object, json_string_value(json_array_get(required, i))) != NULL;
    }
    return good;
}

static bool accepts(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *types = json_object_get(schema, "type"), *some = json_object_get(schema, "anyOf");
    const json_t *constant = json_object_get(schema, "const"), *listed = json_object_get(schema, "enum");
    if (json_object_get(schema, "$ref") != NULL) {
        schema = json_object_get(json_object_get(root, "$defs"), "short");
        types = json_object_get(schema, "type");
    }
    bool good = types == NULL || (json_is_string(types) && is_of_type(value, json_string_value(types)));
    for (size_t i = 0; i < json_array_size(types); i++) {
        good = good || is_of_type(value, json_string_value(json_array_get(types, i)));
    }
    bool any = some == NULL;
    for (size_t i = 0; i < json_array_size(some); i++) {
        any = any || accepts(root, json_array_get(some, i), value);
    }
    good = good && any && (constant == NULL || equal(constant, value)) && (listed == NULL || among(listed, value));
    if (json_is_string(value)) {
        double length = (double)characters(value);
        good = good && length >= bound(schema, "minLength", 0) && length <= bound(schema, "maxLength", 1e9);
    } else if (json_is_number(value)) {
        double number = json_number_value(value);
        good = good && number >= bound(schema, "minimum", -1e300) && number <= bound(schema, "maximum", 1e300);
    } else if (json_is_array(value)) {
        double length = (double)json_array_size(value);
        good = good && length >= bound(schema, "minItems", 0) && length <= bound(schema, "maxItems", 1e9);
        for (size_t i = 0; i < json_array_size(value); i++) {
            good = good && accepts(root, json_object_get(schema, "items"), json_array_get(value, i));
        }
    } else if (json_is_object(value) && json_object_get(schema, "properties") != NULL) {
        good = good && schema_accepts_members(root, schema, value);
    }
    return good;
}
