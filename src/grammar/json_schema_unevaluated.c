/* "unevaluatedProperties": a member is held to it unless the schema itself, or one that applies to the same value
 * through it ($ref, allOf, a matching option, ...), declares the member. A shape knows which schemas took part, and how
 * each came to. */
#include <string.h>

#include "grammar/json_schema_expansion.h"

/* How an object of a document is read: its keys are keywords, or they are names of the document's own. */
static bool has_unevaluated(const json_t *part, bool names)
{
    static const char *const of_names[] = {"properties",   "patternProperties", "dependentSchemas",
                                           "dependencies", "definitions",       "$defs"};
    const char *key;
    json_t *inner;
    bool found = false;
    json_object_foreach((json_t *)part, key, inner)
    {
        bool inner_names = false;
        found = found ||
                (!names && (strcmp(key, "unevaluatedProperties") == 0 || strcmp(key, "unevaluatedItems") == 0));
        for (size_t i = 0; !names && i < sizeof of_names / sizeof *of_names; i++)
            inner_names = inner_names || strcmp(key, of_names[i]) == 0;
        found = found || has_unevaluated(inner, inner_names);
    }
    for (size_t i = 0; i < json_array_size(part) && !found; i++)
        found = has_unevaluated(json_array_get(part, i), false);
    return found;
}

bool schema_has_unevaluated(const json_t *document)
{
    return has_unevaluated(document, false);
}

bool schema_is_within(const pending *at, const pending *outer)
{
    for (; at; at = at->parent)
        if (at == outer)
            return true;
    return false;
}

static bool is_evaluated(compiler *c, const shape *s, const keyword_use *by, declares_member *declares, void *context)
{
    for (const keyword_use *use = s->members; use && !c->failed; use = use->next)
        if (!use->at->silent && schema_is_within(use->at, by->at) &&
            (json_object_get(use->node->schema, "additionalProperties") || declares(c, context, use->node)))
            return true;
    for (const keyword_use *use = s->unevaluated; use; use = use->next)
        if (use != by && use->at != by->at && schema_is_within(use->at, by->at))
            return true;
    return false;
}

void schema_unevaluated_set(compiler *c, const shape *s, declares_member *declares, void *context, node_set *out)
{
    for (const keyword_use *use = s->unevaluated; use && !c->failed; use = use->next)
        if (!is_evaluated(c, s, use, declares, context))
            schema_set_add(c, out, schema_child(c, use->node, use->keyword, NULL, use->value));
}
