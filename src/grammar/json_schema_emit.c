/* From a shape to the expression of its values, type by type. */
#include <string.h>

#include "grammar/json_schema_compiler.h"

/* Arrays */

/* The element at index, behind a rule when it is used more than once; QN_NO_WORDS: the array ends before it. */
static qn_expr element_expr(compiler *c, const shape *s, size_t index, bool shared)
{
    node_set set = {0};
    schema_element_set(c, s, index, &set);
    qn_expr expr = schema_set_expr(c, &set);
    return shared && set.count > 0 ? qn_words_shared(c->b, "array element", expr) : expr;
}

static size_t prefix_length(const shape *s)
{
    size_t most = 0;
    for (const keyword_use *use = s->elements; use; use = use->next) {
        size_t count = json_array_size(json_object_get(use->node->schema, "prefixItems"));
        most = count > most ? count : most;
    }
    return most;
}

/* "element, ..." min..max times, one at least. */
static qn_expr repeated(compiler *c, qn_expr element, size_t min, size_t max)
{
    qn_expr more = qn_expr_concat2(c->b, c->spelling.comma, element);
    return qn_expr_concat2(c->b, element,
                           qn_expr_repeat(c->b, more, min > 0 ? min - 1 : 0, max == QN_UNBOUNDED ? max : max - 1));
}

qn_expr schema_array_expr(compiler *c, const shape *s)
{
    qn_grammar_builder *b = c->b;
    size_t prefix = prefix_length(s), max = s->max_items, count = 0;
    qn_expr *elements = schema_alloc(c, prefix + 1, sizeof *elements);
    if (!elements)
        return QN_NO_WORDS;
    while (count < prefix && count < max && !c->failed) {
        elements[count] = element_expr(c, s, count, false);
        if (elements[count] == QN_NO_WORDS)
            max = count;
        else
            count++;
    }
    qn_expr rest = max > prefix ? element_expr(c, s, prefix, true) : QN_NO_WORDS;
    if (rest == QN_NO_WORDS && max > prefix)
        max = prefix;
    if (s->min_items > max || c->failed)
        return QN_NO_WORDS;
    qn_expr inside = QN_NO_WORDS; /* what may follow `count` elements, without the comma before it */
    size_t min_rest = s->min_items > count ? s->min_items - count : 0;
    if (rest != QN_NO_WORDS)
        inside = repeated(c, rest, min_rest, max == QN_UNBOUNDED ? max : max - count);
    for (size_t i = count; i-- > 0;) {
        qn_expr after = QN_NO_WORDS;
        if (inside != QN_NO_WORDS) {
            after = qn_expr_concat2(b, c->spelling.comma, inside);
            if (i + 1 >= s->min_items)
                after = qn_expr_optional(b, after);
        }
        inside = after == QN_NO_WORDS ? elements[i] : qn_expr_concat2(b, elements[i], after);
    }
    return qn_json_enclosed(&c->spelling, '[', inside, s->min_items == 0, ']');
}

/* Objects */

typedef struct members {
    schema_text *names;
    qn_expr *items; /* of those that can be; */
    bool *required;
    size_t name_count, item_count, required_count;
} members;

static bool is_required(const shape *s, const char *name, size_t bytes)
{
    for (const keyword_use *use = s->required; use; use = use->next)
        if (json_string_length(use->value) == bytes && memcmp(json_string_value(use->value), name, bytes) == 0)
            return true;
    return false;
}

static void add_name(compiler *c, members *m, const char *name, size_t bytes)
{
    for (size_t i = 0; i < m->name_count; i++)
        if (m->names[i].bytes == bytes && memcmp(m->names[i].data, name, bytes) == 0)
            return;
    if (bytes > SCHEMA_MOST_NAME_BYTES)
        schema_fail(c, NULL, NULL, "cannot be enforced: a property's name of more than %d bytes",
                    SCHEMA_MOST_NAME_BYTES);
    if (m->name_count == QN_GRAMMAR_MAX_ITEMS) {
        schema_fail(c, NULL, NULL, "cannot be enforced: an object with more than %d properties", QN_GRAMMAR_MAX_ITEMS);
        return;
    }
    m->names[m->name_count++] = (schema_text){name, bytes, 0};
}

static size_t most_names(const shape *s)
{
    size_t count = 0;
    for (const keyword_use *use = s->members; use; use = use->next)
        count += json_object_size(json_object_get(use->node->schema, "properties"));
    for (const keyword_use *use = s->required; use; use = use->next)
        count++;
    return count;
}

