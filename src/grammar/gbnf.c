/* Read and built in one pass: a name that is not defined yet is declared where it is first used. */
#include "grammar/gbnf.h"

#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "grammar/char_set.h"
#include "grammar/rule_table.h"
#include "grammar/source.h"

typedef struct reader {
    qn_source source;
    qn_grammar_builder *b;
    qn_rule_table rules;
    qn_expr_list exprs; /* parts and alternatives of what is being read */
    qn_alternatives alternatives;
    qn_buffer literal;
    qn_char_set set;
    unsigned depth;
    qn_error *err;
} reader;

#define FAIL(r, at, ...) (qn_source_fail(&(r)->source, at, (r)->err, __VA_ARGS__), false)

static bool out_of_memory(reader *r)
{
    qn_fail_memory(r->err, "gbnf", r->source.bytes);
    return false;
}

/* Blanks and comments, over the ends of lines if they mean nothing here. */
static void skip_space(reader *r, bool lines)
{
    qn_source *s = &r->source;
    while (s->at < s->bytes) {
        char c = s->text[s->at];
        if (c == '#') {
            const char *end = memchr(s->text + s->at, '\n', s->bytes - s->at);
            s->at = end != NULL ? (size_t)(end - s->text) : s->bytes;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            s->at++;
        } else {
            return;
        }
    }
}

static bool is_name_char(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* A rule's name, which is taken. */
static bool read_name(reader *r, const char **name, size_t *bytes)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    while (is_name_char(qn_source_peek(s, 0))) {
        s->at++;
    }
    *name = s->text + start;
    *bytes = s->at - start;
    if (*bytes > QN_RULE_NAME_MAX_BYTES) {
        return FAIL(r, start, "a name longer than %d bytes: make it shorter", QN_RULE_NAME_MAX_BYTES);
    }
    return *bytes > 0 || FAIL(r, start,
                              s->at < s->bytes ? "not what a rule begins with: write NAME ::= ..."
                                               : "the grammar ends here: write NAME ::= ...");
}

/* ---- characters ---- */

static bool read_literal(reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at++;
    qn_buffer_clear(&r->literal);
    while (s->at < s->bytes && s->text[s->at] != '"') {
        char bytes[4];
        uint32_t code = 0;
        if (s->text[s->at] == '\n') {
            break;
        }
        if (qn_source_char(s, &code, r->err) != QN_OK) {
            return false;
        }
        qn_buffer_append(&r->literal, bytes, qn_utf8_encode(code, bytes));
    }
    if (qn_source_peek(s, 0) != '"') {
        return FAIL(r, start, "the literal is not closed on its line: add \"");
    }
    s->at++;
    *out = qn_expr_bytes(r->b, qn_buffer_string(&r->literal), r->literal.size);
    return !r->literal.failed || out_of_memory(r);
}

static bool read_range(reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    uint32_t first = 0, last = 0;
    if (qn_source_char(s, &first, r->err) != QN_OK) {
        return false;
    }
    last = first;
    if (qn_source_peek(s, 0) == '-' && qn_source_peek(s, 1) != ']' && s->bytes - s->at > 1) {
        s->at++;
        if (qn_source_char(s, &last, r->err) != QN_OK) {
            return false;
        }
    }
    if (first > last) {
        return FAIL(r, start, "the range runs backwards: put the smaller character first");
    }
    qn_char_set_add(&r->set, first, last);
    return true;
}

static bool read_class(reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at++;
    bool negated = qn_source_peek(s, 0) == '^';
    s->at += negated;
    r->set.count = 0;
    while (s->at < s->bytes && s->text[s->at] != ']') {
        if (!read_range(r)) {
            return false;
        }
    }
    if (s->at >= s->bytes) {
        return FAIL(r, start, "the class is not closed: add ]");
    }
    if (s->text[s->at - 1] == '[' || (negated && s->text[s->at - 1] == '^' && s->at - start == 2)) {
        return FAIL(r, start, "an empty class: give it members, or escape the ] as \\]");
    }
    s->at++;
    *out = negated ? qn_expr_chars_except(r->b, r->set.ranges, r->set.count)
                   : qn_expr_chars(r->b, r->set.ranges, r->set.count);
    return !r->set.failed || out_of_memory(r);
}

/* ---- items ---- */

static bool read_alternatives(reader *r, const qn_named_rule *own, bool nested);

