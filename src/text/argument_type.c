/* A schema is reduced to what it allows: a set of JSON types, and single values besides. anyOf joins such sets, all
 * other keywords intersect them. */
#include "text/argument_type.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "grammar/json_number.h"

enum { MAX_DEPTH = 32, COMPARISON = 16 /* what it costs to compare two listed values */ };

enum {
    STRING = 1,
    INTEGER = 2,
    REAL = 4,
    BOOLEAN = 8,
    NOTHING = 16,
    ARRAY = 32,
    OBJECT = 64,
    UNTYPED = 128, /* no keyword said anything of the type */
    EVERYTHING = 255
};

typedef struct allowed {
    unsigned types;
    json_t *literals; /* array, owned */
} allowed;

typedef struct reader {
    const json_t *root;
    size_t *budget;
} reader;

static unsigned named_type(const char *name)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"string", STRING}, {"integer", INTEGER}, {"number", INTEGER | REAL}, {"boolean", BOOLEAN},
                 {"null", NOTHING},  {"array", ARRAY},     {"object", OBJECT}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].name, name) == 0) {
            return names[i].types;
        }
    }
    return 0;
}

static unsigned type_of(const json_t *value)
{
    if (qn_json_wide_digits(value) != NULL) {
        return INTEGER;
    }
    switch (json_typeof(value)) {
    case JSON_STRING:
        return STRING;
    case JSON_INTEGER:
        return INTEGER;
    case JSON_REAL: /* 1.0 is an integer */
        return json_real_value(value) == floor(json_real_value(value)) ? INTEGER : REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return BOOLEAN;
    case JSON_NULL:
        return NOTHING;
    case JSON_ARRAY:
        return ARRAY;
    case JSON_OBJECT:
        break;
    }
    return OBJECT;
}

static qn_status spend(reader *r, size_t amount, qn_error *err)
{
    if (*r->budget < amount) {
        return qn_fail(err, QN_USAGE, "the schemas are too large: use fewer enum values and references");
    }
    *r->budget -= amount;
    return QN_OK;
}

static bool same(const json_t *a, const json_t *b);

static bool same_members(const json_t *a, const json_t *b)
{
    const char *name;
    size_t bytes;
    json_t *value;
    json_object_keylen_foreach((json_t *)(uintptr_t)a, name, bytes, value)
    {
        const json_t *other = json_object_getn(b, name, bytes);
        if (other == NULL || !same(value, other)) {
            return false;
        }
    }
    return json_object_size(a) == json_object_size(b);
}

/* As JSON Schema has it: 1 and 1.0 are the same number. */
static bool same(const json_t *a, const json_t *b)
{
    qn_decimal x, y;
    if (type_of(a) != type_of(b)) {
        return false;
    }
    switch (type_of(a)) {
    case INTEGER:
    case REAL:
        return json_equal(a, b) || (qn_decimal_of(a, &x) && qn_decimal_of(b, &y) && qn_decimal_compare(&x, &y) == 0);
    case OBJECT:
        return same_members(a, b);
    case ARRAY:
        for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++) {
            if (!same(json_array_get(a, i), json_array_get(b, i))) {
                return false;
            }
        }
        return json_array_size(a) == json_array_size(b);
    default:
        return json_equal(a, b);
    }
}

static bool listed(const json_t *literals, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(literals); i++) {
        if (same(json_array_get(literals, i), value)) {
            return true;
        }
    }
    return false;
}

/* Appends the values of `from` that `types` has, or `other` lists. */
static bool keep_common(json_t *to, const json_t *from, unsigned types, const json_t *other)
{
    for (size_t i = 0; i < json_array_size(from); i++) {
        json_t *value = json_array_get(from, i);
        bool common = (type_of(value) & types) != 0 || listed(other, value);
        if (common && json_array_append(to, value) != 0) {
            return false;
        }
    }
    return true;
}

/* Narrows `to` by `by`, whose literals it takes. */
static qn_status intersect(reader *r, allowed *to, allowed *by, qn_error *err)
{
    json_t *common = json_array();
    size_t mine = json_array_size(to->literals), other = json_array_size(by->literals);
    qn_status status = spend(r, mine + other + mine * other * COMPARISON, err);
    if (status == QN_OK && (common == NULL || !keep_common(common, to->literals, by->types, by->literals) ||
                            !keep_common(common, by->literals, to->types, NULL))) {
        status = qn_fail_memory(err, "tools", (mine + other) * sizeof(json_t *));
    }
    json_decref(to->literals);
    json_decref(by->literals);
    to->types &= by->types;
    to->literals = common;
    by->literals = NULL;
    return status;
}

/* OpenAPI's "nullable" adds null to a "type". */
static qn_status read_types(const json_t *schema, unsigned *out, qn_error *err)
{
    const json_t *type = json_object_get(schema, "type");
    size_t count = json_is_array(type) ? json_array_size(type) : 1;
    *out = json_is_true(json_object_get(schema, "nullable")) ? NOTHING : 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_is_array(type) ? json_array_get(type, i) : type;
        unsigned types = json_is_string(name) ? named_type(json_string_value(name)) : 0;
        if (types == 0) {
            return qn_fail(err, QN_USAGE,
                           "type: %s is no JSON type: use string, integer, number, boolean, null, array "
                           "or object",
                           json_is_string(name) ? json_string_value(name) : qn_json_type_name(name));
        }
        *out |= types;
    }
    return QN_OK;
}

