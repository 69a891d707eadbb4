/* "not": the opposite of a schema is the choice between the opposites of its keywords, and that of a keyword is again
 * something that keywords say, or a mark on what the shape asks of a text or value. What has no such opposite is
 * refused. */
#include <stdio.h>
#include <string.h>

#include "base/json_wide.h"
#include "grammar/json_schema_expansion.h"
#include "grammar/json_schema_format.h"

/* A made schema {"not": S, ONLY: keyword} is the opposite of one keyword of S, which may depend on its neighbours. No
 * document holds the key: it is not UTF-8. */
#define ONLY "\xFFonly"

typedef struct negation {
    expansion *e;
    const pending *p;
    const schema_node *node; /* of S */
} negation;

static void refuse(const negation *n, const char *keyword)
{
    schema_fail(n->e->c, n->node, keyword,
                "cannot be enforced: its opposite is asked for, by \"not\", \"if\" or a \"oneOf\" with options that "
                "overlap: leave it out, or say it another way");
}

static void never(const negation *n)
{
    n->e->s.types = 0;
}

/* The value must be one of these, made, instead. */
static void instead(const negation *n, const json_t *options)
{
    if (json_array_size(options) == 1)
        schema_push(n->e, n->p, "not", schema_child(n->e->c, n->p->node, "not", "0", json_array_get(options, 0)), true);
    else if (json_array_size(options) == 0)
        never(n);
    else
        schema_branch(n->e, n->p, "not", options, true);
}

static json_t *opposite(const negation *n, const char *keyword, const char *key, const json_t *schema)
{
    return schema_made_not(n->e->c, schema_child(n->e->c, n->node, keyword, key, schema));
}

static void index_text(size_t i, char out[24])
{
    snprintf(out, 24, "%zu", i);
}

/* {"type": "object", "required": [name], "properties": {name: schema}} */
static json_t *object_with(compiler *c, const char *name, size_t bytes, const json_t *schema)
{
    json_t *list = schema_made_add(c, schema_made_list(c), schema_made_text(c, name, bytes));
    json_t *object = schema_made_set(c, schema_made_typed(c, "object"), "required", list);
    return schema_made_member(c, object, name, bytes, schema);
}

static json_t *object_without(compiler *c, const char *name, size_t bytes)
{
    return schema_made_member(c, schema_made_typed(c, "object"), name, bytes, json_false());
}

/* Keywords of the value itself */

static void negate_type(const negation *n, const char *keyword, const json_t *value)
{
    (void)keyword;
    n->e->s.types &= ~schema_type_bits(n->e, n->node, value);
}

static void negate_enum(const negation *n, const char *keyword, const json_t *value)
{
    if (strcmp(keyword, "const") == 0)
        schema_use(n->e, &n->e->s.excluded, n->node, keyword, value, true);
    else if (!json_is_array(value))
        schema_fail(n->e->c, n->node, keyword, "must be an array of values");
    for (size_t i = 0; strcmp(keyword, "enum") == 0 && i < json_array_size(value); i++)
        schema_use(n->e, &n->e->s.excluded, n->node, keyword, json_array_get(value, i), true);
}

static void negate_bound(const negation *n, const char *keyword, const json_t *value)
{
    static const char *const opposites[][2] = {{"minimum", "exclusiveMaximum"},
                                               {"maximum", "exclusiveMinimum"},
                                               {"exclusiveMinimum", "maximum"},
                                               {"exclusiveMaximum", "minimum"}};
    qn_decimal number;
    if (json_is_boolean(value) && strncmp(keyword, "exclusive", 9) == 0) {
        if (json_is_false(value)) {
            never(n);
            return;
        }
        value = schema_excluded_bound(n->e, n->node, keyword);
    }
    if (!qn_decimal_of(value, &number)) { /* here, where the keyword stands, and not as its opposite */
        schema_refuse_bound(n->e, n->node, keyword);
        return;
    }
    n->e->s.types &= TYPE_NUMBER;
    for (size_t i = 0; i < 4; i++)
        if (strcmp(keyword, opposites[i][0]) == 0)
            schema_apply_bound(n->e, n->p, opposites[i][1], value);
}

