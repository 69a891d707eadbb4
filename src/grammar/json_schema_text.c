/* Patterns: of strings, and of the names of members. One pattern alone is spelt as it is; where several meet, or meet
 * bounds on the length or names that are taken, automata are intersected first. */
#include <string.h>

#include "grammar/automaton.h"
#include "grammar/json_schema_compiler.h"
#include "grammar/json_schema_format.h"

enum { MOST_NAME_CLASSES = 64 };

struct known_pattern {
    const char *regex;
    size_t bytes;
    bool search;
    const qn_automaton *automaton;
    struct known_pattern *next;
};

typedef struct pattern {
    const char *regex;
    size_t bytes;
    bool search;
} pattern;

static qn_expr json_letters(void *context, qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    (void)b;
    qn_expr expr = qn_json_chars(context, ranges, count);
    return expr == QN_NO_WORDS ? qn_expr_never(((qn_json_spelling *)context)->b) : expr;
}

static void fail_from(compiler *c, const schema_node *node, const char *keyword, const qn_error *err)
{
    if (err->status == QN_RESOURCE)
        schema_fail_memory(c);
    else
        schema_fail(c, node, keyword, "cannot be enforced: %s", err->message);
}

/* False for a format that is an annotation. */
static bool pattern_of(const keyword_use *use, pattern *out)
{
    const char *text = json_string_value(use->value);
    if (strcmp(use->keyword, "pattern") == 0) {
        *out = (pattern){text, json_string_length(use->value), true};
        return true;
    }
    const char *regex = schema_format_regex(text);
    *out = (pattern){regex, regex ? strlen(regex) : 0, false};
    return regex != NULL;
}

static const qn_automaton *automaton_of(compiler *c, const pattern *p, const schema_node *node, const char *keyword)
{
    for (const struct known_pattern *k = c->patterns; k; k = k->next)
        if (k->search == p->search && k->bytes == p->bytes && memcmp(k->regex, p->regex, p->bytes) == 0)
            return k->automaton;
    qn_error err;
    struct known_pattern *k = schema_alloc(c, 1, sizeof *k);
    if (!k)
        return NULL;
    *k = (struct known_pattern){p->regex, p->bytes, p->search,
                                qn_automaton_of_regex(&c->room, p->regex, p->bytes, p->search, &err), c->patterns};
    if (!k->automaton) {
        fail_from(c, node, keyword, &err);
        return NULL;
    }
    c->patterns = k;
    return k->automaton;
}

static const qn_automaton *intersect(compiler *c, const qn_automaton *a, const qn_automaton *b, bool inside,
                                     const schema_node *node, const char *keyword)
{
    qn_error err;
    if (!a || !b || c->failed)
        return NULL;
    const qn_automaton *both = qn_automaton_both(&c->room, a, b, inside, &err);
    if (!both)
        fail_from(c, node, keyword, &err);
    return both;
}

/* Strings */

bool schema_texts_fit(compiler *c, const shape *s, const json_t *value)
{
    bool fits = true;
    for (const keyword_use *use = s->texts; use && fits && !c->failed; use = use->next) {
        pattern p;
        if (!pattern_of(use, &p))
            continue;
        const qn_automaton *a = automaton_of(c, &p, use->node, use->keyword);
        fits = a && qn_automaton_matches(a, json_string_value(value), json_string_length(value));
    }
    return fits;
}

/* Everything that the shape asks of a string; NULL when the compiler failed. */
static const qn_automaton *all_texts(compiler *c, const shape *s)
{
    const qn_automaton *all = NULL;
    const keyword_use *last = NULL;
    for (const keyword_use *use = s->texts; use && !c->failed; use = use->next) {
        pattern p;
        if (!pattern_of(use, &p))
            continue;
        const qn_automaton *one = automaton_of(c, &p, use->node, use->keyword);
        all = all ? intersect(c, all, one, true, use->node, use->keyword) : one;
        last = use;
    }
    if (c->failed || (s->min_length == 0 && s->max_length == QN_UNBOUNDED))
        return all;
    qn_error err;
    const qn_automaton *length = qn_automaton_of_length(&c->room, s->min_length, s->max_length, &err);
    if (!length)
        fail_from(c, last->node, last->keyword, &err);
    return intersect(c, all, length, true, last->node, last->keyword);
}

