/* Schemas and where they stand: one node for each, found again by the address of its JSON value; and the references
 * that lead from one to another. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "grammar/json_schema_compiler.h"

enum { MOST_SEARCHED = 1 << 24 }; /* values looked at for anchors, over a whole schema */

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
    const char *place = node ? node->place : "";
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
    c->failed = true;
    if (c->arena && qn_arena_used_bytes(c->arena) > SCHEMA_ARENA_BYTES / 2)
        qn_fail(&c->err, QN_USAGE, "%s: too large to compile: simplify the schema", c->what);
    else
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

static const char *string_id(const json_t *schema)
{
    const char *id = json_string_value(json_object_get(schema, "$id"));
    return id && id[0] != '#' ? id : NULL;
}

static const schema_node *find_node(compiler *c, const json_t *schema)
{
    if (c->node_capacity == 0)
        return NULL;
    for (size_t at = slot_of(schema, c->node_capacity); c->node_slots[at]; at = (at + 1) & (c->node_capacity - 1))
        if (c->node_slots[at]->schema == schema)
            return c->node_slots[at];
    return NULL;
}

/* The node of this schema, made if it is new; place is in the arena, or NULL when memory was short. */
static const schema_node *intern(compiler *c, const json_t *schema, const char *place, const json_t *resource)
{
    if (c->failed)
        return NULL;
    if (2 * (c->node_count + 1) > c->node_capacity && !grow_nodes(c))
        return NULL;
    schema_node *node = place ? schema_alloc(c, 1, sizeof *node) : NULL;
    if (!node) {
        schema_fail_memory(c);
        return NULL;
    }
    *node = (schema_node){schema, place, string_id(schema) ? schema : resource, (uint32_t)c->node_count};
    if (c->node_count >= SCHEMA_MOST_NODES) {
        schema_fail(c, node, NULL, "more than %d schemas: simplify the schema", SCHEMA_MOST_NODES);
        return NULL;
    }
    size_t at = slot_of(schema, c->node_capacity);
    while (c->node_slots[at])
        at = (at + 1) & (c->node_capacity - 1);
    c->node_slots[at] = node;
    c->node_count++;
    if (!json_is_object(schema) && !json_is_boolean(schema))
        schema_fail(c, node, NULL, "not a schema but a value of type %s: a schema is an object or a boolean",
                    schema ? qn_json_type_name(schema) : "unknown");
    return node;
}

