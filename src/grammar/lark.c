/* What is Lark's own: terminals, directives and rules; rule_reader.c reads what is around them. What is ignored becomes
 * a rule of its own, which every terminal in a rule has behind it and the start before it; terminals are built of
 * characters alone (lark_terminal.c reads those that are written out). */
#include "grammar/lark.h"

#include <string.h>

#include "grammar/lark_terminal.h"
#include "grammar/rule_reader.h"

typedef struct lark_reader {
    qn_rule_reader common; /* first, so that it can be found from there */
    qn_expr_list ignored;
    bool ignores;     /* there may be a %ignore */
    qn_rule ignoring; /* then: the rule of what is ignored */
    bool in_terminal;
} lark_reader;

static lark_reader *lark_of(qn_rule_reader *r)
{
    return (lark_reader *)r;
}

static bool is_small(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

typedef struct name {
    const char *text; /* NULL: none */
    size_t bytes;
    bool terminal;
} name;

/* A name, which is taken: letters of one kind, digits and _. */
static bool read_name(qn_rule_reader *r, name *out)
{
    qn_source *s = &r->source;
    size_t start = s->at, letter = 0;
    while (qn_source_peek(s, letter) == '_') {
        letter++;
    }
    out->terminal = is_capital(qn_source_peek(s, letter));
    if (!out->terminal && !is_small(qn_source_peek(s, letter))) {
        return QN_RULE_FAIL(r, start, "a name is expected: rule in small letters, TERMINAL in capitals");
    }
    for (char c = qn_source_peek(s, 0); c == '_' || (c >= '0' && c <= '9') || is_small(c) || is_capital(c);
         c = qn_source_peek(s, 0)) {
        if (out->terminal ? is_small(c) : is_capital(c)) {
            return QN_RULE_FAIL(r, start,
                                "a name of small letters and capitals: a rule's has small ones, a terminal's capitals");
        }
        s->at++;
    }
    out->text = s->text + start;
    out->bytes = s->at - start;
    return out->bytes <= QN_RULE_NAME_MAX_BYTES ||
           QN_RULE_FAIL(r, start, "a name longer than %d bytes: make it shorter", QN_RULE_NAME_MAX_BYTES);
}

/* ---- items ---- */

/* (...) or [...]. */
static bool read_group(qn_rule_reader *r, char close, qn_expr *out)
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
    if (qn_source_peek(s, 0) != close) {
        return QN_RULE_FAIL(r, start, "the group is not closed: add %c", close);
    }
    s->at++;
    *out = qn_expr_list_choice(&r->exprs, base, r->b);
    *out = close == ']' ? qn_expr_optional(r->b, *out) : *out;
    return true;
}

static qn_expr with_ignored(qn_rule_reader *r, qn_expr terminal)
{
    bool follows = lark_of(r)->ignores && !lark_of(r)->in_terminal;
    return follows ? qn_expr_concat2(r->b, terminal, qn_expr_rule(r->b, lark_of(r)->ignoring)) : terminal;
}

static bool read_use(qn_rule_reader *r, qn_expr *out, const char **text, size_t *bytes)
{
    size_t start = r->source.at;
    name used;
    if (!read_name(r, &used)) {
        return false;
    }
    if (qn_source_peek(&r->source, 0) == '{') {
        return QN_RULE_FAIL(r, start, "templates are not known: write the rule out");
    }
    if (lark_of(r)->in_terminal && !used.terminal) {
        return QN_RULE_FAIL(r, start, "a terminal is made of terminals: give this a name in capitals");
    }
    const qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, used.text, used.bytes, start);
    if (rule == NULL) {
        return qn_rule_no_memory(r);
    }
    *text = used.text;
    *bytes = used.bytes;
    *out = qn_expr_rule(r->b, rule->rule);
    *out = used.terminal ? with_ignored(r, *out) : *out;
    return true;
}

