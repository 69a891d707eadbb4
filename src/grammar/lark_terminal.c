/* Strings, ranges of characters and regexes, each with its flags, become expressions as they are read. */
#include "grammar/lark_terminal.h"

#include <string.h>

#include "base/utf8.h"
#include "grammar/char_property.h"
#include "grammar/regex.h"

static bool folded_literal(qn_rule_reader *r, qn_expr *out)
{
    size_t base = r->exprs.count, length;
    const char *text = qn_buffer_string(&r->literal);
    for (size_t at = 0; at < r->literal.size; at += length) {
        uint32_t code = 0;
        length = qn_utf8_decode(text + at, r->literal.size - at, &code);
        r->set.count = 0;
        qn_char_set_add(&r->set, code, code);
        qn_char_set_fold(&r->set);
        qn_expr_list_add(&r->exprs, qn_expr_chars(r->b, r->set.ranges, r->set.count));
    }
    *out = qn_expr_list_concat(&r->exprs, base, r->b);
    return !(r->set.failed || r->exprs.failed) || qn_rule_no_memory(r);
}

/* The one character in r->literal. */
static bool single_char(qn_rule_reader *r, size_t at, uint32_t *code)
{
    size_t length = qn_utf8_decode(qn_buffer_string(&r->literal), r->literal.size, code);
    return (length > 0 && length == r->literal.size) ||
           QN_RULE_FAIL(r, at, "a range goes from one character to another: write \"a\"..\"z\"");
}

bool qn_lark_read_string(qn_rule_reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at;
    if (!qn_rule_read_quoted(r)) {
        return false;
    }
    if (qn_source_peek(s, 0) == 'i') {
        s->at++;
        return folded_literal(r, out);
    }
    qn_rule_skip_space(r, false);
    if (!qn_source_starts(s, "..")) {
        *out = qn_expr_bytes(r->b, qn_buffer_string(&r->literal), r->literal.size);
        return true;
    }
    qn_char_range range = {0, 0};
    s->at += 2;
    qn_rule_skip_space(r, false);
    if (!single_char(r, start, &range.first)) {
        return false;
    }
    if (qn_source_peek(s, 0) != '"') {
        return QN_RULE_FAIL(r, s->at, "a range goes from one character to another: write \"a\"..\"z\"");
    }
    if (!qn_rule_read_quoted(r) || !single_char(r, start, &range.last)) {
        return false;
    }
    *out = qn_expr_chars(r->b, &range, 1);
    return range.first <= range.last ||
           QN_RULE_FAIL(r, start, "the range runs backwards: put the smaller character first");
}

static bool read_flags(qn_rule_reader *r, unsigned *flags)
{
    qn_source *s = &r->source;
    *flags = 0;
    for (char c = qn_source_peek(s, 0); c >= 'a' && c <= 'z'; c = qn_source_peek(s, 0)) {
        if (strchr("isxm", c) == NULL) {
            return QN_RULE_FAIL(r, s->at, "flag %c is not known: there are i, s, x and m", c);
        }
        /* m would change anchors alone, and there are none */
        *flags |= c == 'i' ? QN_REGEX_IGNORE_CASE : (c == 's' ? QN_REGEX_DOT_ALL : (c == 'x' ? QN_REGEX_VERBOSE : 0));
        s->at++;
    }
    return true;
}

bool qn_lark_build_regex(qn_rule_reader *r, size_t at, const char *regex, size_t bytes, unsigned flags, qn_expr *out)
{
    qn_error err;
    qn_status status = qn_regex_part_expr(r->b, regex, bytes, flags, out, &err);
    if (status == QN_USAGE) {
        return QN_RULE_FAIL(r, at, "%s", err.message);
    }
    if (status != QN_OK) {
        *r->err = err;
    }
    return status == QN_OK;
}

bool qn_lark_read_regex(qn_rule_reader *r, qn_expr *out)
{
    qn_source *s = &r->source;
    size_t start = s->at++;
    unsigned flags = 0;
    while (s->at < s->bytes && s->text[s->at] != '/') {
        s->at += s->text[s->at] == '\\' ? 2 : 1;
    }
    if (s->at >= s->bytes) {
        s->at = s->bytes;
        return QN_RULE_FAIL(r, start, "the regex is not closed: add /");
    }
    const char *regex = s->text + start + 1;
    size_t bytes = s->at - start - 1;
    s->at++;
    return read_flags(r, &flags) && qn_lark_build_regex(r, start, regex, bytes, flags, out);
}
