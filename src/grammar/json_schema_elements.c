/* What an element of an array is held to: by its place ("prefixItems" and "items", or a list in "items" and
 * "additionalItems" as older drafts have it), and by "unevaluatedItems" where no schema that applies to the same array
 * says anything of it. */
#include <stdio.h>
#include <string.h>

#include "grammar/json_schema_expansion.h"

static bool has_old_list(const json_t *schema)
{
    return json_is_array(json_object_get(schema, "items"));
}

const json_t *schema_prefix(const json_t *schema)
{
    return json_object_get(schema, has_old_list(schema) ? "items" : "prefixItems");
}

/* The keyword of the elements behind the prefix. */
static const char *rest_keyword(const json_t *schema)
{
    return has_old_list(schema) ? "additionalItems" : "items";
}

void schema_check_elements(compiler *c, const schema_node *node, const char *keyword, const json_t *value)
{
    bool prefix = json_object_get(node->schema, "prefixItems") != NULL;
    bool rest = strcmp(keyword, "additionalItems") == 0 && !json_is_true(value);
    if (strcmp(keyword, "prefixItems") == 0 && !json_is_array(value))
        schema_fail(c, node, keyword, "must be an array of schemas");
    else if (prefix && strcmp(keyword, "items") == 0 && json_is_array(value))
        schema_fail(c, node, keyword, "must be a schema beside \"prefixItems\", which is the list of them");
    else if (rest && (prefix || !json_object_get(node->schema, "items")))
        schema_fail(c, node, keyword,
                    "cannot be enforced: it belongs to a list of schemas in \"items\": say \"items\"");
}

static void add_by_place(compiler *c, const schema_node *node, size_t index, node_set *out)
{
    const json_t *prefix = schema_prefix(node->schema);
    const char *keyword = rest_keyword(node->schema);
    const json_t *rest = json_object_get(node->schema, keyword);
    char text[24];
    snprintf(text, sizeof text, "%zu", index);
    if (index < json_array_size(prefix))
        schema_set_add(c, out,
                       schema_child(c, node, has_old_list(node->schema) ? "items" : "prefixItems", text,
                                    json_array_get(prefix, index)));
    else if (rest)
        schema_set_add(c, out, schema_child(c, node, keyword, NULL, rest));
}

static bool is_evaluated(const shape *s, const keyword_use *by, size_t index)
{
    for (const keyword_use *use = s->elements; use; use = use->next)
        if (!use->at->silent && schema_is_within(use->at, by->at) &&
            (json_object_get(use->node->schema, rest_keyword(use->node->schema)) ||
             index < json_array_size(schema_prefix(use->node->schema))))
            return true;
    for (const keyword_use *use = s->unevaluated_items; use; use = use->next)
        if (use != by && use->at != by->at && schema_is_within(use->at, by->at))
            return true;
    return false;
}

/* Since draft 2020-12, an element that "contains" looks for is evaluated by that. */
static bool contains_evaluates(const compiler *c)
{
    const char *draft = json_string_value(json_object_get(c->root, "$schema"));
    return !draft || !strstr(draft, "2019-09");
}

static void add_unevaluated(compiler *c, const shape *s, const keyword_use *by, node_set *out)
{
    const schema_node *node = schema_child(c, by->node, by->keyword, NULL, by->value);
    json_t *options = NULL;
    for (const keyword_use *use = s->all; use && contains_evaluates(c) && !c->failed; use = use->next) {
        const json_t *contains = json_object_get(use->node->schema, "contains");
        if (!contains || use->at->silent || !schema_is_within(use->at, by->at))
            continue;
        schema_child(c, use->node, "contains", NULL, contains);
        options = schema_made_add(c, options ? options : schema_made_list(c), contains);
    }
    if (options) {
        options = schema_made_add(c, options, by->value);
        json_t *either = schema_made_set(c, schema_made(c), "anyOf", options);
        node = c->failed ? NULL : schema_child(c, by->node, by->keyword, NULL, either);
    }
    schema_set_add(c, out, node);
}

void schema_element_set(compiler *c, const shape *s, size_t index, node_set *out)
{
    for (const keyword_use *use = s->elements; use && !c->failed; use = use->next)
        add_by_place(c, use->node, index, out);
    for (const keyword_use *use = s->unevaluated_items; use && !c->failed; use = use->next)
        if (!json_is_true(use->value) && !is_evaluated(s, use, index))
            add_unevaluated(c, s, use, out);
}
