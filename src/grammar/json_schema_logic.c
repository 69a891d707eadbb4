/* Conditions: "if" and the dependent keywords, each as a choice between schemas that are made up for it. */
#include <string.h>

#include "base/json_wide.h"
#include "grammar/json_schema_expansion.h"

/* Both ways exclude each other, so that no text is followed twice. */
void schema_apply_if(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    compiler *c = e->c;
    const schema_node *node = p->node;
    const json_t *then_schema = json_object_get(node->schema, "then"),
                 *else_schema = json_object_get(node->schema, "else");
    const schema_node *condition = schema_child(c, node, keyword, NULL, value);
    const schema_node *yes = then_schema ? schema_child(c, node, "then", NULL, then_schema) : NULL;
    const schema_node *no = else_schema ? schema_child(c, node, "else", NULL, else_schema) : NULL;
    if (!yes && !no)
        return;
    if (json_is_boolean(value)) {
        if (json_is_true(value) ? yes != NULL : no != NULL)
            schema_push(e, p, json_is_true(value) ? "then" : "else", json_is_true(value) ? yes : no, true);
        return;
    }
    json_t *both = schema_made_add(c, schema_made_list(c), value), *neither = schema_made_list(c);
    if (yes)
        both = schema_made_add(c, both, then_schema);
    neither = schema_made_add(c, neither, condition ? schema_made_not(c, condition) : NULL);
    if (no)
        neither = schema_made_add(c, neither, else_schema);
    json_t *options = schema_made_add(c, schema_made_list(c), schema_made_set(c, schema_made(c), "allOf", both));
    schema_branch(e, p, keyword, schema_made_add(c, options, schema_made_set(c, schema_made(c), "allOf", neither)),
                  true);
}

/* {"type": "object", "required": [name, ...]} */
static json_t *having(compiler *c, const char *name, size_t bytes, const json_t *others)
{
    json_t *list = schema_made_add(c, schema_made_list(c), schema_made_text(c, name, bytes));
    for (size_t i = 0; i < json_array_size(others); i++)
        list = schema_made_add(c, list, json_array_get(others, i));
    return schema_made_set(c, schema_made_typed(c, "object"), "required", list);
}

bool schema_depends_on_names(const char *keyword, const json_t *part)
{
    return strcmp(keyword, "dependentRequired") == 0 || (strcmp(keyword, "dependencies") == 0 && json_is_array(part));
}

/* dependentRequired, dependentSchemas, and "dependencies", which is both: for each name, either no member is called so,
 * or what depends on it is there. */
void schema_apply_dependent(expansion *e, const pending *p, const char *keyword, const json_t *value)
{
    compiler *c = e->c;
    const char *name;
    size_t bytes;
    json_t *part;
    if (!qn_json_is_object(value)) {
        schema_fail(c, p->node, keyword, "must be an object");
        return;
    }
    json_object_keylen_foreach((json_t *)value, name, bytes, part)
    {
        bool names = schema_depends_on_names(keyword, part);
        bool empty = names ? json_is_array(part) && json_array_size(part) == 0 : json_is_true(part);
        if (c->failed || empty)
            continue;
        if (names && !json_is_array(part)) {
            schema_fail(c, p->node, keyword, "must hold arrays of names");
            return;
        }
        json_t *with = having(c, name, bytes, names ? part : NULL);
        if (!names) {
            schema_child(c, p->node, keyword, name, part);
            with = schema_made_set(c, with, "allOf", schema_made_add(c, schema_made_list(c), part));
        }
        json_t *without = schema_made_member(c, schema_made(c), name, bytes, json_false());
        schema_branch(e, p, keyword, schema_made_add(c, schema_made_add(c, schema_made_list(c), without), with), true);
    }
}
