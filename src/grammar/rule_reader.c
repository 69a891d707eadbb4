/* Read and built in one pass: a name that is not defined yet is declared where it is first used. */
#include "grammar/rule_reader.h"

#include <string.h>

#include "base/utf8.h"

bool qn_rule_no_memory(qn_rule_reader *r)
{
    qn_fail_memory(r->err, r->source.what, r->source.bytes);
    return false;
}

void qn_rule_skip_space(qn_rule_reader *r, bool lines)
{
    qn_source *s = &r->source;
    while (s->at < s->bytes) {
        char c = s->text[s->at];
        if (c == '#' || (r->notation->slash_comments && qn_source_starts(s, "//"))) {
            const char *end = memchr(s->text + s->at, '\n', s->bytes - s->at);
            s->at = end != NULL ? (size_t)(end - s->text) : s->bytes;
        } else if ((c != '\0' && strchr(r->notation->blanks, c) != NULL) || (lines && c == '\n')) {
            s->at++;
        } else {
            return;
        }
    }
}

bool qn_rule_read_quoted(qn_rule_reader *r)
{
    qn_source *s = &r->source;
    size_t start = s->at++;
    qn_buffer_clear(&r->literal);
    while (s->at < s->bytes && s->text[s->at] != '"' && s->text[s->at] != '\n') {
        char bytes[4];
        uint32_t code = 0;
        if (qn_source_char(s, &code, r->err) != QN_OK) {
            return false;
        }
        qn_buffer_append(&r->literal, bytes, qn_utf8_encode(code, bytes));
    }
    if (qn_source_peek(s, 0) != '"') {
        return QN_RULE_FAIL(r, start, "the %s is not closed on its line: add \"", r->notation->quoted);
    }
    s->at++;
    return !r->literal.failed || qn_rule_no_memory(r);
}

/* The quantifiers behind an item; *any: there was one. */
static bool read_quantifiers(qn_rule_reader *r, qn_expr *item, bool *any)
{
    const char known[] = {'*', '+', '?', r->notation->bounds, '\0'};
    qn_source *s = &r->source;
    *any = false;
    for (char c = qn_source_peek(s, 0); c != '\0' && strchr(known, c) != NULL; c = qn_source_peek(s, 0)) {
        size_t min = c == '+', max = c == '?' ? 1 : QN_UNBOUNDED, start = s->at++;
        if (c == r->notation->bounds && !r->notation->read_bounds(r, start, &min, &max)) {
            return false;
        }
        *item = qn_expr_repeat(r->b, *item, min, max);
        *any = true;
        qn_rule_skip_space(r, r->depth > 0);
    }
    return true;
}

/* Items up to the end of the alternative. *recursive: the first was the rule `own` itself, and is left out. */
static bool read_sequence(qn_rule_reader *r, const qn_named_rule *own, qn_expr *out, bool *recursive)
{
    size_t base = r->exprs.count;
    bool first = true;
    *recursive = false;
    while (!r->notation->ends(r)) {
        qn_expr item = 0;
        const char *name = NULL;
        size_t bytes = 0;
        bool quantified = false;
        if (!r->notation->read_item(r, &item, &name, &bytes)) {
            return false;
        }
        qn_rule_skip_space(r, r->depth > 0);
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
    *out = qn_expr_list_concat(&r->exprs, base, r->b);
    if (r->notation->end_sequence != NULL && !r->notation->end_sequence(r)) {
        return false;
    }
    return !r->exprs.failed || qn_rule_no_memory(r);
}

void qn_rule_join_next_line(qn_rule_reader *r)
{
    size_t end = r->source.at;
    qn_rule_skip_space(r, true);
    if (qn_source_peek(&r->source, 0) != '|') {
        r->source.at = end;
    }
}

bool qn_rule_read_alternatives(qn_rule_reader *r, const qn_named_rule *own)
{
    for (;;) {
        qn_expr sequence = 0;
        bool recursive = false;
        if (!read_sequence(r, own, &sequence, &recursive)) {
            return false;
        }
        qn_expr_list *of_rule = recursive ? &r->alternatives.recursive : &r->alternatives.plain;
        qn_expr_list_add(own == NULL ? &r->exprs : of_rule, sequence);
        if (r->depth == 0) {
            qn_rule_join_next_line(r);
        }
        if (qn_source_peek(&r->source, 0) != '|') {
            return true;
        }
        r->source.at++;
        qn_rule_skip_space(r, true);
    }
}

void qn_rule_reader_free(qn_rule_reader *r)
{
    qn_rule_table_free(&r->rules);
    qn_expr_list_free(&r->exprs);
    qn_expr_list_free(&r->alternatives.plain);
    qn_expr_list_free(&r->alternatives.recursive);
    qn_buffer_free(&r->literal);
    qn_char_set_free(&r->set);
}