static qn_status read_schema(reader *r, const json_t *schema, int depth, allowed *out, qn_error *err);

/* Narrows `out` by one schema. */
static qn_status narrow(reader *r, const json_t *schema, int depth, allowed *out, qn_error *err)
{
    allowed by;
    qn_status status = read_schema(r, schema, depth, &by, err);
    return status == QN_OK ? intersect(r, out, &by, err) : status;
}

/* Narrows `out` by what any one of the schemas allows. */
static qn_status narrow_by_any(reader *r, const json_t *schemas, int depth, allowed *out, qn_error *err)
{
    allowed any = {.literals = json_array()};
    qn_status status = any.literals == NULL ? qn_fail_memory(err, "tools", sizeof any) : QN_OK;
    for (size_t i = 0; i < json_array_size(schemas) && status == QN_OK; i++) {
        allowed one;
        status = read_schema(r, json_array_get(schemas, i), depth, &one, err);
        if (status != QN_OK) {
            qn_error_prefix(err, "[%zu]", i);
            break;
        }
        any.types |= one.types;
        if (one.literals != NULL && json_array_extend(any.literals, one.literals) != 0) {
            status = qn_fail_memory(err, "tools", sizeof any);
        }
        json_decref(one.literals);
    }
    if (status != QN_OK) {
        json_decref(any.literals);
        return status;
    }
    return intersect(r, out, &any, err);
}

static qn_status narrow_by_all(reader *r, const json_t *schemas, int depth, allowed *out, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(schemas) && status == QN_OK; i++) {
        status = narrow(r, json_array_get(schemas, i), depth, out, err);
        if (status != QN_OK) {
            qn_error_prefix(err, "[%zu]", i);
        }
    }
    return status;
}

static qn_status narrow_by_values(reader *r, const json_t *values, allowed *out, qn_error *err)
{
    qn_status status = spend(r, json_array_size(values), err);
    if (status != QN_OK) {
        return status;
    }
    allowed by = {.literals = json_copy((json_t *)(uintptr_t)values)};
    return by.literals == NULL ? qn_fail_memory(err, "tools", json_array_size(values) * sizeof(json_t *))
                               : intersect(r, out, &by, err);
}

static qn_status narrow_by_constant(reader *r, json_t *value, allowed *out, qn_error *err)
{
    allowed by = {.literals = json_array()};
    if (by.literals == NULL || json_array_append(by.literals, value) != 0) {
        json_decref(by.literals);
        return qn_fail_memory(err, "tools", sizeof by);
    }
    return intersect(r, out, &by, err);
}

static qn_status narrow_by_keyword(reader *r, const json_t *schema, const char *keyword, int depth, allowed *out,
                                   qn_error *err)
{
    json_t *value = json_object_get(schema, keyword);
    if (strcmp(keyword, "type") == 0) {
        unsigned types;
        qn_status status = read_types(schema, &types, err);
        if (status != QN_OK) {
            return status;
        }
        allowed by = {.types = types};
        return intersect(r, out, &by, err);
    }
    if (strcmp(keyword, "const") == 0) {
        return narrow_by_constant(r, value, out, err);
    }
    bool any = strcmp(keyword, "anyOf") == 0 || strcmp(keyword, "oneOf") == 0;
    bool values = strcmp(keyword, "enum") == 0, all = strcmp(keyword, "allOf") == 0;
    if ((any || values || all) && !json_is_array(value)) {
        return qn_fail(err, QN_USAGE, "%s: %s: give an array", keyword, qn_json_type_name(value));
    }
    qn_status status = QN_OK;
    if (values) {
        return narrow_by_values(r, value, out, err);
    }
    if (any) {
        status = narrow_by_any(r, value, depth + 1, out, err);
    } else if (all) {
        status = narrow_by_all(r, value, depth + 1, out, err);
    } else if (strcmp(keyword, "$ref") == 0 && json_is_string(value)) {
        const json_t *target = qn_schema_at(r->root, json_string_value(value));
        status = target != NULL ? narrow(r, target, depth + 1, out, err) : QN_OK;
    }
    return status == QN_OK ? status : qn_error_prefix(err, "%s", keyword);
}

/* On success out's literals are the caller's. */
static qn_status read_schema(reader *r, const json_t *schema, int depth, allowed *out, qn_error *err)
{
    *out = (allowed){.types = json_is_false(schema) ? 0 : EVERYTHING, .literals = NULL};
    if (!qn_json_is_object(schema) && !json_is_boolean(schema)) {
        return qn_fail(err, QN_USAGE, "%s: a schema is an object or a boolean", qn_json_type_name(schema));
    }
    if (depth > MAX_DEPTH) {
        return qn_fail(err, QN_USAGE, "the schema is deeper than %d levels, or a $ref leads back to itself: unfold it",
                       MAX_DEPTH);
    }
    qn_status status = spend(r, 1 + json_object_size(schema), err);
    const char *keyword;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value)
    {
        if (status == QN_OK) {
            status = narrow_by_keyword(r, schema, keyword, depth, out, err);
        }
    }
    if (status != QN_OK) {
        json_decref(out->literals);
        out->literals = NULL;
    }
    return status;
}

