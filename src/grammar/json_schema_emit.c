/* From a shape to the expression of its values, type by type. */
#include <string.h>

#include "grammar/json_schema_compiler.h"

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

/* "minProperties" counts members; a name that is not declared may come again, so no more than one such name is sure. */
static bool counts_members(compiler *c, const shape *s, size_t sure)
{
    if (s->min_members <= sure + 1)
        return true;
    const schema_node *node = NULL;
    for (const keyword_use *use = s->all; use; use = use->next)
        if (json_object_get(use->node->schema, "minProperties") || !node)
            node = use->node;
    schema_fail(c, node, json_object_get(node->schema, "minProperties") ? "minProperties" : NULL,
                "cannot be enforced: more than %zu members where undeclared names are allowed: set "
                "\"additionalProperties\" to false, or require more names",
                sure + 1);
    return false;
}

/* The declared members that can be; false when a required one cannot. */
static bool add_items(compiler *c, const shape *s, members *m)
{
    for (size_t i = 0; i < m->name_count && !c->failed; i++) {
        const schema_text *name = &m->names[i];
        node_set set = {0};
        schema_member_set(c, s, name->data, name->bytes, &set);
        bool required = is_required(s, name->data, name->bytes);
        qn_expr value = schema_name_fits(c, s, name->data, name->bytes) ? schema_set_expr(c, &set) : QN_NO_WORDS;
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

/* Names that are listed by "propertyNames" are as good as declared; true when there are no others. */
static bool add_listed_names(compiler *c, const json_t *listed, members *m)
{
    for (size_t i = 0; i < json_array_size(listed) && !c->failed; i++) {
        const json_t *name = json_array_get(listed, i);
        if (json_is_string(name))
            add_name(c, m, json_string_value(name), json_string_length(name));
    }
    return listed != NULL;
}

qn_expr schema_object_expr(compiler *c, const shape *s)
{
    const json_t *listed = schema_listed_names(c, s);
    size_t most = most_names(s) + json_array_size(listed) + 1;
    members m = {.names = schema_alloc(c, most, sizeof *m.names),
                 .items = schema_alloc(c, most, sizeof *m.items),
                 .required = schema_alloc(c, most, sizeof *m.required)};
    if (c->failed)
        return QN_NO_WORDS;
    collect_names(c, s, &m);
    bool closed = add_listed_names(c, listed, &m);
    if (!add_items(c, s, &m))
        return QN_NO_WORDS;
    qn_expr extra = closed ? QN_NO_WORDS : schema_other_members_expr(c, s, m.names, m.name_count);
    bool more = extra != QN_NO_WORDS && s->max_members > m.required_count;
    if (m.required_count > s->max_members || (!more && m.item_count < s->min_members) || c->failed ||
        (more && !counts_members(c, s, m.required_count)))
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
    return !s->members && !s->unevaluated && !s->required && !s->names && s->min_members == 0 &&
           s->max_members == QN_UNBOUNDED;
}

static bool is_free_array(const shape *s)
{
    return !s->elements && !s->unevaluated_items && !s->contains && !s->unique && s->min_items == 0 &&
           s->max_items == QN_UNBOUNDED;
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

/* Whatever its excluded values, an array or object is not written otherwise. */
static void check_excluded(compiler *c, const shape *s)
{
    for (const keyword_use *use = s->excluded; use; use = use->next) {
        unsigned type = schema_value_type(use->value);
        if (type & s->types & (TYPE_ARRAY | TYPE_OBJECT))
            schema_fail(c, use->node, use->keyword, "cannot be enforced: any %s but one",
                        qn_json_type_name(use->value));
    }
}

static qn_expr boolean_expr(compiler *c, const shape *s)
{
    qn_expr options[2];
    size_t n = 0;
    if (!schema_is_excluded(s, json_true()))
        options[n++] = qn_expr_text(c->b, "true");
    if (!schema_is_excluded(s, json_false()))
        options[n++] = qn_expr_text(c->b, "false");
    return qn_words_choice(c->b, options, n);
}

qn_expr schema_shape_expr(compiler *c, const shape *s)
{
    qn_expr options[6];
    size_t n = 0;
    if (s->values)
        return values_expr(c, s, false);
    schema_check_blocked(c, s, s->types);
    check_excluded(c, s);
    if (c->failed)
        return QN_NO_WORDS;
    if (s->types & TYPE_NULL)
        options[n++] = qn_expr_text(c->b, "null");
    if (s->types & TYPE_BOOLEAN)
        options[n++] = boolean_expr(c, s);
    if (s->types & TYPE_NUMBER)
        options[n++] = schema_number_expr(c, s);
    if (s->types & TYPE_STRING)
        options[n++] = schema_string_expr(c, s, false);
    if (s->types & TYPE_ARRAY)
        options[n++] = is_free_array(s) ? c->spelling.any_array : schema_array_expr(c, s);
    if (s->types & TYPE_OBJECT)
        options[n++] = is_free_object(s) ? c->spelling.any_object : schema_object_expr(c, s);
    return qn_words_choice(c->b, options, n);
}