static bool read_item(qn_rule_reader *r, qn_expr *out, const char **used, size_t *bytes)
{
    size_t start = r->source.at;
    char c = qn_source_peek(&r->source, 0);
    *used = NULL;
    if (c == '"' || c == '/') {
        if (!(c == '"' ? qn_lark_read_string(r, out) : qn_lark_read_regex(r, out))) {
            return false;
        }
        *out = with_ignored(r, *out);
        return true;
    }
    if (c == '(' || c == '[') {
        return read_group(r, c == '(' ? ')' : ']', out);
    }
    if (c == '*' || c == '+' || c == '?' || c == '~') {
        return QN_RULE_FAIL(r, start, "nothing to repeat: put an item before it");
    }
    if (c == '_' || is_small(c) || is_capital(c)) {
        return read_use(r, out, used, bytes);
    }
    return QN_RULE_FAIL(r, start, "not what an item begins with: write a string, a /regex/, a group or a name");
}

/* Behind ~. */
static bool read_bounds(qn_rule_reader *r, size_t start, size_t *min, size_t *max)
{
    qn_source *s = &r->source;
    qn_rule_skip_space(r, false);
    bool known = qn_source_number(s, QN_LARK_MAX_REPEATS, min);
    *max = *min;
    qn_rule_skip_space(r, r->depth > 0);
    if (known && qn_source_starts(s, "..")) {
        s->at += 2;
        qn_rule_skip_space(r, false);
        known = qn_source_number(s, QN_LARK_MAX_REPEATS, max);
    }
    if (!known) {
        return QN_RULE_FAIL(r, start, "not a count of repetitions: write ~ 3 or ~ 3..5");
    }
    if (*min > QN_LARK_MAX_REPEATS || *max > QN_LARK_MAX_REPEATS) {
        return QN_RULE_FAIL(r, start, "more than %d repetitions: ask for fewer", QN_LARK_MAX_REPEATS);
    }
    return *min <= *max || QN_RULE_FAIL(r, start, "~ n..m with m below n: swap them");
}

/* -> alias: names a branch of a tree. */
static bool skip_alias(qn_rule_reader *r)
{
    name alias;
    if (!qn_source_starts(&r->source, "->")) {
        return true;
    }
    r->source.at += 2;
    qn_rule_skip_space(r, false);
    if (!read_name(r, &alias)) {
        return false;
    }
    qn_rule_skip_space(r, r->depth > 0);
    return true;
}

static bool ends_sequence(const qn_rule_reader *r)
{
    const qn_source *s = &r->source;
    return s->at >= s->bytes || strchr("|)]\n", s->text[s->at]) != NULL || qn_source_starts(s, "->");
}

static const qn_rule_notation notation = {.blanks = " \t\r\f",
                                          .slash_comments = true,
                                          .quoted = "string",
                                          .bounds = '~',
                                          .ends = ends_sequence,
                                          .read_item = read_item,
                                          .read_bounds = read_bounds,
                                          .end_sequence = skip_alias};

/* ---- statements ---- */

static bool end_of_line(qn_rule_reader *r)
{
    qn_rule_skip_space(r, false);
    return r->source.at >= r->source.bytes || r->source.text[r->source.at] == '\n' ||
           QN_RULE_FAIL(r, r->source.at, "the end of the line is expected here: remove the rest");
}

/* The rule of a name that is defined at `at`. */
static qn_named_rule *define(qn_rule_reader *r, const name *defined, size_t at)
{
    qn_named_rule *rule = qn_rule_table_get(&r->rules, r->b, defined->text, defined->bytes, at);
    if (rule == NULL) {
        qn_rule_no_memory(r);
        return NULL;
    }
    if (rule->defined) {
        qn_source_fail(&r->source, at, r->err, "%.*s is defined twice: join the alternatives with |",
                       (int)defined->bytes, defined->text);
        return NULL;
    }
    rule->defined = true;
    rule->at = at;
    return rule;
}