static void negate_count(const negation *n, const char *keyword, const json_t *value)
{
    size_t number;
    bool low = keyword[1] == 'i';
    n->e->s.types &= strcmp(keyword + 3, "Length") == 0  ? TYPE_STRING
                     : strcmp(keyword + 3, "Items") == 0 ? TYPE_ARRAY
                                                         : TYPE_OBJECT;
    if (!schema_read_count(n->e, n->node, keyword, value, &number))
        return;
    if ((low && number == 0) || (!low && number >= SCHEMA_MOST_COUNT - 1))
        never(n); /* no text is as long */
    else
        schema_hold_count(&n->e->s, keyword, !low, low ? number - 1 : number + 1);
}

static void negate_text(const negation *n, const char *keyword, const json_t *value)
{
    if (!json_is_string(value)) {
        schema_fail(n->e->c, n->node, keyword, "must be a string");
        return;
    }
    /* the texts that are accepted for a format are some of its valid ones: the others are not known to be invalid */
    if (strcmp(keyword, "format") == 0) {
        if (schema_format_regex(json_string_value(value)))
            refuse(n, keyword);
        else
            never(n);
        return;
    }
    n->e->s.types &= TYPE_STRING;
    schema_use(n->e, &n->e->s.texts, n->node, keyword, value, true);
}

static void negate_multiple(const negation *n, const char *keyword, const json_t *value)
{
    expansion *e = n->e;
    const keyword_use *others = e->s.multiples;
    schema_apply_multiple(e, n->p, keyword, value);
    if (e->c->failed)
        return;
    e->s.types &= TYPE_NUMBER;
    e->s.multiples = others;
    schema_use(e, &e->s.multiples, n->node, keyword, value, true);
}

/* Members and elements */

static void negate_required(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    json_t *options = schema_made_list(c);
    if (!json_is_array(value))
        schema_fail(c, n->node, keyword, "must be an array of names");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *name = json_array_get(value, i);
        if (!json_is_string(name))
            schema_fail(c, n->node, keyword, "must be an array of names");
        else
            options = schema_made_add(c, options, object_without(c, json_string_value(name), json_string_length(name)));
    }
    if (!c->failed)
        instead(n, options);
}

static void negate_properties(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    json_t *options = schema_made_list(c), *part;
    const char *name;
    size_t bytes;
    if (!qn_json_is_object(value))
        schema_fail(c, n->node, keyword, "must be an object of schemas");
    json_object_keylen_foreach((json_t *)value, name, bytes, part)
    {
        if (!json_is_true(part))
            options = schema_made_add(c, options, object_with(c, name, bytes, opposite(n, keyword, name, part)));
    }
    if (!c->failed)
        instead(n, options);
}

static void negate_prefix(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    json_t *options = schema_made_list(c);
    char index[24];
    schema_check_elements(c, n->node, keyword, value);
    for (size_t i = 0; i < json_array_size(value) && !c->failed; i++) {
        json_t *list = schema_made_list(c), *option = schema_made_typed(c, "array"),
               *least = schema_made_integer(c, (long long)i + 1);
        for (size_t k = 0; k < i; k++)
            list = schema_made_add(c, list, json_true());
        index_text(i, index);
        list = schema_made_add(c, list, opposite(n, keyword, index, json_array_get(value, i)));
        option = schema_made_set(c, schema_made_set(c, option, "prefixItems", list), "minItems", least);
        options = schema_made_add(c, options, option);
    }
    if (!c->failed)
        instead(n, options);
}

