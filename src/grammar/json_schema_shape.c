/* From a set of schemas to shapes: keyword by keyword the set's schemas narrow one shape; $ref and allOf add schemas to
 * it, anyOf and oneOf multiply it. */
#include <stdio.h>
#include <string.h>

#include "grammar/json_schema_expansion.h"

enum {
    MOST_BRANCHINGS = 300, /* one inside another, over all sets; each is a call */
    MOST_OPTIONS = 1000    /* of a oneOf */
};

void schema_push(expansion *e, const pending *parent, const char *keyword, const schema_node *node, bool hidden)
{
    compiler *c = e->c;
    if (c->failed || !node)
        return;
    e->s.opaque |= hidden;
    if (hidden && e->declared_only)
        return;
    for (const pending *p = parent; p; p = p->parent)
        if (p->node == node && !json_is_boolean(node->schema)) {
            schema_fail(c, parent->node, keyword, "leads back to itself without an end: nothing can be told from it");
            return;
        }
    size_t depth = parent ? parent->depth + 1 : 0;
    if (depth > SCHEMA_MOST_CHAIN)
        schema_fail(c, parent->node, keyword, "more than %d schemas that lead to each other: flatten the schema",
                    SCHEMA_MOST_CHAIN);
    c->steps += depth / 64;
    pending *entry = schema_alloc(c, 1, sizeof *entry);
    if (!entry)
        return;
    *entry = (pending){.node = node,
                       .parent = parent,
                       .next = e->work,
                       .depth = depth,
                       .silent = parent && parent->silent,
                       .hidden = hidden || (parent && parent->hidden)};
    e->work = entry;
}

static void apply_ref(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_string(value))
        schema_fail(e->c, p->node, keyword, "must be a string");
    else
        schema_push(e, p, keyword, schema_resolve(e->c, p->node, json_string_value(value)), false);
}

/* Where no schema has an $id of its own, there is one place that a dynamic reference can mean. */
static void apply_dynamic_ref(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (schema_is_one_resource(e->c))
        apply_ref(e, p, keyword, value);
    else
        schema_fail(e->c, p->node, keyword, "cannot be enforced in a document with several $id: use \"$ref\"");
}

static const schema_node *option_node(compiler *c, const pending *p, const char *keyword, const json_t *list, size_t i)
{
    char index[24];
    snprintf(index, sizeof index, "%zu", i);
    return schema_child(c, p->node, keyword, index, json_array_get(list, i));
}

static void apply_all(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (json_array_size(value) == 0)
        schema_fail(e->c, p->node, keyword, "must be an array of schemas that has one at least");
    for (size_t i = 0; i < json_array_size(value); i++)
        schema_push(e, p, keyword, option_node(e->c, p, keyword, value, i), false);
}

void schema_branch(expansion *e, const pending *p, const char *keyword, const json_t *options, bool hidden)
{
    if (e->c->failed || !options)
        return;
    e->s.opaque |= hidden;
    if (hidden && e->declared_only)
        return;
    branching *entry = schema_alloc(e->c, 1, sizeof *entry);
    if (!entry)
        return;
    *entry = (branching){p, keyword, options, hidden, e->branches};
    e->branches = entry;
}

static void apply_branches(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (json_array_size(value) == 0)
        schema_fail(e->c, p->node, keyword, "must be an array of schemas that has one at least");
    schema_branch(e, p, keyword, value, false);
}

typedef struct keyword_rule {
    const char *name;
    keyword_handler *apply;
} keyword_rule;

/* All keywords with which a schema of any draft, or of OpenAPI, can refuse a value. Others are annotations. */
static const keyword_rule rules[] = {
    {"type", schema_apply_type},
    {"enum", schema_apply_enum},
    {"const", schema_apply_enum},
    {"minimum", schema_apply_bound},
    {"maximum", schema_apply_bound},
    {"exclusiveMinimum", schema_apply_bound},
    {"exclusiveMaximum", schema_apply_bound},
    {"minLength", schema_apply_count},
    {"maxLength", schema_apply_count},
    {"minItems", schema_apply_count},
    {"maxItems", schema_apply_count},
    {"minProperties", schema_apply_count},
    {"maxProperties", schema_apply_count},
    {"pattern", schema_apply_text},
    {"format", schema_apply_text},
    {"required", schema_apply_required},
    {"properties", schema_apply_part},
    {"patternProperties", schema_apply_part},
    {"additionalProperties", schema_apply_part},
    {"prefixItems", schema_apply_part},
    {"items", schema_apply_part},
    {"additionalItems", schema_apply_part},
    {"$ref", apply_ref},
    {"allOf", apply_all},
    {"anyOf", apply_branches},
    {"oneOf", apply_branches},
    {"not", schema_apply_not},
    {"if", schema_apply_if},
    {"multipleOf", schema_apply_multiple},
    {"uniqueItems", schema_apply_unique},
    {"contains", schema_apply_contains},
    {"propertyNames", schema_apply_names},
    {"dependentRequired", schema_apply_dependent},
    {"dependentSchemas", schema_apply_dependent},
    {"dependencies", schema_apply_dependent},
    {"unevaluatedProperties", schema_apply_unevaluated},
    {"unevaluatedItems", schema_apply_unevaluated},
    {"$dynamicRef", apply_dynamic_ref},
    {"$recursiveRef", schema_apply_blocked},
    {"extends", schema_apply_blocked},
    {"disallow", schema_apply_blocked},
    {"divisibleBy", schema_apply_blocked},
};