/* .2 or .-1 behind a name: which terminal a lexer would prefer. */
static bool skip_priority(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at, ignored = 0;
    if (qn_source_peek(s, 0) != '.') {
        return true;
    }
    s->at++;
    s->at += qn_source_peek(s, 0) == '-' || qn_source_peek(s, 0) == '+';
    return qn_source_number(s, 1 << 20, &ignored) || QN_RULE_FAIL(r, start, "a priority is a number: write NAME.2");
}

static bool read_rule(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    while (qn_source_peek(s, 0) == '?' || qn_source_peek(s, 0) == '!') {
        s->at++;
    }
    size_t start = s->at;
    name defined;
    if (!read_name(r, &defined)) {
        return false;
    }
    if (qn_source_peek(s, 0) == '{') {
        return QN_RULE_FAIL(r, start, "templates are not known: write the rule out");
    }
    if (!skip_priority(r)) {
        return false;
    }
    qn_rule_skip_space(r, false);
    if (qn_source_peek(s, 0) != ':') {
        return QN_RULE_FAIL(r, s->at, ": is missing behind the name: add it");
    }
    s->at++;
    qn_rule_skip_space(r, false);
    const qn_named_rule *rule = define(r, &defined, start);
    if (rule == NULL) {
        return false;
    }
    const qn_named_rule own = *rule; /* the table may move */
    qn_rule_join_next_line(r);
    lark_of(r)->in_terminal = defined.terminal;
    if (!qn_rule_read_alternatives(r, &own) || !end_of_line(r)) {
        return false;
    }
    qn_rule_define(r->b, own.rule, qn_alternatives_finish(&r->alternatives, r->b));
    return !(r->alternatives.plain.failed || r->alternatives.recursive.failed) || qn_rule_no_memory(r);
}

static bool read_ignore(qn_rule_reader *r)
{
    size_t base = r->exprs.count;
    lark_of(r)->in_terminal = true;
    if (!qn_rule_read_alternatives(r, NULL) || !end_of_line(r)) {
        return false;
    }
    qn_expr_list_add(&lark_of(r)->ignored, qn_expr_list_choice(&r->exprs, base, r->b));
    return !(r->exprs.failed || lark_of(r)->ignored.failed) || qn_rule_no_memory(r);
}

/* The terminal `common` under the name `as`. */
static bool import(qn_rule_reader *r, size_t at, const name *common, const name *as)
{
    qn_expr expr = 0;
    const char *regex = qn_lark_common(common->text, common->bytes);
    if (regex == NULL) {
        return QN_RULE_FAIL(r, at, "common has no terminal %.*s: define it", (int)common->bytes, common->text);
    }
    if (!as->terminal) {
        return QN_RULE_FAIL(r, at, "a terminal's name is in capitals: rename it");
    }
    const qn_named_rule *rule = define(r, as, at);
    if (rule == NULL) {
        return false;
    }
    qn_rule number = rule->rule;
    if (!qn_lark_build_regex(r, at, regex, strlen(regex), 0, &expr)) {
        return false;
    }
    qn_rule_define(r->b, number, expr);
    return true;
}

