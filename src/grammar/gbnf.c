/* What is GBNF's own: names, classes, groups and rules; rule_reader.c reads what is around them. */
#include "grammar/gbnf.h"

#include <string.h>

#include "grammar/rule_reader.h"

static bool is_name_char(char c)
{
    char lower = (char)(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* A rule's name, which is taken. */
static bool read_name(qn_rule_reader *r, const char **name, size_t *bytes)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    while (is_name_char(qn_source_peek(s, 0))) {
        s->at++;
    }
    *name = s->text + start;
    *bytes = s->at - start;
    if (*bytes > QN_RULE_NAME_MAX_BYTES) {
        return QN_RULE_FAIL(r, start, "a name longer than %d bytes: make it shorter", QN_RULE_NAME_MAX_BYTES);
    }
    return *bytes > 0 || QN_RULE_FAIL(r, start,
                                      s->at < s->bytes ? "not what a rule begins with: write NAME ::= ..."
                                                       : "the grammar ends here: write NAME ::= ...");
}

/* ---- characters ---- */

static bool read_literal(qn_rule_reader *r, qn_expr *out)
{
    if (!qn_rule_read_quoted(r)) {
        return false;
    }
    *out = qn_expr_bytes(r->b, qn_buffer_string(&r->literal), r->literal.size);
    return true;
}

static bool read_range(qn_rule_reader *r)
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
        return QN_RULE_FAIL(r, start, "the range runs backwards: put the smaller character first");
    }
    qn_char_set_add(&r->set, first, last);
    return true;
}

static bool read_class(qn_rule_reader *r, qn_expr *out)
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
        return QN_RULE_FAIL(r, start, "the class is not closed: add ]");
    }
    if (s->text[s->at - 1] == '[' || (negated && s->text[s->at - 1] == '^' && s->at - start == 2)) {
        return QN_RULE_FAIL(r, start, "an empty class: give it members, or escape the ] as \\]");
    }
    s->at++;
    *out = negated ? qn_expr_chars_except(r->b, r->set.ranges, r->set.count)
                   : qn_expr_chars(r->b, r->set.ranges, r->set.count);
    return !r->set.failed || qn_rule_no_memory(r);
}

/* ---- items ---- */

static bool read_group(qn_rule_reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at++, base = r->exprs.count;
    if (r->depth >= QN_SOURCE_MAX_DEPTH) {
        return QN_RULE_FAIL(r, start, "parentheses nested deeper than %d: make rules of them", QN_SOURCE_MAX_DEPTH);
    }
    r->depth++;
    qn_rule_skip_space(r, true);
    if (!qn_rule_read_alternatives(r, NULL)) {
        return false;
    }
    r->depth--;
    if (qn_source_peek(s, 0) != ')') {
        return QN_RULE_FAIL(r, s->at < s->bytes ? s->at : start, "the group is not closed: add )");
    }
    s->at++;
    *out = qn_expr_list_choice(&r->exprs, base, r->b);
    return true;
}

static bool read_item(qn_rule_reader *r, qn_expr *out, const char **name, size_t *bytes)
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
        return QN_RULE_FAIL(r, start, "nothing to repeat: put an item before it");
    case '<':
        return QN_RULE_FAIL(r, start, "tokens (<...>) are not known here: write their text as a literal");
    default:
        break;
    }
    if (!is_name_char(qn_source_peek(s, 0))) {
        return QN_RULE_FAIL(r, start,
                            "not what an item begins with: write a literal in quotes, a class, a group or a name");
    }
    if (!read_name(r, name, bytes)) {
        return false;
    }
    const qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, *name, *bytes, start);
    if (rule == NULL) {
        return qn_rule_no_memory(r);
    }
    *out = qn_expr_rule(r->b, rule->rule);
    return true;
}

