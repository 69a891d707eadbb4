/* The names of members: which "propertyNames" allow, which "patternProperties" match, and which are left for others.
 * Names that the same patterns match are one automaton, and their members one expression. */
#include <string.h>

#include "grammar/automaton.h"
#include "grammar/json_schema_compiler.h"

enum { MOST_NAME_CLASSES = 64 };

/* What "propertyNames" say */

static void names_set(compiler *c, const shape *s, node_set *out)
{
    for (const keyword_use *use = s->names; use && !c->failed; use = use->next)
        schema_set_add(c, out, schema_child(c, use->node, use->keyword, NULL, use->value));
}

bool schema_name_fits(compiler *c, const shape *s, const char *name, size_t bytes)
{
    node_set set = {0};
    names_set(c, s, &set);
    const json_t *text = s->names ? schema_made_text(c, name, bytes) : NULL;
    return !s->names || (text && schema_part_fits(c, &set, text));
}

typedef struct name_list {
    json_t *names;
    bool endless;
} name_list;

/* Other values than strings do not matter: no name is one. */
static void list_names(compiler *c, void *context, const shape *s)
{
    name_list *list = context;
    list->endless |= (s->types & TYPE_STRING) && !s->values;
    for (size_t i = 0; i < s->value_count && !c->failed; i++)
        if (json_is_string(s->values[i]) && schema_listed_value_fits(c, s, s->values[i]))
            schema_made_add(c, list->names, s->values[i]);
}

const json_t *schema_listed_names(compiler *c, const shape *s)
{
    node_set set = {0};
    names_set(c, s, &set);
    name_list list = {s->names ? schema_made_list(c) : NULL, false};
    if (list.names)
        schema_shapes(c, &set, list_names, &list);
    return list.endless || c->failed ? NULL : list.names;
}

/* The complement of the strings that the shapes so far allow. */
static void leave_names(compiler *c, void *context, const shape *s)
{
    const qn_automaton **others = context, *one;
    qn_error err;
    if (c->failed || !(s->types & TYPE_STRING))
        return;
    schema_check_blocked(c, s, TYPE_STRING);
    if (s->values) {
        qn_automaton_text *texts = schema_alloc(c, s->value_count + 1, sizeof *texts);
        size_t count = 0;
        for (size_t i = 0; texts && i < s->value_count; i++)
            if (json_is_string(s->values[i]) && schema_listed_value_fits(c, s, s->values[i]))
                texts[count++] = (qn_automaton_text){json_string_value(s->values[i]), json_string_length(s->values[i])};
        one = texts ? qn_automaton_of_texts(&c->room, texts, count, &err) : NULL;
        if (texts && !one)
            schema_fail_from(c, NULL, "propertyNames", &err);
    } else {
        one = schema_texts_automaton(c, s);
    }
    *others = schema_intersect(c, *others, one, false, NULL, "propertyNames");
}

/* Of these names those that "propertyNames" allow. */
static const qn_automaton *allowed_names(compiler *c, const shape *s, const qn_automaton *names)
{
    node_set set = {0};
    qn_error err;
    names_set(c, s, &set);
    if (set.count == 0)
        return names;
    const qn_automaton *others = qn_automaton_of_length(&c->room, 0, QN_UNBOUNDED, &err);
    if (!others)
        schema_fail_from(c, NULL, "propertyNames", &err);
    else
        schema_shapes(c, &set, leave_names, &others);
    return schema_intersect(c, names, others, false, NULL, "propertyNames");
}

/* Names of members */

bool schema_patterns_add(compiler *c, const schema_node *node, const char *key, size_t bytes, node_set *out)
{
    const json_t *patterns = json_object_get(node->schema, "patternProperties");
    const char *regex;
    size_t length;
    json_t *schema;
    bool any = false;
    json_object_keylen_foreach((json_t *)patterns, regex, length, schema)
    {
        const qn_automaton *a = c->failed ? NULL : schema_pattern_automaton(c, node, regex, length);
        if (!a || !qn_automaton_matches(a, key, bytes))
            continue;
        schema_set_add(c, out, schema_child(c, node, "patternProperties", regex, schema));
        any = true;
    }
    return any;
}