const char *schema_next_keyword(const json_t *schema, size_t *at)
{
    while (json_is_object(schema) && *at < sizeof rules / sizeof *rules) {
        const char *name = rules[(*at)++].name;
        if (json_object_get(schema, name))
            return name;
    }
    return NULL;
}

const char *schema_sole_keyword(const json_t *schema)
{
    size_t at = 0;
    const char *sole = schema_next_keyword(schema, &at);
    return sole && !schema_next_keyword(schema, &at) ? sole : NULL;
}

static bool spend(compiler *c, const schema_node *node, size_t steps)
{
    c->steps += steps;
    if (c->steps > SCHEMA_MOST_STEPS || c->shapes > SCHEMA_MOST_SHAPES)
        schema_fail(c, node, NULL, "too many combinations of anyOf, oneOf, if and their like: simplify the schema");
    return !c->failed;
}

static void apply_schema(expansion *e, const pending *p)
{
    const json_t *schema = p->node->schema;
    if (!spend(e->c, p->node, 1 + e->s.all_count / 64))
        return;
    if (json_is_false(schema))
        e->s.types = e->s.seen_types = 0;
    if (!json_is_object(schema))
        return;
    for (const keyword_use *seen = e->s.all; seen; seen = seen->next)
        if (seen->node == p->node && (p->hidden || !seen->negated) && !e->c->unevaluated)
            return;
    e->at = p;
    schema_use(e, &e->s.all, p->node, NULL, schema, p->hidden);
    e->s.all_count++;
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !e->c->failed; i++) {
        const json_t *value = json_object_get(schema, rules[i].name);
        if (value)
            rules[i].apply(e, p, rules[i].name, value);
    }
}

/* Branches */

static void expand(expansion *e);

static void found_shape(compiler *c, void *context, const shape *s)
{
    (void)c;
    (void)s;
    *(bool *)context = true;
}

bool schema_options_are_disjoint(const expansion *e, const pending *p, const char *keyword, const json_t *options,
                                 size_t i, size_t j)
{
    bool found = false;
    expansion both = *e;
    both.branches = NULL; /* fewer conditions: what is empty without them is empty */
    both.sink = found_shape;
    both.context = &found;
    both.any = both.some = true;
    schema_push(&both, p, keyword, option_node(e->c, p, keyword, options, i), false);
    schema_push(&both, p, keyword, option_node(e->c, p, keyword, options, j), false);
    expand(&both);
    return !found;
}

/* Which options of a oneOf may match the same value: a flag for each two of them. */
static const bool *overlaps(const expansion *e, const branching *at, size_t count)
{
    compiler *c = e->c;
    if (count > MOST_OPTIONS)
        schema_fail(c, at->at->node, at->keyword, "cannot be enforced: more than %d options", MOST_OPTIONS);
    bool *overlap = schema_alloc(c, count * count, sizeof *overlap);
    for (size_t i = 0; overlap && i < count; i++)
        for (size_t k = i + 1; k < count && !c->failed; k++)
            overlap[i * count + k] = overlap[k * count + i] = !schema_lists_differ(json_array_get(at->options, i),
                                                                                   json_array_get(at->options, k)) &&
                                                              !schema_options_are_disjoint(e, at->at, at->keyword,
                                                                                           at->options, i, k);
    return overlap;
}

/* Exactly one: the option i, and the opposite of each that might match with it. */
static void push_opposites(expansion *next, const branching *at, const bool *overlap, size_t i)
{
    compiler *c = next->c;
    size_t count = json_array_size(at->options);
    for (size_t k = 0; overlap && k < count && !c->failed; k++) {
        json_t *opposite = overlap[i * count + k]
                               ? schema_made_not(c, option_node(c, at->at, at->keyword, at->options, k))
                               : NULL;
        if (opposite)
            schema_push(next, at->at, at->keyword, schema_child(c, at->at->node, at->keyword, NULL, opposite), true);
    }
}

