#include "text/tool_grammar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_wide.h"
#include "base/memory.h"
#include "base/size.h"
#include "grammar/json_schema.h"
#include "text/tool_call.h"
#include "text/tool_json.h"
#include "text/tool_list.h"

typedef struct tags {
    qn_expr call, call_end, key, key_end, value, value_end; /* the opening ones alone, the others with `line` */
    qn_expr line;                                           /* what follows NAME and a closing tag */
} tags;

static qn_status find_tag(qn_grammar_builder *b, const qn_tokenizer *tokenizer, const char *tag, qn_expr *out,
                          qn_error *err)
{
    int32_t id = qn_tokenizer_find_added(tokenizer, tag);
    if (id < 0) {
        return qn_fail(err, QN_BAD_INPUT, "tokenizer: no token %s: this checkpoint's tool calls cannot be enforced",
                       tag);
    }
    *out = qn_expr_token(b, id);
    return QN_OK;
}

static qn_status find_tags(qn_grammar_builder *b, const qn_tokenizer *tokenizer, bool line_breaks, tags *t,
                           qn_error *err)
{
    qn_expr *const all[QN_MARKUP_COUNT] = {
        [QN_MARKUP_CALL_BEGIN] = &t->call, [QN_MARKUP_CALL_END] = &t->call_end, [QN_MARKUP_KEY_BEGIN] = &t->key,
        [QN_MARKUP_KEY_END] = &t->key_end, [QN_MARKUP_VALUE_BEGIN] = &t->value, [QN_MARKUP_VALUE_END] = &t->value_end,
    };
    for (size_t i = 0; i < QN_MARKUP_COUNT; i++) {
        qn_status status = find_tag(b, tokenizer, qn_call_markup_text[i], all[i], err);
        if (status != QN_OK) {
            return status;
        }
    }
    t->line = line_breaks ? qn_expr_text(b, "\n") : qn_expr_empty(b);
    t->key_end = qn_expr_concat2(b, t->key_end, t->line);
    t->value_end = qn_expr_concat2(b, t->value_end, t->line);
    return QN_OK;
}

/* Does this keyword of `parameters` ask something of the arguments that is not enforced here? Others are enforced,
 * speak of properties that are never called with, or are annotations. */
static bool asks_more(const char *keyword)
{
    static const char *const unenforced[] = {"$ref",
                                             "enum",
                                             "const",
                                             "$dynamicRef",
                                             "$recursiveRef",
                                             "allOf",
                                             "anyOf",
                                             "oneOf",
                                             "not",
                                             "if",
                                             "patternProperties",
                                             "propertyNames",
                                             "dependencies",
                                             "dependentRequired",
                                             "dependentSchemas",
                                             "extends",
                                             "disallow"};
    for (size_t i = 0; i < sizeof unenforced / sizeof *unenforced; i++) {
        if (strcmp(keyword, unenforced[i]) == 0) {
            return true;
        }
    }
    return false;
}

static qn_status check_keywords(const json_t *parameters, const char *what, qn_error *err)
{
    const char *keyword;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)parameters, keyword, value)
    {
        if (asks_more(keyword)) {
            return qn_fail_field(err, QN_USAGE, "tools",
                                 "%s: /%.64s: cannot be enforced on the arguments of a call: use tool_choice \"auto\" "
                                 "without strict, or say it of single properties",
                                 what, keyword);
        }
    }
    const json_t *type = json_object_get(parameters, "type");
    if (type != NULL && (!json_is_string(type) || strcmp(json_string_value(type), "object") != 0)) {
        return qn_fail_field(err, QN_USAGE, "tools", "%s: /type: arguments are an object: send \"object\"", what);
    }
    const json_t *properties = json_object_get(parameters, "properties");
    if (properties != NULL && !qn_json_is_object(properties)) {
        return qn_fail_field(err, QN_USAGE, "tools", "%s: /properties: send an object of schemas", what);
    }
    return QN_OK;
}

/* A schema that only leads to the one whose properties count. */
static qn_status check_reference(const json_t *schema, const char *what, qn_error *err)
{
    static const char *const counted[] = {"required", "minProperties", "maxProperties", "additionalProperties",
                                          "unevaluatedProperties"};
    const char *keyword;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, keyword, value)
    {
        bool more = asks_more(keyword) && strcmp(keyword, "$ref") != 0;
        for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
            more |= strcmp(keyword, counted[i]) == 0;
        }
        if (more) {
            return qn_fail_field(
                err, QN_USAGE, "tools",
                "%s: /%.64s: cannot be enforced beside $ref on the arguments of a call: move it to the "
                "schema that $ref leads to",
                what, keyword);
        }
    }
    return QN_OK;
}

/* Leads from the parameters to the schema whose properties count; `place` is where that is. */
static qn_status find_object(const json_t *parameters, const char *what, const json_t **out, char place[160],
                             qn_error *err)
{
    const json_t *at = parameters, *end = qn_tool_object_schema(parameters);
    qn_status status = QN_OK;
    snprintf(place, 160, "%s", what);
    while (at != end && status == QN_OK) {
        const char *reference = json_string_value(json_object_get(at, "$ref"));
        status = check_reference(at, place, err);
        snprintf(place, 160, "%s: %.90s", what, reference + 1);
        at = qn_schema_at(parameters, reference);
    }
    *out = end;
    return status;
}

