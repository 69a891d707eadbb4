/* Keywords that say something of the value itself: each narrows the shape. */
#include <string.h>

#include "base/json_wide.h"
#include "grammar/json_schema_expansion.h"

void schema_use(expansion *e, const keyword_use **list, const schema_node *node, const char *keyword,
                const json_t *value, bool negated)
{
    keyword_use *entry = schema_alloc(e->c, 1, sizeof *entry);
    if (!entry)
        return;
    *entry = (keyword_use){node, keyword, value, negated, e->at, *list};
    *list = entry;
}

/* Types and values */

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

unsigned schema_type_bits(expansion *e, const schema_node *node, const json_t *value)
{
    /* OpenAPI's "nullable" says nothing but beside a "type", to which it adds null */
    unsigned types = json_is_true(json_object_get(node->schema, "nullable")) ? TYPE_NULL : 0;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < count; i++) {
        unsigned one = type_named(json_string_value(json_is_array(value) ? json_array_get(value, i) : value));
        if (one == 0)
            schema_fail(e->c, node, "type",
                        "must be one of null, boolean, integer, number, string, array and object, or a list of them");
        types |= one;
    }
    return types;
}

void schema_apply_type(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    (void)keyword;
    unsigned types = schema_type_bits(e, p->node, value);
    e->s.types &= types;
    if (!p->hidden) {
        e->s.seen_types &= types;
        e->s.typed = true;
    }
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

void schema_apply_enum(expansion *e, const pending *p, const char *keyword, const json_t *value)
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
    e->s.seen_values |= !p->hidden;
}

/* Bounds */

const json_t *schema_excluded_bound(expansion *e, const schema_node *node, const char *keyword)
{
    const char *bound = strcmp(keyword, "exclusiveMinimum") == 0 ? "minimum" : "maximum";
    const json_t *value = json_object_get(node->schema, bound);
    if (!value)
        schema_fail(e->c, node, keyword, "true without a \"%s\" beside it: send a number", bound);
    return value;
}

void schema_refuse_bound(expansion *e, const schema_node *node, const char *keyword)
{
    schema_fail(e->c, node, keyword, "must be a number, of at most %d digits and no larger than a double",
                QN_DECIMAL_MOST_DIGITS);
}

void schema_apply_bound(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    bool low = strstr(keyword, "inimum") != NULL;
    qn_number_bound bound = {true, strncmp(keyword, "exclusive", 9) == 0, {0}};
    qn_number_bound *held = low ? &e->s.low : &e->s.high;
    if (bound.exclusive && json_is_boolean(value)) {
        if (json_is_false(value))
            return;
        value = schema_excluded_bound(e, p->node, keyword);
    }
    if (!qn_decimal_of(value, &bound.value)) {
        schema_refuse_bound(e, p->node, keyword);
        return;
    }
    int order = held->present ? qn_decimal_compare(&bound.value, &held->value) : 0;
    if (!held->present || (low ? order > 0 : order < 0))
        *held = bound;
    else if (order == 0)
        held->exclusive |= bound.exclusive;
}

bool schema_count_of(const json_t *value, size_t *out)
{
    qn_decimal d;
    *out = 0;
    if (!qn_decimal_of(value, &d) || d.negative || !qn_decimal_is_integer(&d))
        return false;
    for (int i = 0; i < d.point && *out < SCHEMA_MOST_COUNT; i++)
        *out = 10 * *out + (size_t)((unsigned)i < d.count ? d.digits[i] - '0' : 0);
    *out = *out < SCHEMA_MOST_COUNT ? *out : SCHEMA_MOST_COUNT;
    return true;
}

bool schema_read_count(expansion *e, const schema_node *node, const char *keyword, const json_t *value, size_t *out)
{
    if (schema_count_of(value, out))
        return true;
    schema_fail(e->c, node, keyword, "must be an integer, 0 or more");
    return false;
}

void schema_hold_count(shape *s, const char *keyword, bool low, size_t number)
{
    size_t *held = strcmp(keyword + 3, "Length") == 0  ? (low ? &s->min_length : &s->max_length)
                   : strcmp(keyword + 3, "Items") == 0 ? (low ? &s->min_items : &s->max_items)
                                                       : (low ? &s->min_members : &s->max_members);
    if (low ? number > *held : number < *held)
        *held = number;
}

/* minLength and its like. */
void schema_apply_count(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    size_t number;
    bool low = keyword[1] == 'i';
    if (!schema_read_count(e, p->node, keyword, value, &number))
        return;
    if (number >= SCHEMA_MOST_COUNT && !low)
        return; /* no text is as long */
    if (number >= SCHEMA_MOST_COUNT)
        schema_fail(e->c, p->node, keyword, "cannot be enforced: a lower bound of %d or more", SCHEMA_MOST_COUNT);
    else
        schema_hold_count(&e->s, keyword, low, number);
}

/* Texts, members, elements */

