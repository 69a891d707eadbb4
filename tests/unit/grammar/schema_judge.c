#include "unit/grammar/schema_judge.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

const char *const judge_patterns[JUDGE_PATTERNS] = {"^a", "b$", "^[a-c]*$", "a[^x]c", "^.{2,3}$"};

static size_t characters(const char *text, size_t bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* A line terminator: what "." does not match. */
static bool has_terminator(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\n' || text[i] == '\r' || (i + 2 < bytes && memcmp(text + i, "\xE2\x80\xA8", 3) == 0) ||
            (i + 2 < bytes && memcmp(text + i, "\xE2\x80\xA9", 3) == 0))
            return true;
    return false;
}

static bool a_other_c(const char *text, size_t bytes)
{
    for (size_t i = 0; i + 2 < bytes; i++) {
        size_t end = i + 2;
        while (end < bytes && ((unsigned char)text[end] & 0xC0) == 0x80)
            end++;
        if (text[i] == 'a' && text[i + 1] != 'x' && end < bytes && text[end] == 'c')
            return true;
    }
    return false;
}

static bool pattern_matches(const char *pattern, const char *text, size_t bytes)
{
    size_t length = characters(text, bytes);
    if (strcmp(pattern, judge_patterns[0]) == 0)
        return bytes > 0 && text[0] == 'a';
    if (strcmp(pattern, judge_patterns[1]) == 0)
        return bytes > 0 && text[bytes - 1] == 'b';
    if (strcmp(pattern, judge_patterns[2]) == 0) {
        for (size_t i = 0; i < bytes; i++)
            if (text[i] < 'a' || text[i] > 'c')
                return false;
        return true;
    }
    if (strcmp(pattern, judge_patterns[3]) == 0)
        return a_other_c(text, bytes);
    return (length == 2 || length == 3) && !has_terminator(text, bytes);
}

static bool is_whole(const json_t *value)
{
    return json_is_integer(value) || (json_is_real(value) && floor(json_real_value(value)) == json_real_value(value));
}

static bool is_of_type(const json_t *value, const char *type)
{
    return strcmp(type, "null") == 0      ? json_is_null(value)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(value)
           : strcmp(type, "string") == 0  ? json_is_string(value)
           : strcmp(type, "array") == 0   ? json_is_array(value)
           : strcmp(type, "object") == 0  ? json_is_object(value)
           : strcmp(type, "number") == 0  ? json_is_number(value)
                                          : is_whole(value);
}

static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) || json_is_number(b))
        return json_is_number(a) && json_is_number(b) && json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        bool equal = json_array_size(a) == json_array_size(b);
        for (size_t i = 0; equal && i < json_array_size(a); i++)
            equal = same(json_array_get(a, i), json_array_get(b, i));
        return equal;
    }
    if (json_is_object(a)) {
        const char *key;
        json_t *member;
        bool equal = json_object_size(a) == json_object_size(b);
        json_object_foreach((json_t *)(uintptr_t)a, key, member)
            equal = equal && json_object_get(b, key) && same(member, json_object_get(b, key));
        return equal;
    }
    return json_equal(a, b);
}

static bool is_listed(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (same(json_array_get(list, i), value))
            return true;
    return false;
}

static bool judge_number(const json_t *schema, const json_t *value)
{
    static const char *const bounds[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};
    double x = json_number_value(value);
    const json_t *of = json_object_get(schema, "multipleOf");
    for (size_t i = 0; i < 4; i++) {
        const json_t *bound = json_object_get(schema, bounds[i]);
        double y = json_number_value(bound);
        if (bound && !(i == 0 ? x >= y : i == 1 ? x <= y : i == 2 ? x > y : x < y))
            return false;
    }
    return !of || fmod(x * 100, json_number_value(of) * 100) == 0; /* divisors are quarters: exact in binary */
}

static bool judge_string(const json_t *schema, const json_t *value)
{
    const char *text = json_string_value(value), *pattern = json_string_value(json_object_get(schema, "pattern"));
    size_t bytes = json_string_length(value), length = characters(text, bytes);
    const json_t *min = json_object_get(schema, "minLength"), *max = json_object_get(schema, "maxLength");
    return !(min && length < (size_t)json_integer_value(min)) && !(max && length > (size_t)json_integer_value(max)) &&
           (!pattern || pattern_matches(pattern, text, bytes));
}

