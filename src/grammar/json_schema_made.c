/* Schemas that stand in no document: what "not" and its like come to, said with the keywords that are enforced. Values
 * of jansson count who holds them, so a made schema can hold parts of the document, which keep their places. */
#include <stdint.h>
#include <string.h>

#include "grammar/json_schema_expansion.h"

static json_t *keep(compiler *c, json_t *value)
{
    if (!c->made)
        c->made = json_array();
    if (!value || !c->made || json_array_append_new(c->made, value) != 0) { /* which lets go of it when it fails */
        if (!c->made)
            json_decref(value);
        schema_fail_memory(c);
        return NULL;
    }
    return value;
}

json_t *schema_made(compiler *c)
{
    return c->failed ? NULL : keep(c, json_object());
}

json_t *schema_made_list(compiler *c)
{
    return c->failed ? NULL : keep(c, json_array());
}

json_t *schema_made_text(compiler *c, const char *text, size_t bytes)
{
    return c->failed ? NULL : keep(c, json_stringn_nocheck(text, bytes));
}

json_t *schema_made_integer(compiler *c, long long value)
{
    return c->failed ? NULL : keep(c, json_integer(value));
}

static json_t *shared(const json_t *value)
{
    return (json_t *)(uintptr_t)value; /* its count of holders changes, and is the same again in the end */
}

json_t *schema_made_put(compiler *c, json_t *to, const char *key, size_t bytes, const json_t *value)
{
    if (c->failed || !to || !value)
        return NULL;
    if (json_object_setn_nocheck(to, key, bytes, shared(value)) != 0) {
        schema_fail_memory(c);
        return NULL;
    }
    return to;
}

json_t *schema_made_set(compiler *c, json_t *to, const char *key, const json_t *value)
{
    return schema_made_put(c, to, key, strlen(key), value);
}

json_t *schema_made_add(compiler *c, json_t *to, const json_t *value)
{
    if (c->failed || !to || !value)
        return NULL;
    if (json_array_append(to, shared(value)) != 0) {
        schema_fail_memory(c);
        return NULL;
    }
    return to;
}

json_t *schema_made_typed(compiler *c, const char *type)
{
    return schema_made_set(c, schema_made(c), "type", schema_made_text(c, type, strlen(type)));
}

json_t *schema_made_member(compiler *c, json_t *to, const char *name, size_t bytes, const json_t *member)
{
    return schema_made_set(c, to, "properties", schema_made_put(c, schema_made(c), name, bytes, member));
}

json_t *schema_made_not(compiler *c, const schema_node *node)
{
    if (!node || c->failed)
        return NULL;
    if (!*node->opposite)
        *node->opposite = schema_made_set(c, schema_made(c), "not", node->schema);
    return *node->opposite;
}