/* Behind {. */
static bool read_bounds(qn_rule_reader *r, size_t start, size_t *min, size_t *max)
{
    qn_source *s = &r->source;
    qn_rule_skip_space(r, true);
    bool has_min = qn_source_number(s, QN_GBNF_MAX_REPEATS, min);
    qn_rule_skip_space(r, true);
    *max = *min;
    bool has_max = has_min;
    if (qn_source_peek(s, 0) == ',') {
        s->at++;
        qn_rule_skip_space(r, true);
        has_max = qn_source_number(s, QN_GBNF_MAX_REPEATS, max);
        *max = has_max ? *max : QN_UNBOUNDED;
        qn_rule_skip_space(r, true);
    }
    if ((!has_min && !has_max) || qn_source_peek(s, 0) != '}') {
        return QN_RULE_FAIL(r, start, "not a count of repetitions: write {m}, {m,}, {m,n} or {,n}");
    }
    s->at++;
    if (*min > QN_GBNF_MAX_REPEATS || (has_max && *max > QN_GBNF_MAX_REPEATS)) {
        return QN_RULE_FAIL(r, start, "more than %d repetitions: ask for fewer", QN_GBNF_MAX_REPEATS);
    }
    return *min <= *max || QN_RULE_FAIL(r, start, "{m,n} with n below m: swap them");
}

static bool ends_sequence(const qn_rule_reader *r)
{
    char c = qn_source_peek(&r->source, 0);
    return r->source.at >= r->source.bytes || c == '|' || c == ')' || c == '\n';
}

static const qn_rule_notation notation = {.blanks = " \t\r",
                                          .quoted = "literal",
                                          .bounds = '{',
                                          .ends = ends_sequence,
                                          .read_item = read_item,
                                          .read_bounds = read_bounds};

/* ---- rules ---- */

static bool read_rule(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at, bytes = 0;
    const char *name = NULL;
    if (!read_name(r, &name, &bytes)) {
        return false;
    }
    qn_rule_skip_space(r, false);
    if (!qn_source_starts(s, "::=")) {
        return QN_RULE_FAIL(r, s->at, "::= is missing behind the rule's name: add it");
    }
    s->at += 3;
    qn_rule_skip_space(r, true);
    qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, name, bytes, start);
    if (rule == NULL) {
        return qn_rule_no_memory(r);
    }
    if (rule->defined) {
        return QN_RULE_FAIL(r, start, "rule %.*s is defined twice: join its alternatives with |", (int)bytes, name);
    }
    rule->defined = true;
    rule->at = start;
    const qn_named_rule own = *rule; /* the table may move */
    if (!qn_rule_read_alternatives(r, &own)) {
        return false;
    }
    if (s->at < s->bytes && s->text[s->at] != '\n') {
        return QN_RULE_FAIL(r, s->at, "a ) without its (: remove it");
    }
    qn_rule_define(r->b, own.rule, qn_alternatives_finish(&r->alternatives, r->b));
    return !(r->alternatives.plain.failed || r->alternatives.recursive.failed) || qn_rule_no_memory(r);
}

static bool read_grammar(qn_rule_reader *r, qn_expr *out)
{
    for (qn_rule_skip_space(r, true); r->source.at < r->source.bytes; qn_rule_skip_space(r, true)) {
        if (!read_rule(r)) {
            return false;
        }
    }
    const qn_named_rule *missing = qn_rule_table_undefined(&r->rules);
    if (missing != NULL) {
        return QN_RULE_FAIL(r, missing->at, "rule %.*s is not defined: add %.*s ::= ...", (int)missing->bytes,
                            missing->name, (int)missing->bytes, missing->name);
    }
    const qn_named_rule *root = qn_rule_table_find(&r->rules, "root", 4);
    if (root == NULL) {
        return QN_RULE_FAIL(r, r->source.bytes, "there is no rule root, where a grammar starts: add root ::= ...");
    }
    *out = qn_expr_rule(r->b, root->rule);
    return true;
}

qn_status qn_gbnf_expr(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    qn_rule_reader r = {
        .notation = &notation, .source = {.what = "gbnf", .text = text, .bytes = bytes}, .b = b, .err = err};
    qn_status status = qn_source_check(&r.source, err);
    if (status == QN_OK) {
        status = read_grammar(&r, out) ? qn_grammar_builder_status(b, err) : err->status;
    }
    qn_rule_reader_free(&r);
    return status;
}