static bool only(const json_t *literals, unsigned types)
{
    for (size_t i = 0; i < json_array_size(literals); i++) {
        if ((type_of(json_array_get(literals, i)) & types) == 0) {
            return false;
        }
    }
    return true;
}

static bool any_of(const json_t *literals, unsigned type)
{
    for (size_t i = 0; i < json_array_size(literals); i++) {
        if (type_of(json_array_get(literals, i)) == type) {
            return true;
        }
    }
    return false;
}

static qn_argument_kind kind_of(const allowed *a)
{
    bool null = (a->types & NOTHING) != 0 || any_of(a->literals, NOTHING);
    if ((a->types & UNTYPED) != 0 || ((a->types & STRING) == 0 && !any_of(a->literals, STRING))) {
        return QN_ARGUMENT_JSON;
    }
    if ((a->types & STRING) != 0) {
        return null ? QN_ARGUMENT_STRING_OR_NULL : QN_ARGUMENT_STRING;
    }
    return a->types == 0 && only(a->literals, STRING) ? QN_ARGUMENT_STRING : QN_ARGUMENT_LISTED;
}

qn_status qn_argument_type_read(const json_t *schema, const json_t *root, size_t *budget, qn_argument_type *out,
                                qn_error *err)
{
    reader r = {.root = root, .budget = budget};
    allowed a;
    qn_status status = read_schema(&r, schema, 0, &a, err);
    if (status != QN_OK) {
        return status;
    }
    *out = (qn_argument_type){.kind = kind_of(&a), .types = a.types};
    if (out->kind == QN_ARGUMENT_LISTED) {
        out->literals = a.literals;
    } else {
        json_decref(a.literals);
    }
    return QN_OK;
}

void qn_argument_type_free(qn_argument_type *type)
{
    json_decref(type->literals);
    type->literals = NULL;
}

/* The next step of a JSON pointer, "~1" and "~0" undone; false: too long for any name that is looked for. */
static bool read_step(const char **at, char *out, size_t capacity)
{
    size_t length = 0;
    for (; **at != '\0' && **at != '/'; ++*at) {
        char c = **at;
        if (c == '~' && ((*at)[1] == '0' || (*at)[1] == '1')) {
            c = (*at)[1] == '0' ? '~' : '/';
            ++*at;
        }
        if (length + 1 >= capacity) {
            return false;
        }
        out[length++] = c;
    }
    out[length] = '\0';
    return true;
}

const json_t *qn_schema_at(const json_t *root, const char *reference)
{
    char step[256];
    if (reference[0] != '#' || (reference[1] != '/' && reference[1] != '\0')) {
        return NULL;
    }
    const json_t *at = root;
    for (reference++; at != NULL && *reference == '/';) {
        reference++;
        if (!read_step(&reference, step, sizeof step)) {
            return NULL;
        }
        if (json_is_array(at)) {
            size_t index = 0;
            for (const char *digit = step; *digit >= '0' && *digit <= '9' && index < 100000; digit++) {
                index = index * 10 + (size_t)(*digit - '0');
            }
            at = json_array_get(at, index);
        } else {
            at = json_object_get(at, step);
        }
    }
    return at;
}

/* Does the schema allow the string itself? */
static bool is_listed_string(const qn_argument_type *type, const char *text, size_t bytes)
{
    for (size_t i = 0; i < json_array_size(type->literals); i++) {
        const json_t *value = json_array_get(type->literals, i);
        if (json_is_string(value) && json_string_length(value) == bytes &&
            memcmp(json_string_value(value), text, bytes) == 0) {
            return true;
        }
    }
    return false;
}

qn_status qn_argument_is_json(const qn_argument_type *type, const char *text, size_t bytes, bool *out, qn_error *err)
{
    *out = false;
    qn_argument_kind kind = type != NULL ? type->kind : QN_ARGUMENT_JSON;
    if (kind == QN_ARGUMENT_STRING_OR_NULL) {
        *out = bytes == 4 && memcmp(text, "null", 4) == 0;
    }
    if (kind == QN_ARGUMENT_STRING || kind == QN_ARGUMENT_STRING_OR_NULL ||
        (kind == QN_ARGUMENT_LISTED && is_listed_string(type, text, bytes))) {
        return QN_OK;
    }
    json_t *value = NULL;
    qn_error why;
    qn_status status = qn_json_parse_wide(text, bytes, "argument", &value, &why);
    if (status == QN_RESOURCE) {
        *err = why;
        return status;
    }
    *out = status == QN_OK &&
           (kind == QN_ARGUMENT_JSON || (type_of(value) & type->types) != 0 || listed(type->literals, value));
    json_decref(value);
    return QN_OK;
}