/* Those that only other members or elements than the declared ones are held to. */
static void negate_rest(const negation *n, const char *keyword, const json_t *value)
{
    bool elements = strcmp(keyword, "items") == 0;
    if (strcmp(keyword, "additionalProperties") != 0)
        schema_check_elements(n->e->c, n->node, keyword, value);
    bool said = strcmp(keyword, "additionalItems") != 0 || json_is_array(json_object_get(n->node->schema, "items"));
    if (elements && json_is_array(value))
        negate_prefix(n, keyword, value);
    else if (!said || json_is_true(value) || (json_is_object(value) && json_object_size(value) == 0)) {
        never(n);
    } else if (elements && !json_object_get(n->node->schema, "prefixItems")) {
        compiler *c = n->e->c;
        json_t *option = schema_made_set(c, schema_made_typed(c, "array"), "contains",
                                         opposite(n, keyword, NULL, value));
        instead(n, schema_made_add(c, schema_made_list(c), option));
    } else {
        refuse(n, keyword);
    }
}

static void negate_contains(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    if (json_object_get(n->node->schema, "minContains") || json_object_get(n->node->schema, "maxContains")) {
        refuse(n, keyword);
        return;
    }
    json_t *option = schema_made_set(c, schema_made_typed(c, "array"), "items", opposite(n, keyword, NULL, value));
    instead(n, schema_made_add(c, schema_made_list(c), option));
}

/* Other schemas */

static void negate_ref(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    if (!json_is_string(value)) {
        schema_fail(c, n->node, keyword, "must be a string");
        return;
    }
    const schema_node *target = schema_resolve(c, n->node, json_string_value(value));
    instead(n, schema_made_add(c, schema_made_list(c), schema_made_not(c, target)));
}

static void negate_list(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    json_t *options = schema_made_list(c);
    char index[24];
    size_t count = json_array_size(value);
    if (count == 0)
        schema_fail(c, n->node, keyword, "must be an array of schemas that has one at least");
    if (strcmp(keyword, "oneOf") == 0)
        for (size_t i = 0; i < count; i++)
            for (size_t k = i + 1; k < count && !c->failed; k++)
                if (!schema_options_are_disjoint(n->e, n->p, keyword, value, i, k))
                    refuse(n, keyword);
    for (size_t i = 0; i < count && !c->failed; i++) {
        index_text(i, index);
        options = schema_made_add(c, options, opposite(n, keyword, index, json_array_get(value, i)));
    }
    if (c->failed)
        return;
    if (strcmp(keyword, "allOf") == 0) {
        instead(n, options);
        return;
    }
    json_t *all = schema_made_set(c, schema_made(c), "allOf", options);
    instead(n, schema_made_add(c, schema_made_list(c), all));
}

static void negate_not(const negation *n, const char *keyword, const json_t *value)
{
    schema_push(n->e, n->p, keyword, schema_child(n->e->c, n->node, keyword, NULL, value), true);
}

/* The condition and not its consequence, either way. */
static void negate_if(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    const char *const outcomes[] = {"then", "else"};
    json_t *options = schema_made_list(c);
    for (int i = 0; i < 2 && !c->failed; i++) {
        const json_t *outcome = json_object_get(n->node->schema, outcomes[i]);
        if (!outcome)
            continue;
        const json_t *condition = i == 0 ? value : opposite(n, keyword, NULL, value);
        json_t *both = schema_made_add(c, schema_made_list(c), condition);
        both = schema_made_add(c, both, opposite(n, outcomes[i], NULL, outcome));
        options = schema_made_add(c, options, schema_made_set(c, schema_made(c), "allOf", both));
    }
    if (!c->failed)
        instead(n, options);
}