static bool read_group(reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at++, base = r->exprs.count;
    if (r->depth >= QN_SOURCE_MAX_DEPTH) {
        return FAIL(r, start, "parentheses nested deeper than %d: make rules of them", QN_SOURCE_MAX_DEPTH);
    }
    r->depth++;
    skip_space(r, true);
    if (!read_alternatives(r, NULL, true)) {
        return false;
    }
    r->depth--;
    if (qn_source_peek(s, 0) != ')') {
        return FAIL(r, s->at < s->bytes ? s->at : start, "the group is not closed: add )");
    }
    s->at++;
    *out = qn_expr_list_choice(&r->exprs, base, r->b);
    return true;
}

/* *name: the rule that is used, for the caller to see a rule that begins with itself. */
static bool read_item(reader *r, qn_expr *out, const char **name, size_t *bytes)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    *name = NULL;
    switch (qn_source_peek(s, 0)) {
    case '"':
        return read_literal(r, out);
    case '[':
        return read_class(r, out);
    case '(':
        return read_group(r, out);
    case '.':
        s->at++;
        *out = qn_expr_chars_except(r->b, NULL, 0);
        return true;
    case '*':
    case '+':
    case '?':
    case '{':
        return FAIL(r, start, "nothing to repeat: put an item before it");
    case '<':
        return FAIL(r, start, "tokens (<...>) are not known here: write their text as a literal");
    default:
        break;
    }
    if (!is_name_char(qn_source_peek(s, 0))) {
        return FAIL(r, start, "not what an item begins with: write a literal in quotes, a class, a group or a name");
    }
    if (!read_name(r, name, bytes)) {
        return false;
    }
    const qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, *name, *bytes, start);
    if (rule == NULL) {
        return out_of_memory(r);
    }
    *out = qn_expr_rule(r->b, rule->rule);
    return true;
}

/* Behind {. */
static bool read_bounds(reader *r, size_t start, size_t *min, size_t *max)
{
    qn_source *s = &r->source;
    skip_space(r, true);
    bool has_min = qn_source_number(s, QN_GBNF_MAX_REPEATS, min);
    skip_space(r, true);
    *max = *min;
    bool has_max = has_min;
    if (qn_source_peek(s, 0) == ',') {
        s->at++;
        skip_space(r, true);
        has_max = qn_source_number(s, QN_GBNF_MAX_REPEATS, max);
        *max = has_max ? *max : QN_UNBOUNDED;
        skip_space(r, true);
    }
    if ((!has_min && !has_max) || qn_source_peek(s, 0) != '}') {
        return FAIL(r, start, "not a count of repetitions: write {m}, {m,}, {m,n} or {,n}");
    }
    s->at++;
    if (*min > QN_GBNF_MAX_REPEATS || (has_max && *max > QN_GBNF_MAX_REPEATS)) {
        return FAIL(r, start, "more than %d repetitions: ask for fewer", QN_GBNF_MAX_REPEATS);
    }
    return *min <= *max || FAIL(r, start, "{m,n} with n below m: swap them");
}

/* The quantifiers behind an item; *any: there was one. */
static bool read_quantifiers(reader *r, qn_expr *item, bool *any)
{
    qn_source *s = &r->source;
    *any = false;
    for (char c = qn_source_peek(s, 0); c != '\0' && strchr("*+?{", c) != NULL; c = qn_source_peek(s, 0)) {
        size_t min = c == '+', max = c == '?' ? 1 : QN_UNBOUNDED, start = s->at++;
        if (c == '{' && !read_bounds(r, start, &min, &max)) {
            return false;
        }
        *item = max == 1 && min == 0 ? qn_expr_optional(r->b, *item) : qn_expr_repeat(r->b, *item, min, max);
        *any = true;
        skip_space(r, r->depth > 0);
    }
    return true;
}