void schema_apply_text(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_string(value))
        schema_fail(e->c, p->node, keyword, "must be a string");
    else if (strcmp(keyword, "pattern") != 0 || !schema_split_lookahead(e, p->node, value))
        schema_use(e, &e->s.texts, p->node, keyword, value, false);
}

void schema_apply_required(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_array(value))
        schema_fail(e->c, p->node, keyword, "must be an array of names");
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_string(json_array_get(value, i)))
            schema_fail(e->c, p->node, keyword, "must be an array of names");
        schema_use(e, &e->s.required, p->node, keyword, json_array_get(value, i), false);
    }
}

/* Once for a schema: the list holds the schema, not the keyword. */
void schema_apply_part(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    bool object = strstr(keyword, "ropert") != NULL;
    const keyword_use **list = object ? &e->s.members : &e->s.elements;
    if (!object)
        schema_check_elements(e->c, p->node, keyword, value);
    if ((strcmp(keyword, "properties") == 0 || strcmp(keyword, "patternProperties") == 0) && !qn_json_is_object(value))
        schema_fail(e->c, p->node, keyword, "must be an object of schemas");
    if (!*list || (*list)->node != p->node || (*list)->at != p)
        schema_use(e, list, p->node, keyword, value, false);
}

void schema_apply_contains(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    static const char *const bounds[] = {"minContains", "maxContains"};
    bool any = true; /* no number of them is wrong */
    for (size_t i = 0; i < 2; i++) {
        const json_t *bound = json_object_get(p->node->schema, bounds[i]);
        size_t number = i == 0;
        if (bound && !schema_read_count(e, p->node, bounds[i], bound, &number))
            return;
        any &= i == 0 ? number == 0 : !bound;
        if (i == 0 && number >= SCHEMA_MOST_COUNT)
            schema_fail(e->c, p->node, bounds[i], "cannot be enforced: a lower bound of %d or more", SCHEMA_MOST_COUNT);
    }
    if (!any)
        schema_use(e, &e->s.contains, p->node, keyword, value, false);
}

void schema_apply_unique(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_boolean(value))
        schema_fail(e->c, p->node, keyword, "must be true or false");
    else if (json_is_true(value))
        schema_use(e, &e->s.unique, p->node, keyword, value, false);
}

void schema_apply_names(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (schema_child(e->c, p->node, keyword, NULL, value) && !json_is_true(value))
        schema_use(e, &e->s.names, p->node, keyword, value, false);
}

void schema_apply_unevaluated(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    const keyword_use **list = strcmp(keyword, "unevaluatedItems") == 0 ? &e->s.unevaluated_items : &e->s.unevaluated;
    if (!e->c->unevaluated) /* a $ref leads to an object that is no schema where it stands */
        schema_fail(e->c, p->node, keyword, "cannot be enforced: no schema stands there: move it under \"$defs\"");
    if (schema_child(e->c, p->node, keyword, NULL, value))
        schema_use(e, list, p->node, keyword, value, false);
}

void schema_apply_blocked(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    if (!json_is_true(value))
        schema_use(e, &e->s.blocked, p->node, keyword, value, false);
}

/* Contradictions */

unsigned schema_keyword_types(const char *keyword)
{
    return strcmp(keyword, "divisibleBy") == 0 ? TYPE_NUMBER : TYPE_ANY;
}

static bool required_is_impossible(compiler *c, const shape *all, bool whole)
{
    shape held = *all, *s = &held;
    if (!whole) /* what is still to come may evaluate a member */
        s->unevaluated = NULL;
    if (c->emptiness_depth >= SCHEMA_EMPTINESS_DEPTH)
        return false;
    bool impossible = false;
    c->emptiness_depth++;
    for (const keyword_use *r = s->required; r && !impossible && !c->failed; r = r->next) {
        node_set set = {0};
        const char *name = json_string_value(r->value);
        size_t bytes = json_string_length(r->value);
        schema_member_set(c, s, name, bytes, &set);
        impossible = !schema_name_fits(c, s, name, bytes) || (set.count > 0 && schema_set_is_empty(c, &set));
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
        if ((type & s->types) && !schema_is_excluded(s, s->values[i])) {
            types |= type;
            kept[n++] = s->values[i];
        }
    }
    s->values = kept;
    s->value_count = n;
    s->types = types;
}

static void exclude_types(shape *s)
{
    bool no_true = false, no_false = false;
    for (const keyword_use *use = s->excluded; use; use = use->next) {
        if (json_is_null(use->value))
            s->types &= ~(unsigned)TYPE_NULL;
        no_true |= json_is_true(use->value);
        no_false |= json_is_false(use->value);
    }
    if (no_true && no_false)
        s->types &= ~(unsigned)TYPE_BOOLEAN;
}

void schema_narrow(compiler *c, shape *s, bool whole)
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
    if (s->min_members > s->max_members || ((s->types & TYPE_OBJECT) && required_is_impossible(c, s, whole)))
        s->types &= ~(unsigned)TYPE_OBJECT;
    exclude_types(s);
    if (s->values)
        keep_possible_values(c, s);
}
