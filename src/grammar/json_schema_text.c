/* Strings. One pattern alone is spelt as it is; where several meet, or meet bounds on the length or strings that are
 * excluded, automata are intersected first. */
#include <string.h>

#include "grammar/automaton.h"
#include "grammar/json_schema_compiler.h"
#include "grammar/json_schema_format.h"

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

qn_regex_letters schema_letters(compiler *c)
{
    return (qn_regex_letters){&c->spelling, json_letters};
}

void schema_fail_from(compiler *c, const schema_node *node, const char *keyword, const qn_error *err)
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
        schema_fail_from(c, node, keyword, &err);
        return NULL;
    }
    c->patterns = k;
    return k->automaton;
}

const qn_automaton *schema_pattern_automaton(compiler *c, const schema_node *node, const char *regex, size_t bytes)
{
    return automaton_of(c, &(pattern){regex, bytes, true}, node, "patternProperties");
}

const qn_automaton *schema_intersect(compiler *c, const qn_automaton *a, const qn_automaton *b, bool inside,
                                     const schema_node *node, const char *keyword)
{
    qn_error err;
    if (!a || !b || c->failed)
        return NULL;
    const qn_automaton *both = qn_automaton_both(&c->room, a, b, inside, &err);
    if (!both)
        schema_fail_from(c, node, keyword, &err);
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
        fits = a && qn_automaton_matches(a, json_string_value(value), json_string_length(value)) != use->negated;
    }
    return fits;
}

/* The strings that the shape excludes; NULL when there are none, or the compiler failed. */
static const qn_automaton *excluded_texts(compiler *c, const shape *s, const keyword_use **by)
{
    size_t count = 0;
    for (const keyword_use *use = s->excluded; use; use = use->next)
        count += json_is_string(use->value);
    qn_automaton_text *texts = count > 0 ? schema_alloc(c, count, sizeof *texts) : NULL;
    if (!texts)
        return NULL;
    count = 0;
    for (const keyword_use *use = s->excluded; use; use = use->next) {
        if (!json_is_string(use->value))
            continue;
        texts[count++] = (qn_automaton_text){json_string_value(use->value), json_string_length(use->value)};
        *by = use;
    }
    qn_error err;
    const qn_automaton *a = qn_automaton_of_texts(&c->room, texts, count, &err);
    if (!a)
        schema_fail_from(c, (*by)->node, (*by)->keyword, &err);
    return a;
}

/* How many automata the shape's strings are made of, and a pattern if there is one. */
static size_t count_texts(const shape *s, const keyword_use **only)
{
    size_t count = 0;
    pattern p;
    for (const keyword_use *use = s->texts; use; use = use->next) {
        if (!pattern_of(use, &p))
            continue;
        count += use->negated ? 2 : 1;
        *only = use;
    }
    for (const keyword_use *use = s->excluded; use; use = use->next)
        count += json_is_string(use->value) ? 2 : 0;
    return count;
}

const qn_automaton *schema_texts_automaton(compiler *c, const shape *s)
{
    const keyword_use *by = NULL;
    qn_error err;
    const qn_automaton *all = qn_automaton_of_length(&c->room, s->min_length, s->max_length, &err);
    if (!all) {
        count_texts(s, &by);
        schema_fail_from(c, by ? by->node : NULL, by ? by->keyword : NULL, &err);
    }
    for (const keyword_use *use = s->texts; use && !c->failed; use = use->next) {
        pattern p;
        if (!pattern_of(use, &p))
            continue;
        const qn_automaton *one = automaton_of(c, &p, use->node, use->keyword);
        all = schema_intersect(c, all, one, !use->negated, use->node, use->keyword);
    }
    const qn_automaton *excluded = c->failed ? NULL : excluded_texts(c, s, &by);
    return excluded ? schema_intersect(c, all, excluded, false, by->node, by->keyword) : all;
}

static qn_expr string_inside(compiler *c, const shape *s, bool bare)
{
    qn_grammar_builder *b = c->b;
    qn_regex_letters letters = schema_letters(c);
    const keyword_use *only = NULL;
    pattern p;
    size_t count = count_texts(s, &only);
    if (count == 0) {
        qn_expr letter = bare ? qn_expr_chars(b, &(qn_char_range){0, 0x10FFFF}, 1) : c->spelling.any_char;
        return qn_expr_repeat(b, letter, s->min_length, s->max_length);
    }
    if (count > 1 || s->min_length > 0 || s->max_length != QN_UNBOUNDED) {
        const qn_automaton *all = schema_texts_automaton(c, s);
        return all && !c->failed ? qn_automaton_expr(&c->room, b, all, bare ? NULL : &letters) : QN_NO_WORDS;
    }
    qn_error err;
    qn_expr expr = QN_NO_WORDS;
    pattern_of(only, &p);
    if (qn_regex_expr(b, p.regex, p.bytes, p.search, bare ? NULL : &letters, &expr, &err) != QN_OK)
        schema_fail_from(c, only->node, only->keyword, &err);
    return expr;
}

qn_expr schema_string_expr(compiler *c, const shape *s, bool bare)
{
    qn_json_spelling *spelling = &c->spelling;
    if (!bare && !s->texts && !s->excluded && s->min_length == 0 && s->max_length == QN_UNBOUNDED)
        return spelling->any_string;
    qn_expr inside = string_inside(c, s, bare);
    return bare ? inside : qn_words_concat(c->b, (qn_expr[]){spelling->quote, inside, spelling->quote}, 3);
}

bool schema_string_is_empty(compiler *c, const shape *s)
{
    const keyword_use *only = NULL;
    size_t count = count_texts(s, &only);
    if (count == 0 || (count == 1 && s->min_length == 0 && s->max_length == QN_UNBOUNDED))
        return false;
    const qn_automaton *all = schema_texts_automaton(c, s);
    return all && !c->failed && qn_automaton_is_empty(all);
}
