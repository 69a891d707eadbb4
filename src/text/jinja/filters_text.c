/* Filters that make text. Most take any value and work on its str(). */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/filter_functions.h"
#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/number.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/undefined.h"
#include "text/jinja/character.h"

static qn_status cased(qn_render *r, qn_value self, qn_case wanted, qn_value *out)
{
    const qn_str *s;
    qn_builder b = qn_builder_start(r);
    QN_TRY(qn_value_str(r, self, &s));
    qn_builder_cased(&b, s, 0, s->bytes, wanted);
    return qn_builder_value(&b, out);
}

qn_status qn_filter_capitalize(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_CAPITAL, out);
}

qn_status qn_filter_lower(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_LOWER, out);
}

qn_status qn_filter_upper(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_UPPER, out);
}

static bool begins_word(uint32_t code)
{
    return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || qn_code_is_space(code);
}

/* Words are what stands between runs of -({[< and white space; a run counts as a word of its own. */
qn_status qn_filter_title(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    qn_builder b = qn_builder_start(r);
    qn_walk walk = {.string = s};
    size_t at = 0;
    while (b.status == QN_OK && qn_walk_next(&walk)) {
        bool separator = begins_word(walk.code);
        size_t second = walk.offset;
        qn_walk ahead = walk;
        while (qn_walk_next(&ahead) && begins_word(ahead.code) == separator)
            walk = ahead;
        qn_builder_cased(&b, s, at, second, QN_CASE_UPPER);
        qn_builder_cased(&b, s, second, walk.offset, QN_CASE_LOWER);
        at = walk.offset;
    }
    return qn_builder_value(&b, out);
}

qn_status qn_filter_string(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    *out = qn_string(s);
    return QN_OK;
}

qn_status qn_filter_safe(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    QN_TRY(qn_str_mark(r, s, true, &s));
    *out = qn_string(s);
    return QN_OK;
}

qn_status qn_filter_forceescape(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    QN_TRY(qn_value_str(r, self, &s));
    return qn_text_escape(r, s, out);
}

qn_status qn_filter_escape(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = self;
    return qn_is_string(self) && self.string->markup ? QN_OK : qn_filter_forceescape(r, self, given, out);
}

qn_status qn_filter_trim(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s, *characters = NULL;
    QN_TRY(qn_value_str(r, self, &s));
    if (!qn_is_missing(given[0]) && given[0].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_string(r, "trim: chars", given[0], &characters));
    QN_TRY(qn_text_strip(r, s, characters, true, true, &s));
    *out = qn_string(s);
    return QN_OK;
}

qn_status qn_filter_replace(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s, *before, *after;
    int64_t count = -1;
    QN_TRY(qn_value_str(r, self, &s));
    QN_TRY(qn_value_str(r, given[0], &before));
    QN_TRY(qn_value_str(r, given[1], &after));
    if (given[2].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_integer(r, "replace: count", given[2], -1, &count));
    return qn_text_replace(r, s, before, after, count, out);
}

qn_status qn_filter_center(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s;
    qn_value space;
    int64_t width;
    QN_TRY(qn_value_str(r, self, &s));
    QN_TRY(qn_argument_integer(r, "center: width", given[0], 80, &width));
    QN_TRY(qn_str_literal(r, " ", &space));
    return qn_text_center(r, s, width > (int64_t)s->length ? (size_t)width - s->length : 0, space.string, out);
}

qn_status qn_filter_format(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    const qn_str *s;
    qn_value values;
    QN_TRY(qn_value_str(r, self, &s));
    if (arguments->count > 0 && arguments->keyword_count > 0)
        return qn_render_fail(r, "format: can't handle positional and keyword arguments at the same time");
    if (arguments->keyword_count > 0) {
        qn_dict *dict;
        QN_TRY(qn_dict_new(r, arguments->keyword_count, &dict));
        for (size_t i = 0; i < arguments->keyword_count; ++i)
            QN_TRY(qn_dict_set(r, dict, qn_string(arguments->keywords[i].name), arguments->keywords[i].value));
        values = qn_dictionary(dict);
    } else {
        QN_TRY(qn_list_value(r, QN_VALUE_TUPLE, arguments->values, arguments->count, &values));
    }
    return qn_format_percent(r, s, values, out);
}

static qn_status indent_text(qn_render *r, const qn_value *given, const qn_str **out)
{
    int64_t width;
    qn_value space;
    if (qn_is_string(given[0])) {
        *out = given[0].string;
        return QN_OK;
    }
    QN_TRY(qn_argument_integer(r, "indent: width", given[0], 4, &width));
    QN_TRY(qn_str_literal(r, " ", &space));
    qn_builder b = qn_builder_start(r);
    qn_builder_repeat(&b, space.string, width > 0 ? (size_t)width : 0);
    return qn_builder_finish(&b, out);
}