/* A required property that is not declared may be anything, and no call has it. */
static qn_status check_required(const json_t *parameters, const char *what, qn_error *err)
{
    const json_t *properties = json_object_get(parameters, "properties");
    const json_t *required = json_object_get(parameters, "required");
    bool strings = required == NULL || json_is_array(required);
    for (size_t i = 0; i < json_array_size(required) && strings; i++) {
        const char *name = json_string_value(json_array_get(required, i));
        strings = name != NULL;
        if (strings && json_object_get(properties, name) == NULL) {
            return qn_fail_field(err, QN_USAGE, "tools", "%s: /required: \"%.64s\" is no property: declare it", what,
                                 name);
        }
    }
    return strings ? QN_OK
                   : qn_fail_field(err, QN_USAGE, "tools", "%s: /required: send a list of names of properties", what);
}

static bool is_required(const json_t *parameters, const char *name)
{
    const json_t *required = json_object_get(parameters, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        if (strcmp(json_string_value(json_array_get(required, i)), name) == 0) {
            return true;
        }
    }
    return false;
}

/* The model's markup has no quotes: white space around a key belongs to the markup. */
static bool can_be_called(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 0 && qn_tool_json_trim(name, bytes).bytes == bytes;
}

static qn_status read_bound(const json_t *parameters, const char *keyword, const char *what, size_t *out, qn_error *err)
{
    const json_t *bound = json_object_get(parameters, keyword);
    double value = bound != NULL ? json_number_value(bound) : 0;
    if (bound == NULL) {
        return QN_OK;
    }
    if (!json_is_number(bound) || value < 0 || value != floor(value)) {
        return qn_fail_field(err, QN_USAGE, "tools", "%s: /%s: send an integer, 0 or more", what, keyword);
    }
    *out = value < QN_GRAMMAR_MAX_ITEMS ? (size_t)value : QN_GRAMMAR_MAX_ITEMS + 1;
    return QN_OK;
}

/* How many arguments a call has. Bounds that no call can keep are refused: without words, the tool would only vanish
 * from a choice of several. */
static qn_status read_bounds(const json_t *parameters, const char *what, qn_each_once *group, qn_error *err)
{
    size_t least = 0;
    group->min = 0;
    group->max = group->count;
    qn_status status = read_bound(parameters, "minProperties", what, &group->min, err);
    if (status == QN_OK) {
        status = read_bound(parameters, "maxProperties", what, &group->max, err);
    }
    for (size_t i = 0; i < group->count; i++) {
        least += group->required[i];
    }
    if (status == QN_OK && group->min > group->count) {
        status = qn_fail_field(err, QN_USAGE, "tools", "%s: /minProperties: only %zu properties are declared", what,
                               group->count);
    }
    if (status == QN_OK && group->max < qn_max_size(group->min, least)) {
        status = qn_fail_field(err, QN_USAGE, "tools", "%s: /maxProperties: at least %zu have to come", what,
                               qn_max_size(group->min, least));
    }
    return status;
}

static qn_status argument(qn_grammar_builder *b, const tags *t, const json_t *root, const char *name,
                          const json_t *schema, const char *what, qn_expr *out, qn_error *err)
{
    static const qn_schema_options options = {.any_whitespace = false};
    char place[256];
    qn_expr value;
    if (!can_be_called(name)) {
        return qn_fail_field(err, QN_USAGE, "tools",
                             "%s: /properties/%.64s: the model's calls cannot tell an empty name or one with white "
                             "space around: rename it",
                             what, name);
    }
    snprintf(place, sizeof place, "%s: /properties/%.64s", what, name);
    qn_status status = qn_json_schema_expr(b, root, schema, QN_SCHEMA_ARGUMENT, &options, place, &value, err);
    if (status == QN_OK) {
        const qn_expr parts[] = {t->key, qn_expr_text(b, name), t->key_end, t->value, value, t->value_end};
        *out = qn_expr_concat(b, parts, sizeof parts / sizeof *parts);
    }
    return status;
}

static qn_status arguments(qn_grammar_builder *b, const tags *t, const json_t *root, const json_t *parameters,
                           const char *what, qn_expr *out, qn_error *err)
{
    json_t *properties = json_object_get(parameters, "properties");
    size_t count = json_object_size(properties), at = 0;
    qn_status status = check_keywords(parameters, what, err);
    if (status == QN_OK) {
        status = check_required(parameters, what, err);
    }
    if (status != QN_OK) {
        return status;
    }
    qn_expr *items = qn_alloc(count, sizeof *items);
    bool *required = qn_alloc(count, sizeof *required);
    if (items == NULL || required == NULL) {
        status = qn_fail_memory(err, what, count * sizeof *items);
    }
    const char *name;
    json_t *schema;
    json_object_foreach(properties, name, schema)
    {
        if (status == QN_OK) {
            required[at] = is_required(parameters, name);
            status = argument(b, t, root, name, schema, what, &items[at++], err);
        }
    }
    qn_each_once group = {.items = items, .required = required, .count = count, .separator = qn_expr_empty(b)};
    if (status == QN_OK) {
        status = read_bounds(parameters, what, &group, err);
    }
    if (status == QN_OK) {
        *out = qn_expr_each_once(b, &group);
    }
    qn_free(items);
    qn_free(required);
    return status;
}