static void negate_dependent(const negation *n, const char *keyword, const json_t *value)
{
    compiler *c = n->e->c;
    json_t *options = schema_made_list(c), *part;
    const char *name;
    size_t bytes;
    if (!qn_json_is_object(value))
        schema_fail(c, n->node, keyword, "must be an object");
    json_object_keylen_foreach((json_t *)value, name, bytes, part)
    {
        if (!schema_depends_on_names(keyword, part)) {
            json_t *with = object_with(c, name, bytes, json_true());
            options = schema_made_add(c, options, schema_made_set(c, with, "not", part));
            schema_child(c, n->node, keyword, name, part);
            continue;
        }
        for (size_t i = 0; i < json_array_size(part); i++) {
            const json_t *other = json_array_get(part, i);
            if (!json_is_string(other)) {
                schema_fail(c, n->node, keyword, "must hold arrays of names");
                return;
            }
            json_t *both = schema_made_add(c, schema_made_list(c), object_with(c, name, bytes, json_true()));
            both = schema_made_add(c, both, object_without(c, json_string_value(other), json_string_length(other)));
            options = schema_made_add(c, options, schema_made_set(c, schema_made(c), "allOf", both));
        }
    }
    if (!c->failed)
        instead(n, options);
}

static const struct {
    const char *keyword;
    void (*negate)(const negation *n, const char *keyword, const json_t *value);
} rules[] = {
    {"type", negate_type},
    {"enum", negate_enum},
    {"const", negate_enum},
    {"minimum", negate_bound},
    {"maximum", negate_bound},
    {"exclusiveMinimum", negate_bound},
    {"exclusiveMaximum", negate_bound},
    {"minLength", negate_count},
    {"maxLength", negate_count},
    {"minItems", negate_count},
    {"maxItems", negate_count},
    {"minProperties", negate_count},
    {"maxProperties", negate_count},
    {"multipleOf", negate_multiple},
    {"pattern", negate_text},
    {"format", negate_text},
    {"required", negate_required},
    {"properties", negate_properties},
    {"additionalProperties", negate_rest},
    {"items", negate_rest},
    {"additionalItems", negate_rest},
    {"prefixItems", negate_prefix},
    {"contains", negate_contains},
    {"$ref", negate_ref},
    {"allOf", negate_list},
    {"anyOf", negate_list},
    {"oneOf", negate_list},
    {"not", negate_not},
    {"if", negate_if},
    {"dependentRequired", negate_dependent},
    {"dependentSchemas", negate_dependent},
    {"dependencies", negate_dependent},
};

static void negate(const negation *n, const char *keyword)
{
    const json_t *value = json_object_get(n->node->schema, keyword);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !n->e->c->failed; i++) {
        if (strcmp(rules[i].keyword, keyword) == 0) {
            rules[i].negate(n, keyword, value);
            return;
        }
    }
    refuse(n, keyword);
}

void schema_apply_not(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    compiler *c = e->c;
    pending *quiet = schema_alloc(c, 1, sizeof *quiet);
    if (!quiet)
        return;
    *quiet = *p;
    quiet->silent = true;
    negation n = {e, quiet, schema_child(c, p->node, keyword, NULL, value)};
    const char *only = json_string_value(json_object_get(p->node->schema, ONLY)), *name, *first = NULL;
    json_t *options = NULL;
    if (c->failed || json_is_false(value))
        return;
    if (only) {
        negate(&n, only);
        return;
    }
    for (size_t at = 0; (name = schema_next_keyword(value, &at)) && !c->failed;) {
        if (!first) {
            first = name;
            continue;
        }
        if (!options)
            options = schema_made_add(c, schema_made_list(c),
                                      schema_made_set(c, schema_made_set(c, schema_made(c), "not", value), ONLY,
                                                      schema_made_text(c, first, strlen(first))));
        options = schema_made_add(c, options,
                                  schema_made_set(c, schema_made_set(c, schema_made(c), "not", value), ONLY,
                                                  schema_made_text(c, name, strlen(name))));
    }
    if (c->failed)
        return;
    if (!first)
        never(&n);
    else if (!options)
        negate(&n, first);
    else
        schema_branch(e, quiet, keyword, options, true);
}