/* What any option that matches evaluates is evaluated: so a way through an anyOf is a set of its options. */
static void expand_subsets(const expansion *e, const branching *at, size_t count)
{
    enum { MOST_TOGETHER = 6 };
    compiler *c = e->c;
    if (count > MOST_TOGETHER) {
        schema_fail(c, at->at->node, at->keyword,
                    "cannot be enforced: more than %d options in a schema with \"unevaluatedProperties\" or "
                    "\"unevaluatedItems\"",
                    MOST_TOGETHER);
        return;
    }
    for (size_t set = 1; set < (size_t)1 << count && !c->failed; set++) {
        expansion next = *e;
        for (size_t i = 0; i < count; i++)
            if (set >> i & 1)
                schema_push(&next, at->at, at->keyword, option_node(c, at->at, at->keyword, at->options, i),
                            at->hidden);
        c->shapes += !e->any;
        expand(&next);
    }
}

static void expand_branches(const expansion *e, const branching *at)
{
    compiler *c = e->c;
    size_t count = json_array_size(at->options);
    bool one = strcmp(at->keyword, "oneOf") == 0 && !e->declared_only;
    if (c->branchings == MOST_BRANCHINGS) {
        schema_fail(c, at->at->node, at->keyword, "more than %d choices that meet: simplify the schema",
                    MOST_BRANCHINGS);
        return;
    }
    c->branchings++;
    if (c->unevaluated && strcmp(at->keyword, "anyOf") == 0 && count > 1) {
        expand_subsets(e, at, count);
        c->branchings--;
        return;
    }
    const bool *overlap = one ? overlaps(e, at, count) : NULL;
    for (size_t i = 0; i < count && !c->failed; i++) {
        expansion next = *e;
        schema_push(&next, at->at, at->keyword, option_node(c, at->at, at->keyword, at->options, i), at->hidden);
        push_opposites(&next, at, overlap, i);
        c->shapes += !e->any;
        expand(&next);
    }
    c->branchings--;
}

static void expand(expansion *e)
{
    compiler *c = e->c;
    while (e->work && (e->declared_only ? e->s.seen_types : e->s.types) != 0 && !c->failed) {
        const pending *p = e->work;
        e->work = p->next;
        apply_schema(e, p);
    }
    bool enough = e->any && *(bool *)e->context;
    if (c->failed || enough)
        return;
    if (!e->declared_only)
        schema_narrow(c, &e->s, !e->branches && !e->some);
    if ((e->declared_only ? e->s.seen_types : e->s.types) == 0)
        return;
    const branching *at = e->branches;
    if (!spend(c, at ? at->at->node : e->s.all ? e->s.all->node : NULL, 1))
        return;
    if (!at) {
        e->sink(c, e->context, &e->s);
        return;
    }
    e->branches = at->next;
    expand_branches(e, at);
}

static void expand_set(compiler *c, const node_set *set, expansion *e)
{
    e->c = c;
    e->s = (shape){.types = TYPE_ANY,
                   .seen_types = TYPE_ANY,
                   .max_length = QN_UNBOUNDED,
                   .max_items = QN_UNBOUNDED,
                   .max_members = QN_UNBOUNDED};
    for (size_t i = set->count; i-- > 0;)
        schema_push(e, NULL, NULL, set->nodes[i], false);
    expand(e);
}

void schema_shapes(compiler *c, const node_set *set, shape_sink sink, void *context)
{
    expand_set(c, set, &(expansion){.sink = sink, .context = context});
}

void schema_declared_shapes(compiler *c, const node_set *set, shape_sink sink, void *context)
{
    expand_set(c, set, &(expansion){.sink = sink, .context = context, .declared_only = true});
}

bool schema_set_is_empty(compiler *c, const node_set *set)
{
    bool found = false;
    expand_set(c, set, &(expansion){.sink = found_shape, .context = &found, .any = true});
    return !found;
}

/* Members */

typedef struct member_name {
    const char *key;
    size_t bytes;
} member_name;

static bool declares_name(compiler *c, void *context, const schema_node *node)
{
    const member_name *name = context;
    node_set ignored = {0};
    return json_object_getn(json_object_get(node->schema, "properties"), name->key, name->bytes) ||
           schema_patterns_add(c, node, name->key, name->bytes, &ignored);
}

void schema_member_set(compiler *c, const shape *s, const char *key, size_t bytes, node_set *out)
{
    for (const keyword_use *use = s->members; use && !c->failed; use = use->next) {
        const json_t *schema = use->node->schema;
        const json_t *own = json_object_getn(json_object_get(schema, "properties"), key, bytes);
        const json_t *rest = json_object_get(schema, "additionalProperties");
        bool matched = own != NULL;
        if (own)
            schema_set_add(c, out, schema_child(c, use->node, "properties", key, own));
        if (schema_patterns_add(c, use->node, key, bytes, out))
            matched = true;
        if (!matched && rest)
            schema_set_add(c, out, schema_child(c, use->node, "additionalProperties", NULL, rest));
    }
    if (s->unevaluated)
        schema_unevaluated_set(c, s, declares_name, &(member_name){key, bytes}, out);
}