/* A line break is put behind the text before it is taken apart, so that a last empty line counts. */
qn_status qn_filter_indent(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s, *indent, *ended;
    qn_value lines;
    bool first = qn_value_truth(given[1]), blank = qn_value_truth(given[2]);
    QN_TRY(qn_argument_string(r, "indent: the value", self, &s));
    QN_TRY(indent_text(r, given, &indent));
    qn_builder text = qn_builder_start(r), b = qn_builder_start(r);
    qn_builder_str(&text, s);
    qn_builder_literal(&text, "\n");
    QN_TRY(qn_builder_finish(&text, &ended));
    QN_TRY(qn_text_split_lines(r, ended, false, &lines));
    for (size_t i = 0; i < lines.list->count; ++i) {
        const qn_str *line = lines.list->items[i].string;
        if (i > 0)
            qn_builder_literal(&b, "\n");
        if (i == 0 ? first : blank || line->bytes > 0)
            qn_builder_str(&b, indent);
        qn_builder_str(&b, line);
    }
    return qn_builder_value(&b, out);
}

qn_status qn_filter_truncate(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    int64_t length, leeway = 5;
    size_t self_length;
    qn_value dots;
    const qn_str *end;
    QN_TRY(qn_argument_integer(r, "truncate: length", given[0], 255, &length));
    QN_TRY(qn_str_literal(r, "...", &dots));
    QN_TRY(qn_argument_string(r, "truncate: end", qn_is_missing(given[2]) ? dots : given[2], &end));
    if (given[3].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_integer(r, "truncate: leeway", given[3], 5, &leeway));
    if (length < (int64_t)end->length)
        return qn_render_fail(r, "truncate: expected length >= %zu, got %lld", end->length, (long long)length);
    if (leeway < 0)
        return qn_render_fail(r, "truncate: expected leeway >= 0, got %lld", (long long)leeway);
    *out = self;
    if (qn_value_length(self, &self_length) && (leeway > INT64_MAX - length || (int64_t)self_length <= length + leeway))
        return QN_OK;
    const qn_str *s, *kept;
    QN_TRY(qn_argument_string(r, "truncate: the value", self, &s));
    QN_TRY(qn_str_slice(r, s, 0, qn_str_offset(s, (size_t)length - end->length), &kept));
    size_t stop = kept->bytes;
    if (!qn_value_truth(given[1])) {
        const char *space = kept->bytes > 0 ? memrchr(kept->data, ' ', kept->bytes) : NULL;
        stop = space ? (size_t)(space - kept->data) : stop;
    }
    qn_builder b = qn_builder_start(r);
    qn_builder_part(&b, kept, 0, stop);
    qn_builder_str(&b, end);
    return qn_builder_value(&b, out);
}

qn_status qn_filter_wordcount(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    int64_t count = 0;
    bool inside = false;
    QN_TRY(qn_value_str(r, self, &s));
    QN_TRY(qn_render_work(r, s->bytes / 8));
    qn_walk walk = {.string = s};
    while (qn_walk_next(&walk)) {
        bool word = walk.code == '_' || qn_code_is_alnum(walk.code);
        count += word && !inside;
        inside = word;
    }
    *out = qn_int(count);
    return QN_OK;
}

/* Percent-encodes all bytes but letters, digits, _.-~ and, in a path, the slash; in a query a space becomes '+'. */
static void append_quoted(qn_builder *b, const qn_str *s, bool query)
{
    qn_walk walk = {.string = s};
    for (size_t before = 0; b->status == QN_OK && qn_walk_next(&walk); before = walk.offset) {
        bool plain = walk.code < 0x80 && (isalnum((int)walk.code) || strchr("_.-~", (int)walk.code) != NULL);
        if ((plain && walk.code != 0) || (walk.code == '/' && !query)) {
            qn_builder_part(b, s, before, walk.offset);
            continue;
        }
        if (walk.code == ' ' && query) {
            qn_builder_text(b, "+", 1, walk.origin);
            continue;
        }
        for (size_t i = before; i < walk.offset; ++i) {
            char coded[4];
            snprintf(coded, sizeof coded, "%%%02X", (unsigned)(unsigned char)s->data[i]);
            qn_builder_text(b, coded, 3, walk.origin);
        }
    }
}