static void collect_names(compiler *c, const shape *s, members *m)
{
    for (const keyword_use *use = s->members; use && !c->failed; use = use->next) {
        const json_t *properties = json_object_get(use->node->schema, "properties");
        const char *name;
        size_t bytes;
        json_t *value;
        json_object_keylen_foreach((json_t *)properties, name, bytes, value) add_name(c, m, name, bytes);
    }
    for (const keyword_use *use = s->required; use && !c->failed; use = use->next)
        add_name(c, m, json_string_value(use->value), json_string_length(use->value));
}

/* The declared members that can be; false when a required one cannot. */
static bool add_items(compiler *c, const shape *s, members *m)
{
    for (size_t i = 0; i < m->name_count && !c->failed; i++) {
        const schema_text *name = &m->names[i];
        node_set set = {0};
        schema_member_set(c, s, name->data, name->bytes, &set);
        qn_expr value = schema_set_expr(c, &set);
        bool required = is_required(s, name->data, name->bytes);
        if (value == QN_NO_WORDS && required)
            return false;
        if (value == QN_NO_WORDS)
            continue;
        m->items[m->item_count] = qn_expr_concat(
            c->b, (qn_expr[]){schema_name_expr(c, name->data, name->bytes), c->spelling.colon, value}, 3);
        m->required[m->item_count++] = required;
        m->required_count += required;
    }
    return !c->failed;
}

qn_expr schema_object_expr(compiler *c, const shape *s)
{
    size_t most = most_names(s) + 1;
    members m = {.names = schema_alloc(c, most, sizeof *m.names),
                 .items = schema_alloc(c, most, sizeof *m.items),
                 .required = schema_alloc(c, most, sizeof *m.required)};
    if (c->failed)
        return QN_NO_WORDS;
    collect_names(c, s, &m);
    if (!add_items(c, s, &m))
        return QN_NO_WORDS;
    qn_expr extra = schema_other_members_expr(c, s, m.names, m.name_count);
    bool more = extra != QN_NO_WORDS;
    if (m.required_count > s->max_members || (!more && m.item_count < s->min_members) || c->failed)
        return QN_NO_WORDS;
    qn_expr inside = QN_NO_WORDS;
    if ((m.item_count > 0 || more) && s->max_members > 0) {
        qn_each_once group = {m.items,           m.required,
                              m.item_count,      more ? &extra : NULL,
                              c->spelling.comma, s->min_members > 0 ? s->min_members : 1,
                              s->max_members};
        inside = qn_expr_each_once(c->b, &group);
    }
    return qn_json_enclosed(&c->spelling, '{', inside, s->min_members == 0 && m.required_count == 0, '}');
}

/* Shapes */

static bool is_free_object(const shape *s)
{
    return !s->members && !s->required && s->min_members == 0 && s->max_members == QN_UNBOUNDED;
}

static bool is_free_array(const shape *s)
{
    return !s->elements && s->min_items == 0 && s->max_items == QN_UNBOUNDED;
}

static qn_expr values_expr(compiler *c, const shape *s, bool bare)
{
    const json_t **kept = schema_alloc(c, s->value_count + 1, sizeof *kept);
    size_t n = 0;
    for (size_t i = 0; kept && i < s->value_count && !c->failed; i++)
        if (schema_listed_value_fits(c, s, s->values[i]))
            kept[n++] = s->values[i];
    return n > 0 && !c->failed ? schema_values_expr(c, kept, n, bare) : QN_NO_WORDS;
}

qn_expr schema_bare_values_expr(compiler *c, const shape *s)
{
    return values_expr(c, s, true);
}

qn_expr schema_shape_expr(compiler *c, const shape *s)
{
    qn_grammar_builder *b = c->b;
    qn_expr options[6];
    size_t n = 0;
    if (s->values)
        return values_expr(c, s, false);
    schema_check_blocked(c, s, s->types);
    if (c->failed)
        return QN_NO_WORDS;
    if (s->types & TYPE_NULL)
        options[n++] = qn_expr_text(b, "null");
    if (s->types & TYPE_BOOLEAN)
        options[n++] = qn_expr_choice(b, (qn_expr[]){qn_expr_text(b, "true"), qn_expr_text(b, "false")}, 2);
    if (s->types & TYPE_NUMBER) {
        bool integer = !(s->types & TYPE_FRACTION);
        options[n++] = s->low.present || s->high.present ? qn_json_number_range(b, &s->low, &s->high, integer)
                       : integer                         ? c->spelling.any_integer
                                                         : c->spelling.any_number;
    }
    if (s->types & TYPE_STRING)
        options[n++] = schema_string_expr(c, s, false);
    if (s->types & TYPE_ARRAY)
        options[n++] = is_free_array(s) ? c->spelling.any_array : schema_array_expr(c, s);
    if (s->types & TYPE_OBJECT)
        options[n++] = is_free_object(s) ? c->spelling.any_object : schema_object_expr(c, s);
    return qn_words_choice(b, options, n);
}
