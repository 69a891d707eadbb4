/* Sets of schemas to expressions, each set once: all uses of it are one expression, which is a rule where the set is
 * used inside itself. */
#include "grammar/json_schema.h"

#include <stdio.h>
#include <string.h>

#include "grammar/json_schema_object.h"

struct compiled_set {
    node_set set;
    bool entered, done, has_rule;
    qn_rule rule;
    qn_expr expr, use; /* the set itself; the rule of one that is used inside itself */
};

typedef struct expr_list {
    qn_expr *exprs;
    size_t count, capacity;
} expr_list;

static void append(compiler *c, expr_list *list, qn_expr expr)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        qn_expr *exprs = schema_alloc(c, capacity, sizeof *exprs);
        if (!exprs)
            return;
        if (list->count > 0)
            memcpy(exprs, list->exprs, list->count * sizeof *exprs);
        list->exprs = exprs;
        list->capacity = capacity;
    }
    list->exprs[list->count++] = expr;
}

/* Sets */

static size_t set_slot(const node_set *set, size_t capacity)
{
    uint64_t h = 1;
    for (size_t i = 0; i < set->count; i++)
        h = (h ^ set->nodes[i]->id) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(h >> 32) & (capacity - 1);
}

static bool same_set(const node_set *a, const node_set *b)
{
    return a->count == b->count && memcmp(a->nodes, b->nodes, a->count * sizeof(const schema_node *)) == 0;
}

static bool grow_sets(compiler *c)
{
    size_t capacity = c->set_capacity ? 2 * c->set_capacity : 256;
    compiled_set **sets = schema_alloc(c, capacity, sizeof *sets);
    if (!sets)
        return false;
    for (size_t i = 0; i < c->set_capacity; i++) {
        if (!c->sets[i])
            continue;
        size_t at = set_slot(&c->sets[i]->set, capacity);
        while (sets[at])
            at = (at + 1) & (capacity - 1);
        sets[at] = c->sets[i];
    }
    c->sets = sets;
    c->set_capacity = capacity;
    return true;
}

/* The set's entry, made if it is new; NULL when memory is short. */
static compiled_set *find_set(compiler *c, const node_set *set)
{
    if (2 * (c->set_count + 1) > c->set_capacity && !grow_sets(c))
        return NULL;
    size_t at = set_slot(set, c->set_capacity);
    while (c->sets[at] && !same_set(&c->sets[at]->set, set))
        at = (at + 1) & (c->set_capacity - 1);
    if (!c->sets[at]) {
        compiled_set *entry = schema_alloc(c, 1, sizeof *entry);
        if (!entry)
            return NULL;
        entry->set = *set;
        c->sets[at] = entry;
        c->set_count++;
    }
    return c->sets[at];
}

/* A schema that only refers to another is the other one, and so is one that says the same: all such uses share one
 * rule. */
static void follow_references(compiler *c, const node_set *set, node_set *out)
{
    enum { MOST_STEPS = 64 }; /* one that goes round is left to be refused with its place */
    for (size_t i = 0; i < set->count && !c->failed; i++) {
        const schema_node *node = set->nodes[i];
        for (int k = 0; k < MOST_STEPS && node; k++) {
            const char *keyword = schema_sole_keyword(node->schema);
            const char *reference = json_string_value(json_object_get(node->schema, "$ref"));
            if (!keyword || strcmp(keyword, "$ref") != 0 || !reference)
                break;
            node = schema_resolve(c, node, reference);
        }
        schema_set_add(c, out, schema_first_like(c, node));
    }
}

typedef struct set_options {
    expr_list exprs;
    object_list objects;
} set_options;

static void compile_shape(compiler *c, void *context, const shape *s)
{
    set_options *options = context;
    shape rest = *s;
    if (!s->values && (s->types & TYPE_OBJECT) && schema_objects_take(c, &options->objects, s))
        rest.types &= ~(unsigned)TYPE_OBJECT;
    if (rest.types)
        append(c, &options->exprs, schema_shape_expr(c, &rest));
}

static void add_option(compiler *c, void *context, qn_expr expr)
{
    append(c, &((set_options *)context)->exprs, expr);
}

/* The options of an anyOf that stands alone are sets of their own, unless they are many: then their objects are
 * followed as one. */