/* Names that the same patterns match. */
typedef struct name_class {
    const qn_automaton *names;
    uint64_t matched; /* a bit for each pattern, in the order of all_patterns */
} name_class;

typedef struct name_pattern {
    const schema_node *node;
    const char *regex;
    size_t bytes;
    const json_t *schema;
} name_pattern;

static size_t all_patterns(compiler *c, const shape *s, name_pattern out[64])
{
    size_t count = 0;
    for (const keyword_use *use = s->members; use; use = use->next) {
        const json_t *patterns = json_object_get(use->node->schema, "patternProperties");
        bool again = false;
        for (size_t i = 0; i < count; i++)
            again |= out[i].node == use->node;
        const char *regex;
        size_t length;
        json_t *schema;
        json_object_keylen_foreach((json_t *)patterns, regex, length, schema)
        {
            if (again)
                break;
            if (count == 64) {
                schema_fail(c, use->node, "patternProperties", "cannot be enforced: more than 64 patterns");
                return 0;
            }
            out[count++] = (name_pattern){use->node, regex, length, schema};
        }
    }
    return count;
}

/* The names that are none of some, as they were asked for before: shapes of one schema often share theirs. */
struct known_names {
    const schema_text *names;
    size_t count;
    const qn_automaton *others;
    struct known_names *next;
};

static bool same_names(const schema_text *a, const schema_text *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (a[i].bytes != b[i].bytes || memcmp(a[i].data, b[i].data, a[i].bytes) != 0)
            return false;
    return true;
}

static const qn_automaton *free_names(compiler *c, const schema_text *names, size_t count)
{
    enum { MOST_LOOKED_AT = 16 };
    qn_error err;
    size_t looked = 0;
    for (const struct known_names *k = c->names; k && looked < MOST_LOOKED_AT; k = k->next, looked++)
        if (k->count == count && same_names(k->names, names, count))
            return k->others;
    const qn_automaton *all = qn_automaton_of_length(&c->room, 0, QN_UNBOUNDED, &err), *taken = NULL;
    qn_automaton_text *texts = schema_alloc(c, count + 1, sizeof *texts);
    struct known_names *known = schema_alloc(c, 1, sizeof *known);
    for (size_t i = 0; texts && i < count; i++)
        texts[i] = (qn_automaton_text){names[i].data, names[i].bytes};
    if (known && texts && all)
        taken = qn_automaton_of_texts(&c->room, texts, count, &err);
    if (known && texts && !taken)
        schema_fail_from(c, NULL, "properties", &err);
    const qn_automaton *others = schema_intersect(c, all, taken, false, NULL, "properties");
    if (others) {
        *known = (struct known_names){names, count, others, c->names};
        c->names = known;
    }
    return others;
}

/* Splits each class by the pattern; returns how many there are now. */
static size_t split_classes(compiler *c, name_class *classes, size_t count, const name_pattern *by, size_t bit)
{
    const qn_automaton *a = schema_pattern_automaton(c, by->node, by->regex, by->bytes);
    size_t before = count;
    for (size_t i = 0; i < before && !c->failed; i++) {
        const qn_automaton *in = schema_intersect(c, classes[i].names, a, true, by->node, "patternProperties");
        const qn_automaton *out = schema_intersect(c, classes[i].names, a, false, by->node, "patternProperties");
        if (!in || !out || qn_automaton_is_empty(in))
            continue;
        name_class matched = {in, classes[i].matched | UINT64_C(1) << bit};
        if (qn_automaton_is_empty(out)) {
            classes[i] = matched;
            continue;
        }
        classes[i].names = out;
        if (count == MOST_NAME_CLASSES) {
            schema_fail(c, by->node, "patternProperties", "cannot be enforced: too many patterns that overlap");
            return 0;
        }
        classes[count++] = matched;
    }
    return count;
}

