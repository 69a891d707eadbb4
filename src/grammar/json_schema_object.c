/* An object of one shape: its members, and the group of them. */
#include <string.h>

#include "grammar/json_schema_object.h"

bool schema_is_free_object(const shape *s)
{
    return !s->members && !s->unevaluated && !s->required && !s->names && s->min_members == 0 &&
           s->max_members == QN_UNBOUNDED;
}

static bool is_required(const shape *s, const char *name, size_t bytes)
{
    for (const keyword_use *use = s->required; use; use = use->next)
        if (json_string_length(use->value) == bytes && memcmp(json_string_value(use->value), name, bytes) == 0)
            return true;
    return false;
}

static void add_name(compiler *c, object_members *m, const char *name, size_t bytes)
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

static void collect_names(compiler *c, const shape *s, object_members *m)
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

/* The text of which the values of a set are none but it, if one of its schemas tells so; NULL: none does. */
static const json_t *only_text(const node_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const json_t *value = json_object_get(set->nodes[i]->schema, "const"),
                     *list = json_object_get(set->nodes[i]->schema, "enum");
        if (!value && json_array_size(list) == 1)
            value = json_array_get(list, 0);
        if (json_is_string(value))
            return value;
    }
    return NULL;
}

/* The declared members that can be; false when a required one cannot. */
static bool add_items(compiler *c, const shape *s, object_members *m)
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
        m->items[m->item_count++] = (object_item){i, value, only_text(&set), required};
        m->required_count += required;
    }
    return !c->failed;
}

/* Names that are listed by "propertyNames" are as good as declared; true when there are no others. */
static bool add_listed_names(compiler *c, const json_t *listed, object_members *m)
{
    for (size_t i = 0; i < json_array_size(listed) && !c->failed; i++) {
        const json_t *name = json_array_get(listed, i);
        if (json_is_string(name))
            add_name(c, m, json_string_value(name), json_string_length(name));
    }
    return listed != NULL;
}

bool schema_object_members(compiler *c, const shape *s, object_members *m)
{
    const json_t *listed = schema_listed_names(c, s);
    size_t most = most_names(s) + json_array_size(listed) + 1;
    *m = (object_members){.names = schema_alloc(c, most, sizeof *m->names),
                          .items = schema_alloc(c, most, sizeof *m->items),
                          .min = s->min_members,
                          .max = s->max_members};
    if (c->failed)
        return false;
    collect_names(c, s, m);
    m->closed = add_listed_names(c, listed, m);
    return add_items(c, s, m);
}

bool schema_object_can_be(compiler *c, const shape *s, object_members *m, bool others)
{
    m->closed = !others || m->max <= m->required_count;
    if (m->required_count > m->max || (m->closed && m->item_count < m->min) || c->failed)
        return false;
    return m->closed || counts_members(c, s, m->required_count);
}

qn_expr schema_object_expr(compiler *c, const shape *s)
{
    object_members m;
    if (!schema_object_members(c, s, &m))
        return QN_NO_WORDS;
    qn_expr extra = m.closed ? QN_NO_WORDS : schema_other_members_expr(c, s, m.names, m.name_count);
    qn_expr *items = schema_alloc(c, m.item_count + 1, sizeof *items), inside = QN_NO_WORDS;
    bool *required = schema_alloc(c, m.item_count + 1, sizeof *required);
    if (!schema_object_can_be(c, s, &m, extra != QN_NO_WORDS) || !items || !required)
        return QN_NO_WORDS;
    for (size_t i = 0; i < m.item_count; i++) {
        const schema_text *name = &m.names[m.items[i].name];
        items[i] = qn_expr_concat(
            c->b, (qn_expr[]){schema_name_expr(c, name->data, name->bytes), c->spelling.colon, m.items[i].value}, 3);
        required[i] = m.items[i].required;
    }
    if ((m.item_count > 0 || !m.closed) && m.max > 0) {
        qn_each_once group = {
            items, required, m.item_count, m.closed ? NULL : &extra, c->spelling.comma, m.min > 0 ? m.min : 1, m.max};
        inside = qn_expr_each_once(c->b, &group);
    }
    return qn_json_enclosed(&c->spelling, '{', inside, m.min == 0 && m.required_count == 0, '}');
}