static void compile_options(compiler *c, const schema_node *node, set_options *out)
{
    enum { FEW = 8 };
    const json_t *options = json_object_get(node->schema, "anyOf");
    const schema_node *around = c->current;
    for (size_t i = 0; i < json_array_size(options) && !c->failed; i++) {
        char index[24];
        node_set set = {0};
        snprintf(index, sizeof index, "%zu", i);
        const schema_node *option = schema_child(c, node, "anyOf", index, json_array_get(options, i));
        schema_set_add(c, &set, option);
        if (json_array_size(options) <= FEW || set.count == 0) {
            append(c, &out->exprs, schema_set_expr(c, &set));
            continue;
        }
        c->current = option;
        schema_shapes(c, &set, compile_shape, out);
        c->current = around;
    }
}

static qn_expr compile_set(compiler *c, const node_set *set)
{
    set_options options = {0};
    const char *keyword = set->count == 1 ? schema_sole_keyword(set->nodes[0]->schema) : NULL;
    if (keyword && strcmp(keyword, "anyOf") == 0 &&
        json_array_size(json_object_get(set->nodes[0]->schema, "anyOf")) > 0)
        compile_options(c, set->nodes[0], &options);
    else
        schema_shapes(c, set, compile_shape, &options);
    schema_objects_each(c, &options.objects, add_option, &options);
    return c->failed || options.exprs.count == 0 ? QN_NO_WORDS
                                                 : qn_words_choice(c->b, options.exprs.exprs, options.exprs.count);
}

/* The same expression each time: items of objects are equal by it. */
static qn_expr use_set(compiler *c, compiled_set *entry)
{
    if (entry->done && (entry->expr == QN_NO_WORDS || !entry->has_rule))
        return entry->expr;
    if (!entry->has_rule) {
        entry->rule = qn_rule_declare(c->b, entry->set.nodes[0]->place);
        entry->has_rule = true;
        entry->use = qn_expr_rule(c->b, entry->rule);
    }
    return entry->use;
}

/* The bounds of a grammar are told by the schema at which they were met. */
static void tell_place(compiler *c, const schema_node *node)
{
    qn_error err;
    if (c->failed || qn_grammar_builder_status(c->b, &err) == QN_OK)
        return;
    if (err.status == QN_RESOURCE)
        schema_fail_memory(c);
    else
        schema_fail(c, node, NULL, "cannot be enforced: %s", err.message);
}

qn_expr schema_set_expr(compiler *c, const node_set *set)
{
    node_set followed = {0};
    follow_references(c, set, &followed);
    if (c->failed || followed.count == 0)
        return c->failed ? QN_NO_WORDS : c->spelling.any_value;
    compiled_set *entry = find_set(c, &followed);
    if (!entry)
        return QN_NO_WORDS;
    if (entry->entered)
        return use_set(c, entry);
    if (c->depth == SCHEMA_MOST_DEPTH) {
        schema_fail(c, followed.nodes[0], NULL, "nested deeper than %d levels: flatten the schema", SCHEMA_MOST_DEPTH);
        return QN_NO_WORDS;
    }
    const schema_node *around = c->current;
    entry->entered = true;
    c->current = followed.nodes[0];
    c->depth++;
    entry->expr = compile_set(c, &followed);
    tell_place(c, followed.nodes[0]);
    c->current = around;
    c->depth--;
    entry->done = true;
    if (entry->has_rule)
        qn_rule_define(c->b, entry->rule, entry->expr == QN_NO_WORDS ? qn_expr_never(c->b) : entry->expr);
    return use_set(c, entry);
}

/* Arguments of native calls */

/* The reader of arguments (text/argument_type.h) looks at "type", "enum" and "const", not at what else narrows a value:
 * does a schema say nothing of the type, a text is JSON where it parses; may it be any string of some kind, a text is a
 * string, but for null; are there only listed strings, a text is one of them, or else JSON. What is accepted here is
 * read as a valid value there. */
typedef struct argument {
    bool anything;        /* some way through the schema asks for nothing */
    bool untyped;         /* some way says nothing of the type */
    bool free_strings;    /* strings that are not listed */
    unsigned declared;    /* types as declared, and */
    unsigned satisfiable; /* those of some value */
    expr_list texts;
} argument;

static bool says_nothing(const shape *s)
{
    return s->types == TYPE_ANY && !s->typed && !s->opaque && !s->values && !s->multiples && !s->low.present &&
           !s->high.present && s->min_length == 0 && s->max_length == QN_UNBOUNDED && s->min_items == 0 &&
           s->max_items == QN_UNBOUNDED && s->min_members == 0 && s->max_members == QN_UNBOUNDED && !s->texts &&
           !s->required && !s->members && !s->unevaluated && !s->elements && !s->unevaluated_items && !s->names &&
           !s->contains && !s->unique && !s->blocked;
}

