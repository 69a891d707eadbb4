/* From a set of schemas to shapes: keyword by keyword the set's schemas narrow one shape; $ref and allOf add schemas to
 * it, anyOf and oneOf multiply it. */
#include <stdio.h>
#include <string.h>

#include "grammar/json_schema_compiler.h"

/* A schema that is still to be applied, and those through whose $ref, allOf, anyOf or oneOf it came. */
typedef struct pending {
    const schema_node *node;
    const struct pending *parent;
    const struct pending *next;
} pending;

/* An anyOf or oneOf that waits until everything else is applied. */
typedef struct branching {
    const pending *at;
    const char *keyword;
    const json_t *options;
    const struct branching *next;
} branching;

typedef struct expansion {
    compiler *c;
    shape s;
    const pending *work;
    const branching *branches;
    shape_sink sink;
    void *context;
} expansion;

/* Values */

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

/* Keywords. Each handler narrows the shape by one keyword of one schema. */

static void use(expansion *e, const keyword_use **list, const schema_node *node, const char *keyword,
                const json_t *value)
{
    keyword_use *entry = schema_alloc(e->c, 1, sizeof *entry);
    if (!entry)
        return;
    *entry = (keyword_use){node, keyword, value, *list};
    *list = entry;
}

static unsigned type_named(const char *name)
{
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOLEAN}, {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
                 {"string", TYPE_STRING}, {"array", TYPE_ARRAY},     {"object", TYPE_OBJECT}};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].types;
    return 0;
}

static void apply_type(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    unsigned types = 0;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; i++) {
        unsigned one = type_named(json_string_value(json_is_array(value) ? json_array_get(value, i) : value));
        if (one == 0)
            schema_fail(e->c, p->node, keyword,
                        "must be one of null, boolean, integer, number, string, array and object, or a list of them");
        types |= one;
    }
    e->s.types &= types;
    e->s.typed = true;
}

static void keep_values(expansion *e, const json_t *const *offered, size_t count)
{
    shape *s = &e->s;
    const json_t **kept = schema_alloc(e->c, count + 1, sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; kept && i < count; i++) {
        bool known = s->values == NULL;
        for (size_t k = 0; k < s->value_count && !known; k++)
            known = schema_values_equal(s->values[k], offered[i]);
        if (known)
            kept[n++] = offered[i];
    }
    s->values = kept;
    s->value_count = n;
}

static void apply_enum(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    bool single = strcmp(keyword, "const") == 0;
    size_t count = single ? 1 : json_array_size(value);
    if (!single && !json_is_array(value)) {
        schema_fail(e->c, p->node, keyword, "must be an array of values");
        return;
    }
    if (e->s.values && count * e->s.value_count > SCHEMA_MOST_COMPARED) {
        schema_fail(e->c, p->node, keyword, "cannot be enforced: too many values in two enums that meet");
        return;
    }
    const json_t **offered = schema_alloc(e->c, count + 1, sizeof *offered);
    for (size_t i = 0; offered && i < count; i++)
        offered[i] = single ? value : json_array_get(value, i);
    if (offered)
        keep_values(e, offered, count);
}

static void apply_bound(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    bool low = strstr(keyword, "inimum") != NULL;
    qn_number_bound bound = {true, strncmp(keyword, "exclusive", 9) == 0, {0}};
    qn_number_bound *held = low ? &e->s.low : &e->s.high;
    if (!qn_decimal_of(value, &bound.value)) {
        schema_fail(e->c, p->node, keyword, "must be a number, of at most %d digits and no larger than a double",
                    QN_DECIMAL_MOST_DIGITS);
        return;
    }
    int order = held->present ? qn_decimal_compare(&bound.value, &held->value) : 0;
    if (!held->present || (low ? order > 0 : order < 0))
        *held = bound;
    else if (order == 0)
        held->exclusive |= bound.exclusive;
}

/* minLength and its like. */
static void apply_count(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    shape *s = &e->s;
    qn_decimal d;
    if (!qn_decimal_of(value, &d) || d.negative || !qn_decimal_is_integer(&d)) {
        schema_fail(e->c, p->node, keyword, "must be an integer, 0 or more");
        return;
    }
    size_t number = 0;
    for (int i = 0; i < d.point && number < SCHEMA_MOST_COUNT; i++)
        number = 10 * number + (size_t)((unsigned)i < d.count ? d.digits[i] - '0' : 0);
    bool low = keyword[1] == 'i';
    size_t *held = strcmp(keyword + 3, "Length") == 0  ? (low ? &s->min_length : &s->max_length)
                   : strcmp(keyword + 3, "Items") == 0 ? (low ? &s->min_items : &s->max_items)
                                                       : (low ? &s->min_members : &s->max_members);
    if (number >= SCHEMA_MOST_COUNT && !low)
        return; /* no text is as long */
    if (number >= SCHEMA_MOST_COUNT) {
        schema_fail(e->c, p->node, keyword, "cannot be enforced: a lower bound of %d or more", SCHEMA_MOST_COUNT);
        return;
    }
    if (low ? number > *held : number < *held)
        *held = number;
}