const schema_node *schema_root_node(compiler *c, const json_t *schema)
{
    const schema_node *known = find_node(c, schema);
    return known ? known : intern(c, schema, "", c->root);
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
    const schema_node *known = c->failed ? NULL : find_node(c, schema);
    if (known || c->failed)
        return known;
    qn_buffer place = {0};
    qn_buffer_text(&place, parent->place);
    append_token(&place, keyword);
    if (key)
        append_token(&place, key);
    const char *copy = place.failed ? NULL : qn_arena_strndup(c->arena, place.data, place.size);
    qn_buffer_free(&place);
    return intern(c, schema, copy, parent->resource);
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

/* References */

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* A URI fragment without its percent signs; NULL when memory is short. */
static char *decode_fragment(compiler *c, const char *text)
{
    char *out = schema_alloc(c, strlen(text) + 1, 1), *to = out;
    if (!out)
        return NULL;
    for (; *text; text++) {
        int high = *text == '%' ? hex_value(text[1]) : -1, low = high >= 0 ? hex_value(text[2]) : -1;
        if (low >= 0) {
            *to++ = (char)(high * 16 + low);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return out;
}

/* Takes the next token, unescaped, off the pointer; false at its end. */
static bool next_token(const char **pointer, char *token)
{
    const char *at = *pointer;
    if (*at++ != '/')
        return false;
    for (; *at && *at != '/'; at++) {
        if (*at == '~' && (at[1] == '0' || at[1] == '1'))
            *token++ = *++at == '0' ? '~' : '/';
        else
            *token++ = *at;
    }
    *token = '\0';
    *pointer = at;
    return true;
}

static const json_t *step(const json_t *value, const char *token)
{
    if (json_is_object(value))
        return json_object_get(value, token);
    if (!json_is_array(value) || *token == '\0' || strlen(token) > 9)
        return NULL;
    size_t index = 0;
    for (; *token; token++) {
        if (*token < '0' || *token > '9')
            return NULL;
        index = 10 * index + (size_t)(*token - '0');
    }
    return json_array_get(value, index);
}

static const schema_node *follow_pointer(compiler *c, const schema_node *from, const json_t *resource, char *pointer)
{
    const char *at = pointer;
    const json_t *value = resource;
    char *token = schema_alloc(c, strlen(pointer) + 1, 1);
    while (token && value && next_token(&at, token)) {
        value = step(value, token);
        if (value && string_id(value))
            resource = value;
    }
    if (!token || c->failed)
        return NULL;
    if (!value || *at) {
        schema_fail(c, from, "$ref", "nothing is at \"#%s\" in the schema", pointer);
        return NULL;
    }
    const schema_node *known = find_node(c, value);
    return known ? known : intern(c, value, pointer, resource);
}

/* The schema with this anchor in the resource, others inside it not counted. */
static const json_t *find_anchor(compiler *c, const json_t *value, const char *name)
{
    const json_t *found = NULL;
    if (++c->searched > MOST_SEARCHED)
        return NULL;
    if (json_is_object(value)) {
        const char *anchor = json_string_value(json_object_get(value, "$anchor"));
        const char *dynamic = json_string_value(json_object_get(value, "$dynamicAnchor"));
        if ((anchor && strcmp(anchor, name) == 0) || (dynamic && strcmp(dynamic, name) == 0))
            return value;
        const char *key;
        json_t *part;
        json_object_foreach((json_t *)value, key, part)
        {
            bool data = strcmp(key, "const") == 0 || strcmp(key, "enum") == 0 || strcmp(key, "default") == 0 ||
                        strcmp(key, "examples") == 0;
            if (!found && !data && !string_id(part))
                found = find_anchor(c, part, name);
        }
        return found;
    }
    for (size_t i = 0; i < json_array_size(value) && !found; i++)
        if (!string_id(json_array_get(value, i)))
            found = find_anchor(c, json_array_get(value, i), name);
    return found;
}

const schema_node *schema_resolve(compiler *c, const schema_node *from, const char *reference)
{
    const char *hash = strchr(reference, '#'), *id = string_id(c->root);
    size_t length = hash ? (size_t)(hash - reference) : strlen(reference);
    const json_t *resource = from->resource;
    if (length > 0) {
        if (!id || strncmp(id, reference, length) != 0 || (id[length] != '\0' && strcmp(id + length, "#") != 0)) {
            schema_fail(c, from, "$ref",
                        "\"%s\" cannot be resolved: refer to a place inside the schema, as in "
                        "\"#/$defs/name\"",
                        reference);
            return NULL;
        }
        resource = c->root;
    }
    char *fragment = decode_fragment(c, hash ? hash + 1 : "");
    if (!fragment)
        return NULL;
    if (*fragment == '\0' || *fragment == '/')
        return follow_pointer(c, from, resource, fragment);
    const json_t *found = find_anchor(c, resource, fragment);
    if (!found) {
        schema_fail(c, from, "$ref", "no $anchor \"%s\" is in the schema", fragment);
        return NULL;
    }
    const schema_node *known = find_node(c, found);
    qn_buffer place = {0};
    qn_buffer_format(&place, "#%s", fragment);
    const char *copy = place.failed ? NULL : qn_arena_strndup(c->arena, place.data, place.size);
    qn_buffer_free(&place);
    return known ? known : intern(c, found, copy, resource);
}