static void look_at_declared(compiler *c, void *context, const shape *s)
{
    argument *a = context;
    (void)c;
    a->anything |= says_nothing(s);
    a->untyped |= !s->typed && !s->seen_values;
    a->free_strings |= (s->seen_types & TYPE_STRING) && !s->seen_values;
    a->declared |= s->seen_types;
}

static void look_at_satisfiable(compiler *c, void *context, const shape *s)
{
    argument *a = context;
    (void)c;
    a->satisfiable |= s->types;
}

static void compile_argument(compiler *c, void *context, const shape *s)
{
    argument *a = context;
    shape part = *s;
    if (a->free_strings) {
        part.types &= TYPE_STRING | TYPE_NULL;
        if (a->declared & ~a->satisfiable & TYPE_NULL) { /* this text would be read as what is never valid */
            keyword_use *null = schema_alloc(c, 1, sizeof *null);
            json_t *text = schema_made_text(c, "null", 4);
            if (!null || !text)
                return;
            *null = (keyword_use){.value = text, .negated = true, .next = part.excluded};
            part.excluded = null;
        }
    }
    if (s->values) {
        append(c, &a->texts, schema_bare_values_expr(c, &part));
        return;
    }
    schema_check_blocked(c, &part, part.types);
    if (part.types & TYPE_STRING)
        append(c, &a->texts, schema_string_expr(c, &part, true));
    part.types &= ~(unsigned)TYPE_STRING;
    if (part.types)
        append(c, &a->texts, schema_shape_expr(c, &part));
}

static qn_expr argument_expr(compiler *c, const node_set *set)
{
    argument a = {0};
    if (set->count == 0)
        a.anything = true;
    else
        schema_declared_shapes(c, set, look_at_declared, &a);
    if (c->failed)
        return QN_NO_WORDS;
    if (a.anything)
        return qn_expr_repeat(c->b, qn_expr_chars(c->b, &(qn_char_range){0, 0x10FFFF}, 1), 0, QN_UNBOUNDED);
    if (a.untyped)
        return schema_set_expr(c, set);
    schema_shapes(c, set, look_at_satisfiable, &a);
    schema_shapes(c, set, compile_argument, &a);
    return c->failed || a.texts.count == 0 ? QN_NO_WORDS : qn_words_choice(c->b, a.texts.exprs, a.texts.count);
}

/* Entry */

qn_status qn_json_schema_expr(qn_grammar_builder *b, const json_t *root, const json_t *schema, qn_schema_form form,
                              const qn_schema_options *options, const char *what, qn_expr *out, qn_error *err)
{
    compiler c = {.b = b, .root = root, .what = what, .arena = qn_arena_new(SCHEMA_ARENA_BYTES)};
    node_set set = {0};
    if (!c.arena) {
        schema_fail_memory(&c);
        *err = c.err;
        return err->status;
    }
    c.room.arena = c.arena;
    c.unevaluated = schema_has_unevaluated(root);
    qn_json_spelling_init(&c.spelling, b, options->any_whitespace);
    const schema_node *node = schema_root_node(&c, schema);
    schema_set_add(&c, &set, node);
    qn_expr expr = form == QN_SCHEMA_ARGUMENT ? argument_expr(&c, &set) : schema_set_expr(&c, &set);
    if (!c.failed && expr == QN_NO_WORDS)
        schema_fail(&c, node, NULL, "no value can satisfy it: its keywords contradict each other");
    qn_json_spelling_free(&c.spelling);
    json_decref(c.made);
    qn_arena_free(c.arena);
    if (c.failed) {
        *err = c.err;
        return err->status;
    }
    *out = expr;
    return qn_grammar_builder_status(b, err);
}

qn_expr qn_json_object_expr(qn_grammar_builder *b, const qn_schema_options *options)
{
    qn_json_spelling s;
    qn_json_spelling_init(&s, b, options->any_whitespace);
    qn_json_spelling_free(&s);
    return s.any_object;
}

qn_expr qn_json_value_expr(qn_grammar_builder *b, const qn_schema_options *options)
{
    qn_json_spelling s;
    qn_json_spelling_init(&s, b, options->any_whitespace);
    qn_json_spelling_free(&s);
    return s.any_value;
}