static void apply_text(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_string(value))
        schema_fail(e->c, p->node, keyword, "must be a string");
    else
        use(e, &e->s.texts, p->node, keyword, value);
}

static void apply_required(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_array(value))
        schema_fail(e->c, p->node, keyword, "must be an array of names");
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_string(json_array_get(value, i)))
            schema_fail(e->c, p->node, keyword, "must be an array of names");
        use(e, &e->s.required, p->node, keyword, json_array_get(value, i));
    }
}

/* Once for a schema: the list holds the schema, not the keyword. */
static void apply_part(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    bool object = strstr(keyword, "ropert") != NULL;
    const keyword_use **list = object ? &e->s.members : &e->s.elements;
    if (strcmp(keyword, "items") == 0 && json_is_array(value))
        schema_fail(e->c, p->node, keyword, "must be a schema: a list of them is \"prefixItems\"");
    if (strcmp(keyword, "prefixItems") == 0 && !json_is_array(value))
        schema_fail(e->c, p->node, keyword, "must be an array of schemas");
    if ((strcmp(keyword, "properties") == 0 || strcmp(keyword, "patternProperties") == 0) && !json_is_object(value))
        schema_fail(e->c, p->node, keyword, "must be an object of schemas");
    if (!*list || (*list)->node != p->node)
        use(e, list, p->node, keyword, value);
}

static void apply_blocked(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    static const char *const harmless_when_false[] = {"uniqueItems", "nullable"};
    for (size_t i = 0; i < 2; i++)
        if (strcmp(keyword, harmless_when_false[i]) == 0 && json_is_false(value))
            return;
    if (json_is_true(value) && strcmp(keyword, "uniqueItems") != 0 && strcmp(keyword, "nullable") != 0)
        return; /* a schema that anything satisfies, as in "propertyNames": true */
    use(e, &e->s.blocked, p->node, keyword, value);
}

static void apply_contains(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    use(e, &e->s.blocked, p->node, keyword, value);
}

static void apply_not(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (json_is_false(value))
        return;
    if (json_is_true(value) || (json_is_object(value) && json_object_size(value) == 0)) {
        e->s.types = 0;
        return;
    }
    use(e, &e->s.blocked, p->node, keyword, value);
}

static void apply_if(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (json_object_get(p->node->schema, "then") || json_object_get(p->node->schema, "else"))
        use(e, &e->s.blocked, p->node, keyword, value);
}

/* Adds a schema that the value must satisfy too, unless it is one that leads to itself. */
static void push(expansion *e, const pending *parent, const char *keyword, const schema_node *node)
{
    compiler *c = e->c;
    if (c->failed || !node)
        return;
    for (const pending *p = parent; p; p = p->parent)
        if (p->node == node && !json_is_boolean(node->schema)) {
            schema_fail(c, parent->node, keyword, "leads back to itself without an end: nothing can be told from it");
            return;
        }
    pending *entry = schema_alloc(c, 1, sizeof *entry);
    if (!entry)
        return;
    *entry = (pending){node, parent, e->work};
    e->work = entry;
}

static void apply_ref(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_string(value))
        schema_fail(e->c, p->node, keyword, "must be a string");
    else
        push(e, p, keyword, schema_resolve(e->c, p->node, json_string_value(value)));
}

static const schema_node *option_node(expansion *e, const pending *p, const char *keyword, const json_t *list, size_t i)
{
    char index[24];
    snprintf(index, sizeof index, "%zu", i);
    return schema_child(e->c, p->node, keyword, index, json_array_get(list, i));
}

static void apply_all(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (json_array_size(value) == 0)
        schema_fail(e->c, p->node, keyword, "must be an array of schemas that has one at least");
    for (size_t i = 0; i < json_array_size(value); i++)
        push(e, p, keyword, option_node(e, p, keyword, value, i));
}

static void apply_branches(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    branching *entry = schema_alloc(e->c, 1, sizeof *entry);
    if (json_array_size(value) == 0)
        schema_fail(e->c, p->node, keyword, "must be an array of schemas that has one at least");
    if (!entry || e->c->failed)
        return;
    *entry = (branching){p, keyword, value, e->branches};
    e->branches = entry;
}

typedef struct keyword_rule {
    const char *name;
    void (*apply)(expansion *e, const pending *p, const char *keyword, const json_t *value);
} keyword_rule;