static bool judge_count(const json_t *schema, const char *least, const char *most, size_t count)
{
    const json_t *min = json_object_get(schema, least), *max = json_object_get(schema, most);
    return !(min && count < (size_t)json_integer_value(min)) && !(max && count > (size_t)json_integer_value(max));
}

static bool judge_contains(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *kind = json_object_get(schema, "contains"), *min = json_object_get(schema, "minContains"),
                 *max = json_object_get(schema, "maxContains");
    size_t found = 0;
    for (size_t i = 0; i < json_array_size(value); i++)
        found += schema_judge(root, kind, json_array_get(value, i));
    return found >= (min ? (size_t)json_integer_value(min) : 1) && !(max && found > (size_t)json_integer_value(max));
}

static bool judge_array(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    bool valid = judge_count(schema, "minItems", "maxItems", json_array_size(value));
    for (size_t i = 0; i < json_array_size(value) && valid; i++) {
        const json_t *element = json_array_get(value, i);
        const json_t *held = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        valid = !held || schema_judge(root, held, element);
        for (size_t k = 0; json_is_true(json_object_get(schema, "uniqueItems")) && k < i && valid; k++)
            valid = !same(json_array_get(value, k), element);
    }
    return valid && (!json_object_get(schema, "contains") || judge_contains(root, schema, value));
}

static bool evaluates(const json_t *root, const json_t *schema, const json_t *value, const char *name, bool deep);

/* Whether a schema that applies to the same value, and matches, evaluates the member. */
static bool others_evaluate(const json_t *root, const json_t *schema, const json_t *value, const char *name)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    const char *reference = json_string_value(json_object_get(schema, "$ref")), *key;
    const json_t *condition = json_object_get(schema, "if");
    json_t *part;
    bool found = reference &&
                 evaluates(root, json_object_get(json_object_get(root, "$defs"), reference + strlen("#/$defs/")), value,
                           name, true);
    for (size_t i = 0; i < 3; i++) {
        const json_t *list = json_object_get(schema, lists[i]);
        for (size_t k = 0; k < json_array_size(list) && !found; k++)
            found = evaluates(root, json_array_get(list, k), value, name, true);
    }
    if (condition && !found) {
        bool holds = schema_judge(root, condition, value);
        found = (holds && evaluates(root, condition, value, name, true)) ||
                evaluates(root, json_object_get(schema, holds ? "then" : "else"), value, name, true);
    }
    json_object_foreach(json_object_get(schema, "dependentSchemas"), key, part)
        found = found || (json_object_get(value, key) && evaluates(root, part, value, name, true));
    return found;
}

static bool evaluates(const json_t *root, const json_t *schema, const json_t *value, const char *name, bool deep)
{
    const char *pattern;
    json_t *part;
    if (!json_is_object(schema) || (deep && !schema_judge(root, schema, value)))
        return false;
    bool found = json_object_get(json_object_get(schema, "properties"), name) ||
                 json_object_get(schema, "additionalProperties") ||
                 (deep && json_object_get(schema, "unevaluatedProperties"));
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, part)
        found = found || pattern_matches(pattern, name, strlen(name));
    return found || others_evaluate(root, schema, value, name);
}

static bool judge_unevaluated(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *rest = json_object_get(schema, "unevaluatedProperties");
    const char *name;
    json_t *member;
    bool valid = true;
    json_object_foreach((json_t *)(uintptr_t)value, name, member)
        valid = valid && (!rest || evaluates(root, schema, value, name, false) || schema_judge(root, rest, member));
    return valid;
}

static bool judge_member(const json_t *root, const json_t *schema, const char *name, size_t bytes, const json_t *value)
{
    const json_t *own = json_object_getn(json_object_get(schema, "properties"), name, bytes);
    const json_t *rest = json_object_get(schema, "additionalProperties");
    const char *pattern;
    json_t *part;
    bool known = own != NULL, valid = !own || schema_judge(root, own, value);
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, part)
    {
        if (!pattern_matches(pattern, name, bytes))
            continue;
        known = true;
        valid = valid && schema_judge(root, part, value);
    }
    return valid && (known || !rest || schema_judge(root, rest, value));
}