/* Items up to | or the end. *recursive: the first was the rule `own` itself, and is left out. */
static bool read_sequence(reader *r, const qn_named_rule *own, qn_expr *out, bool *recursive)
{
    qn_source *s = &r->source;
    size_t base = r->exprs.count;
    bool first = true;
    *recursive = false;
    for (;;) {
        char c = qn_source_peek(s, 0);
        if (s->at >= s->bytes || c == '|' || c == ')' || c == '\n') {
            *out = qn_expr_list_concat(&r->exprs, base, r->b);
            return !r->exprs.failed || out_of_memory(r);
        }
        qn_expr item = 0;
        const char *name = NULL;
        size_t bytes = 0;
        bool quantified = false;
        if (!read_item(r, &item, &name, &bytes)) {
            return false;
        }
        skip_space(r, r->depth > 0);
        if (!read_quantifiers(r, &item, &quantified)) {
            return false;
        }
        if (first && own != NULL && name != NULL && !quantified && bytes == own->bytes &&
            memcmp(name, own->name, bytes) == 0) {
            *recursive = true;
        } else {
            qn_expr_list_add(&r->exprs, item);
        }
        first = false;
    }
}

/* At the end of a line, outside parentheses: goes to a | that begins one of the next lines. */
static void join_next_line(reader *r)
{
    size_t end = r->source.at;
    skip_space(r, true);
    if (qn_source_peek(&r->source, 0) != '|') {
        r->source.at = end;
    }
}

/* Pushes each alternative on r->exprs, or adds it to r->alternatives where they are those of the rule `own`. */
static bool read_alternatives(reader *r, const qn_named_rule *own, bool nested)
{
    for (;;) {
        qn_expr sequence = 0;
        bool recursive = false;
        if (!read_sequence(r, own, &sequence, &recursive)) {
            return false;
        }
        qn_expr_list *into = recursive ? &r->alternatives.recursive : &r->alternatives.plain;
        qn_expr_list_add(nested ? &r->exprs : into, sequence);
        if (!nested) {
            join_next_line(r);
        }
        if (qn_source_peek(&r->source, 0) != '|') {
            return true;
        }
        r->source.at++;
        skip_space(r, true);
    }
}

/* ---- rules ---- */

static bool read_rule(reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at, bytes = 0;
    const char *name = NULL;
    if (!read_name(r, &name, &bytes)) {
        return false;
    }
    skip_space(r, false);
    if (!qn_source_starts(s, "::=")) {
        return FAIL(r, s->at, "::= is missing behind the rule's name: add it");
    }
    s->at += 3;
    skip_space(r, true);
    qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, name, bytes, start);
    if (rule == NULL) {
        return out_of_memory(r);
    }
    if (rule->defined) {
        return FAIL(r, start, "rule %.*s is defined twice: join its alternatives with |", (int)bytes, name);
    }
    rule->defined = true;
    rule->at = start;
    const qn_named_rule own = *rule; /* the table may move */
    if (!read_alternatives(r, &own, false)) {
        return false;
    }
    if (s->at < s->bytes && s->text[s->at] != '\n') {
        return FAIL(r, s->at, "a ) without its (: remove it");
    }
    qn_rule_define(r->b, own.rule, qn_alternatives_finish(&r->alternatives, r->b));
    return !(r->alternatives.plain.failed || r->alternatives.recursive.failed) || out_of_memory(r);
}

static bool read_grammar(reader *r, qn_expr *out)
{
    for (skip_space(r, true); r->source.at < r->source.bytes; skip_space(r, true)) {
        if (!read_rule(r)) {
            return false;
        }
    }
    const qn_named_rule *missing = qn_rule_table_undefined(&r->rules);
    if (missing != NULL) {
        return FAIL(r, missing->at, "rule %.*s is not defined: add %.*s ::= ...", (int)missing->bytes, missing->name,
                    (int)missing->bytes, missing->name);
    }
    const qn_named_rule *root = qn_rule_table_find(&r->rules, "root", 4);
    if (root == NULL) {
        return FAIL(r, r->source.bytes, "there is no rule root, where a grammar starts: add root ::= ...");
    }
    *out = qn_expr_rule(r->b, root->rule);
    return true;
}

qn_status qn_gbnf_expr(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    reader r = {.source = {.what = "gbnf", .text = text, .bytes = bytes}, .b = b, .err = err};
    qn_status status = qn_source_check(&r.source, err);
    if (status == QN_OK) {
        status = read_grammar(&r, out) ? qn_grammar_builder_status(b, err) : err->status;
    }
    qn_rule_table_free(&r.rules);
    qn_expr_list_free(&r.exprs);
    qn_expr_list_free(&r.alternatives.plain);
    qn_expr_list_free(&r.alternatives.recursive);
    qn_buffer_free(&r.literal);
    qn_char_set_free(&r.set);
    return status;
}