/* All keywords with which a schema of any draft, or of OpenAPI, can refuse a value. Others are annotations. */
static const keyword_rule rules[] = {
    {"type", apply_type},
    {"enum", apply_enum},
    {"const", apply_enum},
    {"minimum", apply_bound},
    {"maximum", apply_bound},
    {"exclusiveMinimum", apply_bound},
    {"exclusiveMaximum", apply_bound},
    {"minLength", apply_count},
    {"maxLength", apply_count},
    {"minItems", apply_count},
    {"maxItems", apply_count},
    {"minProperties", apply_count},
    {"maxProperties", apply_count},
    {"pattern", apply_text},
    {"format", apply_text},
    {"required", apply_required},
    {"properties", apply_part},
    {"patternProperties", apply_part},
    {"additionalProperties", apply_part},
    {"prefixItems", apply_part},
    {"items", apply_part},
    {"$ref", apply_ref},
    {"allOf", apply_all},
    {"anyOf", apply_branches},
    {"oneOf", apply_branches},
    {"not", apply_not},
    {"if", apply_if},
    {"multipleOf", apply_blocked},
    {"uniqueItems", apply_blocked},
    {"contains", apply_contains},
    {"propertyNames", apply_blocked},
    {"dependentRequired", apply_blocked},
    {"dependentSchemas", apply_blocked},
    {"dependencies", apply_blocked},
    {"unevaluatedProperties", apply_blocked},
    {"unevaluatedItems", apply_blocked},
    {"additionalItems", apply_blocked},
    {"$dynamicRef", apply_blocked},
    {"$recursiveRef", apply_blocked},
    {"extends", apply_blocked},
    {"disallow", apply_blocked},
    {"divisibleBy", apply_blocked},
    {"nullable", apply_blocked},
};

const char *schema_sole_keyword(const json_t *schema)
{
    const char *sole = NULL;
    for (size_t i = 0; json_is_object(schema) && i < sizeof rules / sizeof *rules; i++) {
        if (!json_object_get(schema, rules[i].name))
            continue;
        if (sole)
            return NULL;
        sole = rules[i].name;
    }
    return sole;
}

static void apply_schema(expansion *e, const pending *p)
{
    const json_t *schema = p->node->schema;
    if (json_is_false(schema))
        e->s.types = 0;
    if (!json_is_object(schema))
        return;
    for (const keyword_use *seen = e->s.all; seen; seen = seen->next)
        if (seen->node == p->node)
            return;
    use(e, &e->s.all, p->node, NULL, schema);
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !e->c->failed; i++) {
        const json_t *value = json_object_get(schema, rules[i].name);
        if (value)
            rules[i].apply(e, p, rules[i].name, value);
    }
}

/* Contradictions */