/* common.NAME, common.NAME -> ALIAS, or common (NAME, NAME). */
static bool read_import(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    name imported, as;
    if (!qn_source_starts(s, "common")) {
        return QN_RULE_FAIL(r, start, "only terminals of common can be imported: write the others out");
    }
    s->at += strlen("common");
    if (qn_source_peek(s, 0) == '.') {
        s->at++;
        if (!read_name(r, &imported)) {
            return false;
        }
        as = imported;
        qn_rule_skip_space(r, false);
        if (qn_source_starts(s, "->")) {
            s->at += 2;
            qn_rule_skip_space(r, false);
            if (!read_name(r, &as)) {
                return false;
            }
        }
        return import(r, start, &imported, &as) && end_of_line(r);
    }
    qn_rule_skip_space(r, false);
    if (qn_source_peek(s, 0) != '(') {
        return QN_RULE_FAIL(r, s->at, "not an import: write %%import common.NAME or %%import common (NAME, NAME)");
    }
    do {
        s->at++;
        qn_rule_skip_space(r, true);
        size_t at = s->at;
        if (!read_name(r, &imported) || !import(r, at, &imported, &imported)) {
            return false;
        }
        qn_rule_skip_space(r, true);
    } while (qn_source_peek(s, 0) == ',');
    if (qn_source_peek(s, 0) != ')') {
        return QN_RULE_FAIL(r, s->at, "the list of names is not closed: add )");
    }
    s->at++;
    return end_of_line(r);
}

static bool read_directive(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at, length = 1;
    while (is_small(qn_source_peek(s, length))) {
        length++;
    }
    bool ignore = length == 7 && qn_source_starts(s, "%ignore");
    if (!ignore && !(length == 7 && qn_source_starts(s, "%import"))) {
        return QN_RULE_FAIL(r, start, "%.*s is not known: there are %%import and %%ignore",
                            (int)(length < 40 ? length : 40), s->text + start);
    }
    s->at += length;
    qn_rule_skip_space(r, false);
    return ignore ? read_ignore(r) : read_import(r);
}

/* Whether a line begins with %ignore, or looks so. */
static bool finds_ignore(qn_source source)
{
    bool at_start = true;
    for (; source.at < source.bytes; source.at++) {
        char c = source.text[source.at];
        if (at_start && c == '%' && qn_source_starts(&source, "%ignore")) {
            return true;
        }
        at_start = c == '\n' || (at_start && (c == ' ' || c == '\t'));
    }
    return false;
}

static bool read_grammar(qn_rule_reader *r, qn_expr *out)
{
    lark_of(r)->ignores = finds_ignore(r->source);
    lark_of(r)->ignoring = lark_of(r)->ignores ? qn_rule_declare(r->b, "%ignore") : 0;
    for (qn_rule_skip_space(r, true); r->source.at < r->source.bytes; qn_rule_skip_space(r, true)) {
        if (!(r->source.text[r->source.at] == '%' ? read_directive(r) : read_rule(r))) {
            return false;
        }
    }
    const qn_named_rule *missing = qn_rule_table_undefined(&r->rules);
    if (missing != NULL) {
        return QN_RULE_FAIL(r, missing->at, "%.*s is not defined: define it, or %%import it from common",
                            (int)missing->bytes, missing->name);
    }
    const qn_named_rule *start = qn_rule_table_find(&r->rules, "start", 5);
    if (start == NULL) {
        return QN_RULE_FAIL(r, r->source.bytes, "there is no rule start, where a grammar starts: add start: ...");
    }
    *out = qn_expr_rule(r->b, start->rule);
    if (lark_of(r)->ignores) {
        qn_expr any = qn_expr_list_choice(&lark_of(r)->ignored, 0, r->b);
        qn_rule_define(r->b, lark_of(r)->ignoring, qn_expr_repeat(r->b, any, 0, QN_UNBOUNDED));
        *out = qn_expr_concat2(r->b, qn_expr_rule(r->b, lark_of(r)->ignoring), *out);
    }
    return true;
}

qn_status qn_lark_expr(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err)
{
    lark_reader reader = {.common = {.notation = &notation,
                                     .source = {.what = "lark", .text = text, .bytes = bytes},
                                     .b = b,
                                     .err = err}};
    qn_rule_reader *r = &reader.common;
    qn_status status = qn_source_check(&r->source, err);
    if (status == QN_OK) {
        status = read_grammar(r, out) ? qn_grammar_builder_status(b, err) : err->status;
    }
    qn_rule_reader_free(r);
    qn_expr_list_free(&reader.ignored);
    return status;
}