static qn_expr string_inside(compiler *c, const shape *s, bool bare)
{
    qn_grammar_builder *b = c->b;
    qn_regex_letters letters = {&c->spelling, json_letters};
    const keyword_use *only = NULL;
    size_t count = 0;
    pattern p, first = {0};
    for (const keyword_use *use = s->texts; use; use = use->next) {
        if (pattern_of(use, &p) && count++ == 0) {
            only = use;
            first = p;
        }
    }
    if (count == 0) {
        qn_expr letter = bare ? qn_expr_chars(b, &(qn_char_range){0, 0x10FFFF}, 1) : c->spelling.any_char;
        return qn_expr_repeat(b, letter, s->min_length, s->max_length);
    }
    if (count > 1 || s->min_length > 0 || s->max_length != QN_UNBOUNDED) {
        const qn_automaton *all = all_texts(c, s);
        return all ? qn_automaton_expr(&c->room, b, all, bare ? NULL : &letters) : QN_NO_WORDS;
    }
    qn_error err;
    qn_expr expr = QN_NO_WORDS;
    if (qn_regex_expr(b, first.regex, first.bytes, first.search, bare ? NULL : &letters, &expr, &err) != QN_OK)
        fail_from(c, only->node, only->keyword, &err);
    return expr;
}

qn_expr schema_string_expr(compiler *c, const shape *s, bool bare)
{
    qn_json_spelling *spelling = &c->spelling;
    if (!bare && !s->texts && s->min_length == 0 && s->max_length == QN_UNBOUNDED)
        return spelling->any_string;
    qn_expr inside = string_inside(c, s, bare);
    return bare ? inside : qn_words_concat(c->b, (qn_expr[]){spelling->quote, inside, spelling->quote}, 3);
}

bool schema_string_is_empty(compiler *c, const shape *s)
{
    size_t count = 0;
    pattern p;
    for (const keyword_use *use = s->texts; use; use = use->next)
        count += pattern_of(use, &p);
    if (count == 0 || (count == 1 && s->min_length == 0 && s->max_length == QN_UNBOUNDED))
        return false;
    const qn_automaton *all = all_texts(c, s);
    return all && qn_automaton_is_empty(all);
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
        pattern p = {regex, length, true};
        const qn_automaton *a = c->failed ? NULL : automaton_of(c, &p, node, "patternProperties");
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
        const char *regex;
        size_t length;
        json_t *schema;
        json_object_keylen_foreach((json_t *)patterns, regex, length, schema)
        {
            if (count == 64) {
                schema_fail(c, use->node, "patternProperties", "cannot be enforced: more than 64 patterns");
                return 0;
            }
            out[count++] = (name_pattern){use->node, regex, length, schema};
        }
    }
    return count;
}

/* The names that are none of these. */
static const qn_automaton *free_names(compiler *c, const schema_text *names, size_t count)
{
    qn_error err;
    const qn_automaton *all = qn_automaton_of_length(&c->room, 0, QN_UNBOUNDED, &err), *taken = NULL;
    qn_automaton_text *texts = schema_alloc(c, count + 1, sizeof *texts);
    for (size_t i = 0; texts && i < count; i++)
        texts[i] = (qn_automaton_text){names[i].data, names[i].bytes};
    if (texts && all)
        taken = qn_automaton_of_texts(&c->room, texts, count, &err);
    if (texts && !taken)
        fail_from(c, NULL, "properties", &err);
    return intersect(c, all, taken, false, NULL, "properties");
}

/* Splits each class by the pattern; returns how many there are now. */
static size_t split_classes(compiler *c, name_class *classes, size_t count, const name_pattern *by, size_t bit)
{
    pattern p = {by->regex, by->bytes, true};
    const qn_automaton *a = automaton_of(c, &p, by->node, "patternProperties");
    size_t before = count;
    for (size_t i = 0; i < before && !c->failed; i++) {
        const qn_automaton *in = intersect(c, classes[i].names, a, true, by->node, "patternProperties");
        const qn_automaton *out = intersect(c, classes[i].names, a, false, by->node, "patternProperties");
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
}

qn_expr schema_other_members_expr(compiler *c, const shape *s, const schema_text *names, size_t count)
{
    name_pattern patterns[64];
    name_class classes[MOST_NAME_CLASSES] = {{0}};
    qn_expr options[MOST_NAME_CLASSES];
    size_t pattern_count = all_patterns(c, s, patterns), class_count = 1, n = 0;
    qn_regex_letters letters = {&c->spelling, json_letters};
    bool any_name = count == 0 && pattern_count == 0;
    if (!any_name)
        classes[0].names = free_names(c, names, count);
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