unsigned schema_keyword_types(const char *keyword)
{
    static const struct {
        const char *keyword;
        unsigned types;
    } of[] = {{"multipleOf", TYPE_NUMBER},    {"divisibleBy", TYPE_NUMBER},          {"uniqueItems", TYPE_ARRAY},
              {"contains", TYPE_ARRAY},       {"unevaluatedItems", TYPE_ARRAY},      {"additionalItems", TYPE_ARRAY},
              {"propertyNames", TYPE_OBJECT}, {"dependentRequired", TYPE_OBJECT},    {"dependentSchemas", TYPE_OBJECT},
              {"dependencies", TYPE_OBJECT},  {"unevaluatedProperties", TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (strcmp(keyword, of[i].keyword) == 0)
            return of[i].types;
    return TYPE_ANY;
}

static bool required_is_impossible(compiler *c, const shape *s)
{
    if (c->emptiness_depth >= SCHEMA_EMPTINESS_DEPTH)
        return false;
    bool impossible = false;
    c->emptiness_depth++;
    for (const keyword_use *r = s->required; r && !impossible && !c->failed; r = r->next) {
        node_set set = {0};
        schema_member_set(c, s, json_string_value(r->value), json_string_length(r->value), &set);
        impossible = set.count > 0 && schema_set_is_empty(c, &set);
    }
    c->emptiness_depth--;
    return impossible;
}

/* The values of a type that is left; branches share the old list, so it stays as it is. */
static void keep_possible_values(compiler *c, shape *s)
{
    const json_t **kept = schema_alloc(c, s->value_count + 1, sizeof *kept);
    size_t n = 0;
    unsigned types = 0;
    for (size_t i = 0; kept && i < s->value_count; i++) {
        unsigned type = schema_value_type(s->values[i]);
        if (type & s->types) {
            types |= type;
            kept[n++] = s->values[i];
        }
    }
    s->values = kept;
    s->value_count = n;
    s->types = types;
}

/* Takes away the types that cannot be. */
static void narrow(compiler *c, shape *s)
{
    if (qn_number_range_is_empty(&s->low, &s->high, true))
        s->types &= ~(unsigned)TYPE_INTEGER;
    if (qn_number_range_is_empty(&s->low, &s->high, false))
        s->types &= ~(unsigned)TYPE_NUMBER;
    if (s->min_length > s->max_length ||
        ((s->types & TYPE_STRING) && !s->values && s->texts && schema_string_is_empty(c, s)))
        s->types &= ~(unsigned)TYPE_STRING;
    if (s->min_items > s->max_items)
        s->types &= ~(unsigned)TYPE_ARRAY;
    if (s->min_members > s->max_members || ((s->types & TYPE_OBJECT) && required_is_impossible(c, s)))
        s->types &= ~(unsigned)TYPE_OBJECT;
    if (s->values)
        keep_possible_values(c, s);
}

/* Branches */

static void found_shape(compiler *c, void *context, const shape *s)
{
    (void)c;
    (void)s;
    *(bool *)context = true;
}

static void expand(expansion *e);

static void expand_option(const expansion *e, const pending *p, const char *keyword, const schema_node *node)
{
    expansion next = *e;
    push(&next, p, keyword, node);
    expand(&next);
}

/* Whether nothing can satisfy both options together with what else is asked. */
static bool disjoint(const expansion *e, const branching *at, size_t i, size_t j)
{
    bool found = false;
    expansion both = *e;
    both.branches = NULL; /* fewer conditions: what is empty without them is empty */
    both.sink = found_shape;
    both.context = &found;
    push(&both, at->at, at->keyword, option_node(&both, at->at, at->keyword, at->options, i));
    push(&both, at->at, at->keyword, option_node(&both, at->at, at->keyword, at->options, j));
    expand(&both);
    return !found;
}

static void check_exclusive(const expansion *e, const branching *at)
{
    size_t count = json_array_size(at->options);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count && !e->c->failed; j++)
            if (!disjoint(e, at, i, j))
                schema_fail(
                    e->c, at->at->node, at->keyword,
                    "cannot be enforced: options %zu and %zu may match the same value: tell them apart by type, "
                    "or by a required property with a \"const\", or use \"anyOf\"",
                    i, j);
}

static void expand(expansion *e)
{
    compiler *c = e->c;
    while (e->work && e->s.types != 0 && !c->failed) {
        const pending *p = e->work;
        e->work = p->next;
        apply_schema(e, p);
    }
    bool enough = e->sink == found_shape && *(bool *)e->context;
    if (c->failed || enough)
        return;
    narrow(c, &e->s);
    if (e->s.types == 0)
        return;
    c->shapes += e->sink != found_shape;
    if (++c->steps > SCHEMA_MOST_STEPS || c->shapes > SCHEMA_MOST_SHAPES) {
        schema_fail(c, NULL, NULL, "too many combinations of anyOf and oneOf: simplify the schema");
        return;
    }
    const branching *at = e->branches;
    if (!at) {
        e->sink(c, e->context, &e->s);
        return;
    }
    e->branches = at->next;
    if (strcmp(at->keyword, "oneOf") == 0)
        check_exclusive(e, at);
    for (size_t i = 0; i < json_array_size(at->options) && !c->failed; i++)
        expand_option(e, at->at, at->keyword, option_node(e, at->at, at->keyword, at->options, i));
}

void schema_shapes(compiler *c, const node_set *set, shape_sink sink, void *context)
{
    expansion e = {
        .c = c,
        .s = {.types = TYPE_ANY, .max_length = QN_UNBOUNDED, .max_items = QN_UNBOUNDED, .max_members = QN_UNBOUNDED},
        .sink = sink,
        .context = context};
    for (size_t i = set->count; i-- > 0;)
        push(&e, NULL, NULL, set->nodes[i]);
    expand(&e);
}

bool schema_set_is_empty(compiler *c, const node_set *set)
{
    bool found = false;
    schema_shapes(c, set, found_shape, &found);
    return !found;
}

/* Members and elements */

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
}

void schema_element_set(compiler *c, const shape *s, size_t index, node_set *out)
{
    for (const keyword_use *use = s->elements; use && !c->failed; use = use->next) {
        const json_t *prefix = json_object_get(use->node->schema, "prefixItems");
        const json_t *rest = json_object_get(use->node->schema, "items");
        char text[24];
        snprintf(text, sizeof text, "%zu", index);
        if (index < json_array_size(prefix))
            schema_set_add(c, out, schema_child(c, use->node, "prefixItems", text, json_array_get(prefix, index)));
        else if (rest)
            schema_set_add(c, out, schema_child(c, use->node, "items", NULL, rest));
    }
}
