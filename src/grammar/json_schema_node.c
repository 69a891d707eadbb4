/* Schemas and where they stand: one node for each, found again by the address of its JSON value. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "grammar/json_schema_compiler.h"

void schema_fail(compiler *c, const schema_node *node, const char *keyword, const char *format, ...)
{
    if (c->failed)
        return;
    char text[QN_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    c->failed = true;
    const schema_node *at = node ? node : c->current;
    const char *place = at ? at->place : "";
    size_t length = strlen(place), shown = length > 300 ? 300 : length; /* the end tells more */
    qn_fail(&c->err, QN_USAGE, "%s: %s%s%s%s: %s", c->what, shown < length ? "..." : "", place + length - shown,
            keyword      ? "/"
            : length > 0 ? ""
                         : "(root)",
            keyword ? keyword : "", text);
    qn_grammar_builder_fail(c->b, &c->err);
}

void schema_fail_memory(compiler *c)
{
    if (c->failed)
        return;
    if (c->arena && qn_arena_used_bytes(c->arena) > SCHEMA_ARENA_BYTES / 2) {
        schema_fail(c, NULL, NULL, "too large to compile: simplify the schema");
        return;
    }
    c->failed = true;
    qn_fail_memory(&c->err, c->what, 0);
    qn_grammar_builder_fail(c->b, &c->err);
}

void *schema_alloc(compiler *c, size_t count, size_t size)
{
    void *data = c->failed ? NULL : qn_arena_alloc(c->arena, count, size);
    if (!data)
        schema_fail_memory(c);
    return data;
}

/* Nodes */

static size_t slot_of(const json_t *schema, size_t capacity)
{
    uint64_t h = (uint64_t)(uintptr_t)schema * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h >> 32) & (capacity - 1);
}

static bool grow_nodes(compiler *c)
{
    size_t capacity = c->node_capacity ? 2 * c->node_capacity : 256;
    schema_node **slots = schema_alloc(c, capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < c->node_capacity; i++) {
        if (!c->node_slots[i])
            continue;
        size_t at = slot_of(c->node_slots[i]->schema, capacity);
        while (slots[at])
            at = (at + 1) & (capacity - 1);
        slots[at] = c->node_slots[i];
    }
    c->node_slots = slots;
    c->node_capacity = capacity;
    return true;
}

const char *schema_own_id(const json_t *schema)
{
    const char *id = json_string_value(json_object_get(schema, "$id"));
    return id && id[0] != '#' ? id : NULL;
}

const schema_node *schema_find_node(compiler *c, const json_t *schema)
{
    if (c->node_capacity == 0)
        return NULL;
    for (size_t at = slot_of(schema, c->node_capacity); c->node_slots[at]; at = (at + 1) & (c->node_capacity - 1))
        if (c->node_slots[at]->schema == schema)
            return c->node_slots[at];
    return NULL;
}

const schema_node *schema_new_node(compiler *c, const json_t *schema, const char *place, const json_t *resource)
{
    if (c->failed)
        return NULL;
    if (2 * (c->node_count + 1) > c->node_capacity && !grow_nodes(c))
        return NULL;
    schema_node *node = place ? schema_alloc(c, 1, sizeof *node) : NULL;
    json_t **opposite = schema_alloc(c, 1, sizeof(json_t *));
    if (!node || !opposite) {
        schema_fail_memory(c);
        return NULL;
    }
    *node = (schema_node){schema, place, schema_own_id(schema) ? schema : resource, (uint32_t)c->node_count, opposite};
    if (c->node_count >= SCHEMA_MOST_NODES) {
        schema_fail(c, node, NULL, "more than %d schemas: simplify the schema", SCHEMA_MOST_NODES);
        return NULL;
    }
    size_t at = slot_of(schema, c->node_capacity);
    while (c->node_slots[at])
        at = (at + 1) & (c->node_capacity - 1);
    c->node_slots[at] = node;
    c->node_count++;
    if (!qn_json_is_object(schema) && !json_is_boolean(schema))
        schema_fail(c, node, NULL, "not a schema but a value of type %s: a schema is an object or a boolean",
                    schema ? qn_json_type_name(schema) : "unknown");
    const json_t *nullable = json_object_get(schema, "nullable");
    if (nullable && !json_is_boolean(nullable))
        schema_fail(c, node, "nullable", "must be true or false");
    return node;
}

const schema_node *schema_root_node(compiler *c, const json_t *schema)
{
    const schema_node *known = schema_find_node(c, schema);
    return known ? known : schema_new_node(c, schema, "", c->root);
}

/* key as a token of a JSON pointer. */
static void append_token(qn_buffer *out, const char *key)
{
    qn_buffer_char(out, '/');
    for (; *key; key++) {
        if (*key == '~' || *key == '/')
            qn_buffer_text(out, *key == '~' ? "~0" : "~1");
        else
            qn_buffer_char(out, *key);
    }
}

const schema_node *schema_child(compiler *c, const schema_node *parent, const char *keyword, const char *key,
                                const json_t *schema)
{
    const schema_node *known = c->failed ? NULL : schema_find_node(c, schema);
    if (known || c->failed)
        return known;
    qn_buffer place = {0};
    qn_buffer_text(&place, parent->place);
    append_token(&place, keyword);
    if (key)
        append_token(&place, key);
    const char *copy = place.failed ? NULL : qn_arena_strndup(c->arena, place.data, place.size);
    qn_buffer_free(&place);
    return schema_new_node(c, schema, copy, parent->resource);
}

void schema_set_add(compiler *c, node_set *set, const schema_node *node)
{
    if (c->failed || !node || json_is_true(node->schema))
        return;
    size_t at = set->count;
    while (at > 0 && set->nodes[at - 1]->id >= node->id)
        at--;
    if (at < set->count && set->nodes[at]->id == node->id)
        return;
    if (set->count == set->capacity) {
        size_t capacity = set->capacity ? 2 * set->capacity : 4;
        const schema_node **nodes = schema_alloc(c, capacity, sizeof *nodes);
        if (!nodes)
            return;
        if (set->count > 0)
            memcpy(nodes, set->nodes, set->count * sizeof(const schema_node *));
        set->nodes = nodes;
        set->capacity = capacity;
    }
    memmove(set->nodes + at + 1, set->nodes + at, (set->count - at) * sizeof(const schema_node *));
    set->nodes[at] = node;
    set->count++;
}