typedef struct class_patterns {
    const name_class *class;
    const name_pattern *patterns;
    size_t count;
} class_patterns;

static bool declares_class(compiler *c, void *context, const schema_node *node)
{
    const class_patterns *of = context;
    (void)c;
    for (size_t i = 0; i < of->count; i++)
        if (of->patterns[i].node == node && (of->class->matched >> i & 1))
            return true;
    return false;
}

/* What a member with a name of the class is held to. */
static void class_set(compiler *c, const shape *s, const name_class *class, const name_pattern *patterns, size_t count,
                      node_set *out)
{
    for (const keyword_use *use = s->members; use; use = use->next) {
        bool matched = false;
        for (size_t i = 0; i < count; i++) {
            if (patterns[i].node != use->node || !(class->matched >> i & 1))
                continue;
            matched = true;
            schema_set_add(c, out,
                           schema_child(c, use->node, "patternProperties", patterns[i].regex, patterns[i].schema));
        }
        const json_t *rest = json_object_get(use->node->schema, "additionalProperties");
        if (!matched && rest)
            schema_set_add(c, out, schema_child(c, use->node, "additionalProperties", NULL, rest));
    }
    if (s->unevaluated)
        schema_unevaluated_set(c, s, declares_class, &(class_patterns){class, patterns, count}, out);
}

bool schema_names_matter(const shape *s)
{
    bool matter = s->names != NULL;
    for (const keyword_use *use = s->members; use; use = use->next)
        matter = matter || json_object_size(json_object_get(use->node->schema, "patternProperties")) > 0;
    return matter;
}

qn_expr schema_other_value_expr(compiler *c, const shape *s)
{
    node_set set = {0};
    class_set(c, s, &(name_class){NULL, 0}, NULL, 0, &set);
    return schema_set_expr(c, &set);
}

qn_expr schema_other_names_expr(compiler *c, const schema_text *names, size_t count)
{
    qn_regex_letters letters = schema_letters(c);
    const qn_automaton *others = free_names(c, names, count);
    return others ? qn_words_concat2(c->b, qn_automaton_expr(&c->room, c->b, others, &letters), c->spelling.quote)
                  : QN_NO_WORDS;
}

qn_expr schema_other_members_expr(compiler *c, const shape *s, const schema_text *names, size_t count)
{
    name_pattern patterns[64];
    name_class classes[MOST_NAME_CLASSES] = {{0}};
    qn_expr options[MOST_NAME_CLASSES];
    size_t pattern_count = all_patterns(c, s, patterns), class_count = 1, n = 0;
    qn_regex_letters letters = schema_letters(c);
    bool any_name = count == 0 && pattern_count == 0 && !s->names;
    if (!any_name)
        classes[0].names = allowed_names(c, s, free_names(c, names, count));
    for (size_t i = 0; i < pattern_count && !c->failed; i++)
        class_count = split_classes(c, classes, class_count, &patterns[i], i);
    for (size_t i = 0; i < class_count && !c->failed; i++) {
        node_set set = {0};
        class_set(c, s, &classes[i], patterns, pattern_count, &set);
        qn_expr value = schema_set_expr(c, &set), quote = c->spelling.quote, name = c->spelling.any_string;
        if (value == QN_NO_WORDS || c->failed)
            continue;
        if (!any_name) {
            qn_expr inside = qn_automaton_expr(&c->room, c->b, classes[i].names, &letters);
            name = qn_words_concat(c->b, (qn_expr[]){quote, inside, quote}, 3);
        }
        options[n++] = qn_words_concat(c->b, (qn_expr[]){name, c->spelling.colon, value}, 3);
    }
    return c->failed ? QN_NO_WORDS : qn_words_shared(c->b, "other members", qn_words_choice(c->b, options, n));
}