static bool judge_dependents(const json_t *root, const json_t *schema, const json_t *value)
{
    const char *name;
    json_t *part;
    bool valid = true;
    json_object_foreach(json_object_get(schema, "dependentRequired"), name, part)
    {
        for (size_t i = 0; json_object_get(value, name) && i < json_array_size(part); i++)
            valid = valid && json_object_get(value, json_string_value(json_array_get(part, i)));
    }
    json_object_foreach(json_object_get(schema, "dependentSchemas"), name, part)
        valid = valid && (!json_object_get(value, name) || schema_judge(root, part, value));
    return valid;
}

static bool judge_object(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *required = json_object_get(schema, "required"), *names = json_object_get(schema, "propertyNames");
    const char *name;
    json_t *member;
    size_t bytes;
    bool valid = judge_count(schema, "minProperties", "maxProperties", json_object_size(value));
    for (size_t i = 0; i < json_array_size(required); i++)
        valid = valid && json_object_get(value, json_string_value(json_array_get(required, i)));
    json_object_keylen_foreach((json_t *)(uintptr_t)value, name, bytes, member)
    {
        json_t *text = json_stringn_nocheck(name, bytes);
        valid = valid && judge_member(root, schema, name, bytes, member) && (!names || schema_judge(root, names, text));
        json_decref(text);
    }
    return valid && judge_dependents(root, schema, value) && judge_unevaluated(root, schema, value);
}

static bool judge_logic(const json_t *root, const json_t *schema, const json_t *value)
{
    const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf"),
                 *one = json_object_get(schema, "oneOf"), *not = json_object_get(schema, "not"),
                 *condition = json_object_get(schema, "if");
    size_t some = 0, ones = 0;
    for (size_t i = 0; i < json_array_size(all); i++)
        if (!schema_judge(root, json_array_get(all, i), value))
            return false;
    for (size_t i = 0; i < json_array_size(any); i++)
        some += schema_judge(root, json_array_get(any, i), value);
    for (size_t i = 0; i < json_array_size(one); i++)
        ones += schema_judge(root, json_array_get(one, i), value);
    if ((any && some == 0) || (one && ones != 1) || (not &&schema_judge(root, not, value)))
        return false;
    if (!condition)
        return true;
    const json_t *outcome = json_object_get(schema, schema_judge(root, condition, value) ? "then" : "else");
    return !outcome || schema_judge(root, outcome, value);
}

static bool judge(const json_t *root, const json_t *schema, const json_t *value)
{
    if (json_is_boolean(schema))
        return json_is_true(schema);
    const json_t *type = json_object_get(schema, "type"), *list = json_object_get(schema, "enum"),
                 *only = json_object_get(schema, "const");
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    bool typed = !type || (json_is_string(type) && is_of_type(value, json_string_value(type)));
    for (size_t i = 0; i < json_array_size(type); i++)
        typed |= is_of_type(value, json_string_value(json_array_get(type, i)));
    if (!typed || (list && !is_listed(list, value)) || (only && !same(only, value)))
        return false;
    if (reference &&
        !schema_judge(root, json_object_get(json_object_get(root, "$defs"), reference + strlen("#/$defs/")), value))
        return false;
    bool valid = json_is_number(value)   ? judge_number(schema, value)
                 : json_is_string(value) ? judge_string(schema, value)
                 : json_is_array(value)  ? judge_array(root, schema, value)
                 : json_is_object(value) ? judge_object(root, schema, value)
                                         : true;
    return valid && judge_logic(root, schema, value);
}

/* A schema that leads back to itself for the same value says nothing: the compiler refuses it wherever it matters. */
bool schema_judge(const json_t *root, const json_t *schema, const json_t *value)
{
    static int depth;
    if (depth > 200)
        return false;
    depth++;
    bool valid = judge(root, schema, value);
    depth--;
    return valid;
}