/* Of a tool that is not held to its schema. */
static qn_expr free_arguments(qn_grammar_builder *b, const tags *t)
{
    qn_expr text = qn_expr_repeat(b, qn_expr_chars_except(b, NULL, 0), 0, QN_UNBOUNDED);
    const qn_expr parts[] = {t->key, text, t->key_end, t->value, text, t->value_end};
    return qn_expr_repeat(b, qn_expr_concat(b, parts, sizeof parts / sizeof *parts), 0, QN_UNBOUNDED);
}

static qn_expr name_of(qn_grammar_builder *b, const json_t *function)
{
    return qn_expr_text(b, json_string_value(json_object_get(function, "name")));
}

static qn_expr wrap_call(qn_grammar_builder *b, const tags *t, qn_expr name, qn_expr given)
{
    const qn_expr parts[] = {t->call, name, t->line, given, t->call_end};
    return qn_expr_concat(b, parts, sizeof parts / sizeof *parts);
}

static qn_status held_call(qn_grammar_builder *b, const tags *t, const json_t *function, const char *what, qn_expr *out,
                           qn_error *err)
{
    qn_expr given = qn_expr_empty(b);
    const json_t *root = json_object_get(function, "parameters"), *object = NULL;
    char place[160];
    qn_status status = qn_json_is_object(root) ? find_object(root, what, &object, place, err) : QN_OK;
    if (status == QN_OK && object != NULL) {
        status = arguments(b, t, root, object, place, &given, err);
    }
    *out = wrap_call(b, t, name_of(b, function), given);
    return status;
}

/* Calls that are held to their schemas, one expression each, and one of all the others. */
static qn_status calls_of_all(qn_grammar_builder *b, const tags *t, const qn_call_rules *rules, qn_expr *each,
                              qn_expr *names, qn_expr *out, qn_error *err)
{
    size_t held_count = 0, free_count = 0;
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(rules->tools) && status == QN_OK; i++) {
        char what[64];
        const json_t *function = json_object_get(json_array_get(rules->tools, i), "function");
        if (rules->callable != NULL && !rules->callable[i]) {
            continue;
        }
        if (rules->held == NULL || rules->held[i]) {
            snprintf(what, sizeof what, "tools[%zu].function.parameters", i);
            status = held_call(b, t, function, what, &each[held_count++], err);
        } else {
            names[free_count++] = name_of(b, function);
        }
    }
    if (status == QN_OK && free_count > 0) {
        each[held_count++] = wrap_call(b, t, qn_expr_choice(b, names, free_count), free_arguments(b, t));
    }
    if (status == QN_OK) {
        *out = qn_expr_choice(b, each, held_count);
    }
    return status;
}

/* The older dialect breaks the line before each call, which the first may leave out. */
static qn_expr call_list(qn_grammar_builder *b, const tags *t, qn_expr one, const qn_call_rules *rules)
{
    qn_expr next = qn_expr_concat2(b, t->line, one);
    qn_expr first = rules->line_breaks ? qn_expr_concat2(b, qn_expr_optional(b, t->line), one) : one;
    qn_expr more = qn_expr_repeat(b, next, rules->min > 1 ? rules->min - 1 : 0,
                                  rules->max == QN_UNBOUNDED ? QN_UNBOUNDED : rules->max - 1);
    qn_expr list = qn_expr_concat2(b, first, more);
    return rules->min == 0 ? qn_expr_optional(b, list) : list;
}

qn_status qn_tool_calls_expr(qn_grammar_builder *b, const qn_tokenizer *tokenizer, const qn_call_rules *rules,
                             qn_expr *out, qn_error *err)
{
    tags t;
    size_t count = json_array_size(rules->tools);
    qn_status status = find_tags(b, tokenizer, rules->line_breaks, &t, err);
    if (status != QN_OK) {
        return status;
    }
    qn_expr one = qn_expr_empty(b), *each = qn_alloc(count, sizeof *each), *names = qn_alloc(count, sizeof *names);
    status = each != NULL && names != NULL ? calls_of_all(b, &t, rules, each, names, &one, err)
                                           : qn_fail_memory(err, "tools", count * sizeof *each);
    if (status == QN_OK) {
        *out = call_list(b, &t, one, rules);
        status = qn_grammar_builder_status(b, err);
    }
    qn_free(each);
    qn_free(names);
    if (status == QN_USAGE && err->field[0] == '\0') {
        snprintf(err->field, sizeof err->field, "tools");
    }
    return status;
}
