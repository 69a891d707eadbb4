/* From a shape to the expression of its values, type by type (arrays and objects in files of their own). */
#include <string.h>

#include "grammar/json_schema_compiler.h"

/* Shapes */

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
        options[n++] = schema_is_free_object(s) ? c->spelling.any_object : schema_object_expr(c, s);
    return qn_words_choice(c->b, options, n);
}