static qn_status append_pair(qn_builder *b, qn_value pair)
{
    const qn_list *parts;
    const qn_str *key, *value;
    QN_TRY(qn_collect(b->render, pair, &parts));
    if (parts->count != 2)
        return qn_render_fail(b->render, "urlencode: expected pairs, got %zu values", parts->count);
    QN_TRY(qn_value_str(b->render, parts->items[0], &key));
    QN_TRY(qn_value_str(b->render, parts->items[1], &value));
    append_quoted(b, key, true);
    qn_builder_literal(b, "=");
    append_quoted(b, value, true);
    return b->status;
}

qn_status qn_filter_urlencode(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_str *s;
    qn_builder b = qn_builder_start(r);
    if (qn_is_string(self) || !qn_is_iterable(self)) {
        QN_TRY(qn_value_str(r, self, &s));
        append_quoted(&b, s, false);
        return qn_builder_value(&b, out);
    }
    qn_cursor cursor;
    const qn_view items = {QN_VIEW_ITEMS, self.kind == QN_VALUE_DICT ? self.dict : NULL};
    if (self.kind == QN_VALUE_DICT)
        self = (qn_value){.kind = QN_VALUE_VIEW, .view = &items};
    QN_TRY(qn_cursor_start(r, self, &cursor));
    for (bool first = true;; first = false) {
        qn_value pair;
        QN_TRY(qn_cursor_next(r, &cursor, &pair));
        if (qn_is_missing(pair))
            break;
        if (!first)
            qn_builder_literal(&b, "&");
        QN_TRY(append_pair(&b, pair));
    }
    return qn_builder_value(&b, out);
}

static qn_status append_attribute(qn_builder *b, qn_value key, qn_value value)
{
    qn_render *r = b->render;
    const qn_str *name, *text;
    qn_value escaped;
    QN_TRY(qn_argument_string(r, "xmlattr: a key", key, &name));
    for (size_t i = 0; i < name->bytes; ++i) {
        if (strchr(" \t\n\r\f\v/>=", name->data[i]) && name->data[i])
            return qn_render_fail(r, "invalid character in attribute name");
    }
    QN_TRY(qn_filter_escape(r, key, NULL, &escaped));
    qn_builder_str(b, escaped.string);
    qn_builder_literal(b, "=\"");
    QN_TRY(qn_filter_escape(r, value, NULL, &escaped));
    text = escaped.string;
    qn_builder_str(b, text);
    qn_builder_literal(b, "\"");
    return b->status;
}

qn_status qn_filter_xmlattr(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    bool any = false, autospace = qn_is_missing(given[0]) || qn_value_truth(given[0]);
    qn_builder b = qn_builder_start(r);
    if (self.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, self.undefined);
    if (self.kind != QN_VALUE_DICT)
        return qn_render_fail(r, "xmlattr: '%s' object has no attribute 'items'", qn_type_name(self));
    for (size_t i = 0; i < self.dict->count; ++i) {
        const qn_dict_entry *entry = &self.dict->entries[i];
        if (entry->value.kind == QN_VALUE_NONE || entry->value.kind == QN_VALUE_UNDEFINED)
            continue;
        if (any || autospace)
            qn_builder_literal(&b, " ");
        QN_TRY(append_attribute(&b, entry->key, entry->value));
        any = true;
    }
    return qn_builder_value(&b, out);
}

qn_status qn_filter_filesizeformat(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    static const char *const units[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
                                            {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    bool binary = qn_value_truth(given[0]), valid = true;
    double bytes, base = binary ? 1024 : 1000;
    char text[400];
    const qn_str *made;
    if (self.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, self.undefined);
    if (qn_is_string(self))
        QN_TRY(qn_number_parse_real(r, self.string, &bytes, &valid));
    else if (qn_is_number(self))
        QN_TRY(qn_number_real(r, self, &bytes));
    else
        valid = false;
    if (!valid || isnan(bytes))
        return qn_render_fail(r, "filesizeformat: the value is not a number");
    if (bytes == 1) {
        strcpy(text, "1 Byte");
    } else if (bytes < base) {
        if (isinf(bytes))
            return qn_render_fail(r, "cannot convert float infinity to integer");
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes) + 0.0);
    } else {
        size_t i = 0;
        double unit = base * base;
        for (; i < 7 && !(bytes < unit); ++i)
            unit *= base;
        snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, units[binary][i]);
    }
    QN_TRY(qn_str_copy(r, text, strlen(text), QN_ORIGIN_TEMPLATE, &made));
    *out = qn_string(made);
    return QN_OK;
}
