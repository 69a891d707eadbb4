/* The methods of str. Positions and widths count characters; searches work on bytes, which UTF-8 allows. */
#include "text/jinja/methods.h"

#include <string.h>

#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/str.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/character.h"

static qn_status cased(qn_render *r, qn_value self, qn_case wanted, qn_value *out)
{
    qn_builder b = qn_builder_start(r);
    qn_builder_cased(&b, self.string, 0, self.string->bytes, wanted);
    return qn_builder_value(&b, out);
}

static qn_status method_upper(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_UPPER, out);
}

static qn_status method_lower(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_LOWER, out);
}

static qn_status method_title(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_TITLE, out);
}

static qn_status method_capitalize(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_CAPITAL, out);
}

static qn_status method_swapcase(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_SWAP, out);
}

static qn_status method_casefold(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return cased(r, self, QN_CASE_FOLD, out);
}

/* Whether every character passes; false for the empty string. */
static qn_status all_pass(qn_render *r, qn_value self, bool (*test)(uint32_t), qn_value *out)
{
    qn_walk walk = {.string = self.string};
    bool passed = self.string->bytes > 0;
    QN_TRY(qn_render_work(r, self.string->bytes / 8));
    while (passed && qn_walk_next(&walk))
        passed = test(walk.code);
    *out = qn_bool(passed);
    return QN_OK;
}

static qn_status method_isalpha(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_alpha, out);
}

static qn_status method_isalnum(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_alnum, out);
}

static qn_status method_isdecimal(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_decimal, out);
}

static qn_status method_isdigit(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_digit, out);
}

static qn_status method_isnumeric(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_numeric, out);
}

static qn_status method_isspace(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return all_pass(r, self, qn_code_is_space, out);
}

static qn_status method_isprintable(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    QN_TRY(all_pass(r, self, qn_code_is_printable, out));
    out->boolean = out->boolean || self.string->bytes == 0;
    return QN_OK;
}

static qn_status method_isascii(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)r, (void)given;
    *out = qn_bool(self.string->bytes == self.string->length);
    return QN_OK;
}

static qn_status method_isidentifier(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    qn_walk walk = {.string = self.string};
    bool start = qn_walk_next(&walk) && qn_code_is_name_start(walk.code);
    QN_TRY(all_pass(r, self, qn_code_is_name_part, out));
    out->boolean = out->boolean && start;
    return QN_OK;
}

static qn_status method_islower(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return qn_text_is_lower(r, self.string, out);
}

static qn_status method_isupper(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return qn_text_is_upper(r, self.string, out);
}

static qn_status method_istitle(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    qn_walk walk = {.string = self.string};
    bool title = true, any = false, after_cased = false;
    QN_TRY(qn_render_work(r, self.string->bytes / 8));
    while (title && qn_walk_next(&walk)) {
        bool capital = qn_code_is_upper(walk.code) || qn_code_is_title(walk.code);
        bool small = qn_code_is_lower(walk.code);
        if ((capital && after_cased) || (small && !after_cased))
            title = false;
        after_cased = capital || small;
        any = any || after_cased;
    }
    *out = qn_bool(title && any);
    return QN_OK;
}

static qn_status strip(qn_render *r, qn_value self, const qn_value *given, bool left, bool right, qn_value *out)
{
    const qn_str *characters = NULL, *stripped;
    if (!qn_is_missing(given[0]) && given[0].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_string(r, "strip: the argument", given[0], &characters));
    QN_TRY(qn_text_strip(r, self.string, characters, left, right, &stripped));
    *out = qn_string(stripped);
    return QN_OK;
}

static qn_status method_strip(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return strip(r, self, given, true, true, out);
}

static qn_status method_lstrip(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return strip(r, self, given, true, false, out);
}

static qn_status method_rstrip(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return strip(r, self, given, false, true, out);
}

static qn_status method_replace(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *before, *after;
    int64_t count;
    QN_TRY(qn_argument_string(r, "replace: argument 1", given[0], &before));
    QN_TRY(qn_argument_string(r, "replace: argument 2", given[1], &after));
    QN_TRY(qn_argument_integer(r, "replace: count", given[2], -1, &count));
    return qn_text_replace(r, self.string, before, after, count, out);
}

static qn_status separator_and_limit(qn_render *r, const qn_value *given, const qn_str **separator, int64_t *limit)
{
    *separator = NULL;
    if (!qn_is_missing(given[0]) && given[0].kind != QN_VALUE_NONE) {
        QN_TRY(qn_argument_string(r, "split: the separator", given[0], separator));
        if ((*separator)->bytes == 0)
            return qn_render_fail(r, "empty separator");
    }
    return qn_argument_integer(r, "split: maxsplit", given[1], -1, limit);
}

static qn_status method_split(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *separator;
    int64_t limit;
    QN_TRY(separator_and_limit(r, given, &separator, &limit));
    return qn_text_split(r, self.string, separator, limit, out);
}

static qn_status method_rsplit(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *separator;
    int64_t limit;
    QN_TRY(separator_and_limit(r, given, &separator, &limit));
    return qn_text_split_right(r, self.string, separator, limit, out);
}

static qn_status method_splitlines(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return qn_text_split_lines(r, self.string, qn_value_truth(given[0]), out);
}

static qn_status partition(qn_render *r, qn_value self, qn_value given, bool last, qn_value *out)
{
    const qn_str *s = self.string, *separator, *parts[3];
    QN_TRY(qn_argument_string(r, "partition: the separator", given, &separator));
    if (separator->bytes == 0)
        return qn_render_fail(r, "empty separator");
    QN_TRY(qn_text_search_work(r, s, separator));
    ptrdiff_t found = last ? qn_str_find_last(s, separator, 0, s->bytes) : qn_str_find(s, separator, 0, s->bytes);
    size_t start = found != QN_NOT_FOUND ? (size_t)found : last ? 0 : s->bytes;
    size_t end = found != QN_NOT_FOUND ? start + separator->bytes : start;
    QN_TRY(qn_str_slice(r, s, 0, start, &parts[0]));
    QN_TRY(qn_str_slice(r, s, start, end, &parts[1]));
    QN_TRY(qn_str_slice(r, s, end, s->bytes, &parts[2]));
    qn_list_builder list = {0};
    for (size_t i = 0; i < 3; ++i)
        QN_TRY(qn_list_add(r, &list, qn_string(i == 1 && found != QN_NOT_FOUND ? separator : parts[i])));
    return qn_list_value(r, QN_VALUE_TUPLE, list.items, 3, out);
}

static qn_status method_partition(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return partition(r, self, given[0], false, out);
}

static qn_status method_rpartition(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return partition(r, self, given[0], true, out);
}

static qn_status method_join(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    qn_cursor cursor;
    qn_builder b = qn_builder_start(r);
    QN_TRY(qn_cursor_start(r, given[0], &cursor));
    for (size_t i = 0;; ++i) {
        qn_value item;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            break;
        if (!qn_is_string(item))
            return qn_render_fail(r, "sequence item %zu: expected str instance, %s found", i, qn_type_name(item));
        if (i > 0)
            qn_builder_str(&b, self.string);
        qn_builder_str(&b, item.string);
    }
    return qn_builder_value(&b, out);
}

/* The bytes that the optional character positions given[0] and given[1] delimit, as str.find takes them. *from beyond
 * *to: nothing can be found. */
static qn_status search_window(qn_render *r, const qn_str *s, const qn_value *given, size_t *from, size_t *to)
{
    int64_t length = (int64_t)s->length, start = 0, end = INT64_MAX;
    if (given[0].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_integer(r, "start", given[0], 0, &start));
    if (given[1].kind != QN_VALUE_NONE)
        QN_TRY(qn_argument_integer(r, "end", given[1], INT64_MAX, &end));
    if (end > length)
        end = length;
    if (end < 0)
        end = end < -length ? 0 : end + length;
    if (start < 0)
        start = start < -length ? 0 : start + length;
    if (start > end) {
        *from = 1;
        *to = 0;
        return QN_OK;
    }
    QN_TRY(qn_text_work(r, s->bytes));
    *from = qn_str_offset(s, (size_t)start);
    *to = qn_str_offset(s, (size_t)end);
    return QN_OK;
}

static qn_status find(qn_render *r, qn_value self, const qn_value *given, bool last, int64_t *out)
{
    const qn_str *s = self.string, *needle;
    size_t from, to;
    QN_TRY(qn_argument_string(r, "find: the argument", given[0], &needle));
    QN_TRY(search_window(r, s, given + 1, &from, &to));
    QN_TRY(qn_text_search_work(r, s, needle));
    ptrdiff_t found = last ? qn_str_find_last(s, needle, from, to) : qn_str_find(s, needle, from, to);
    *out = found == QN_NOT_FOUND ? -1 : (int64_t)qn_str_index(s, (size_t)found);
    return QN_OK;
}

static qn_status method_find(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = qn_int(0);
    return find(r, self, given, false, &out->integer);
}

static qn_status method_rfind(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    *out = qn_int(0);
    return find(r, self, given, true, &out->integer);
}

static qn_status method_index(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    QN_TRY(method_find(r, self, given, out));
    return out->integer < 0 ? qn_render_fail(r, "substring not found") : QN_OK;
}

static qn_status method_rindex(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    QN_TRY(method_rfind(r, self, given, out));
    return out->integer < 0 ? qn_render_fail(r, "substring not found") : QN_OK;
}

static qn_status method_count(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s = self.string, *needle;
    size_t from, to;
    int64_t count = 0;
    QN_TRY(qn_argument_string(r, "count: the argument", given[0], &needle));
    QN_TRY(search_window(r, s, given + 1, &from, &to));
    QN_TRY(qn_text_work(r, s->bytes));
    if (needle->bytes == 0 && from <= to)
        count = (int64_t)qn_utf8_length(s->data + from, to - from) + 1;
    while (needle->bytes > 0) {
        ptrdiff_t found = qn_str_find(s, needle, from, to);
        if (found == QN_NOT_FOUND)
            break;
        ++count;
        from = (size_t)found + needle->bytes;
    }
    *out = qn_int(count);
    return QN_OK;
}

static qn_status matches_end(qn_render *r, const qn_str *s, qn_value given, size_t from, size_t to, bool at_start,
                             bool *out)
{
    const qn_str *part;
    QN_TRY(qn_argument_string(r, at_start ? "startswith" : "endswith", given, &part));
    QN_TRY(qn_text_work(r, part->bytes));
    *out = from <= to && part->bytes <= to - from &&
           (part->bytes == 0 || memcmp(s->data + (at_start ? from : to - part->bytes), part->data, part->bytes) == 0);
    return QN_OK;
}

static qn_status match_end(qn_render *r, qn_value self, const qn_value *given, bool at_start, qn_value *out)
{
    size_t from, to;
    *out = qn_bool(false);
    QN_TRY(search_window(r, self.string, given + 1, &from, &to));
    if (given[0].kind != QN_VALUE_TUPLE)
        return matches_end(r, self.string, given[0], from, to, at_start, &out->boolean);
    for (size_t i = 0; i < given[0].list->count && !out->boolean; ++i)
        QN_TRY(matches_end(r, self.string, given[0].list->items[i], from, to, at_start, &out->boolean));
    return QN_OK;
}

static qn_status method_startswith(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return match_end(r, self, given, true, out);
}

static qn_status method_endswith(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return match_end(r, self, given, false, out);
}

static qn_status method_removeprefix(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s = self.string, *prefix;
    QN_TRY(qn_argument_string(r, "removeprefix", given[0], &prefix));
    QN_TRY(qn_str_slice(r, s, qn_str_starts(s, prefix) ? prefix->bytes : 0, s->bytes, &s));
    *out = qn_string(s);
    return QN_OK;
}

static qn_status method_removesuffix(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s = self.string, *suffix;
    QN_TRY(qn_argument_string(r, "removesuffix", given[0], &suffix));
    QN_TRY(qn_str_slice(r, s, 0, s->bytes - (qn_str_ends(s, suffix) ? suffix->bytes : 0), &s));
    *out = qn_string(s);
    return QN_OK;
}

/* How many fill characters make s `width` wide, and the one to fill with. */
static qn_status fill_of(qn_render *r, const qn_str *s, const qn_value *given, size_t *missing, const qn_str **fill)
{
    int64_t width;
    qn_value space;
    *missing = 0;
    QN_TRY(qn_argument_integer(r, "the width", given[0], 0, &width));
    QN_TRY(qn_str_literal(r, " ", &space));
    QN_TRY(qn_argument_string(r, "the fill character", qn_is_missing(given[1]) ? space : given[1], fill));
    if ((*fill)->length != 1)
        return qn_render_fail(r, "the fill character must be exactly one character long");
    *missing = width > (int64_t)s->length ? (size_t)width - s->length : 0;
    return QN_OK;
}

static qn_status pad(qn_render *r, const qn_str *s, const qn_str *fill, size_t left, size_t right, qn_value *out)
{
    qn_builder b = qn_builder_start(r);
    qn_builder_repeat(&b, fill, left);
    qn_builder_str(&b, s);
    qn_builder_repeat(&b, fill, right);
    return qn_builder_value(&b, out);
}

static qn_status method_center(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *fill;
    size_t missing;
    QN_TRY(fill_of(r, self.string, given, &missing, &fill));
    return qn_text_center(r, self.string, missing, fill, out);
}

static qn_status method_ljust(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *fill;
    size_t missing;
    QN_TRY(fill_of(r, self.string, given, &missing, &fill));
    return pad(r, self.string, fill, 0, missing, out);
}

static qn_status method_rjust(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *fill;
    size_t missing;
    QN_TRY(fill_of(r, self.string, given, &missing, &fill));
    return pad(r, self.string, fill, missing, 0, out);
}

static qn_status method_zfill(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    const qn_str *s = self.string;
    int64_t width;
    qn_value zero;
    QN_TRY(qn_argument_integer(r, "zfill: the width", given[0], 0, &width));
    QN_TRY(qn_str_literal(r, "0", &zero));
    size_t sign = s->bytes > 0 && (s->data[0] == '-' || s->data[0] == '+');
    qn_builder b = qn_builder_start(r);
    qn_builder_part(&b, s, 0, sign);
    qn_builder_repeat(&b, zero.string, width > (int64_t)s->length ? (size_t)width - s->length : 0);
    qn_builder_part(&b, s, sign, s->bytes);
    return qn_builder_value(&b, out);
}

static qn_status method_expandtabs(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    int64_t size, column = 0;
    qn_value space;
    QN_TRY(qn_argument_integer(r, "expandtabs: the size", given[0], 8, &size));
    QN_TRY(qn_str_literal(r, " ", &space));
    qn_builder b = qn_builder_start(r);
    qn_walk walk = {.string = self.string};
    for (size_t before = 0; b.status == QN_OK && qn_walk_next(&walk); before = walk.offset) {
        if (walk.code == '\t') {
            int64_t width = size > 0 ? size - column % size : 0;
            qn_builder_repeat(&b, space.string, (size_t)width);
            column += width;
        } else {
            qn_builder_part(&b, self.string, before, walk.offset);
            column = walk.code == '\n' || walk.code == '\r' ? 0 : column + 1;
        }
    }
    return qn_builder_value(&b, out);
}

static const qn_function string_methods[] = {
    {.name = "capitalize", .native = method_capitalize},
    {.name = "casefold", .native = method_casefold},
    {.name = "center", .native = method_center, .parameters = {"width", "fillchar"}, .required = 1, .positional = true},
    {.name = "count", .native = method_count, .parameters = {"sub", "start", "end"}, .required = 1, .positional = true},
    {.name = "endswith",
     .native = method_endswith,
     .parameters = {"suffix", "start", "end"},
     .required = 1,
     .positional = true},
    {.name = "expandtabs", .native = method_expandtabs, .parameters = {"tabsize"}},
    {.name = "find", .native = method_find, .parameters = {"sub", "start", "end"}, .required = 1, .positional = true},
    {.name = "format", .raw = qn_method_format},
    {.name = "format_map", .raw = qn_method_format_map},
    {.name = "index", .native = method_index, .parameters = {"sub", "start", "end"}, .required = 1, .positional = true},
    {.name = "isalnum", .native = method_isalnum},
    {.name = "isalpha", .native = method_isalpha},
    {.name = "isascii", .native = method_isascii},
    {.name = "isdecimal", .native = method_isdecimal},
    {.name = "isdigit", .native = method_isdigit},
    {.name = "isidentifier", .native = method_isidentifier},
    {.name = "islower", .native = method_islower},
    {.name = "isnumeric", .native = method_isnumeric},
    {.name = "isprintable", .native = method_isprintable},
    {.name = "isspace", .native = method_isspace},
    {.name = "istitle", .native = method_istitle},
    {.name = "isupper", .native = method_isupper},
    {.name = "join", .native = method_join, .parameters = {"iterable"}, .required = 1, .positional = true},
    {.name = "ljust", .native = method_ljust, .parameters = {"width", "fillchar"}, .required = 1, .positional = true},
    {.name = "lower", .native = method_lower},
    {.name = "lstrip", .native = method_lstrip, .parameters = {"chars"}, .positional = true},
    {.name = "partition", .native = method_partition, .parameters = {"sep"}, .required = 1, .positional = true},
    {.name = "removeprefix",
     .native = method_removeprefix,
     .parameters = {"prefix"},
     .required = 1,
     .positional = true},
    {.name = "removesuffix",
     .native = method_removesuffix,
     .parameters = {"suffix"},
     .required = 1,
     .positional = true},
    {.name = "replace",
     .native = method_replace,
     .parameters = {"old", "new", "count"},
     .required = 2,
     .positional = true},
    {.name = "rfind", .native = method_rfind, .parameters = {"sub", "start", "end"}, .required = 1, .positional = true},
    {.name = "rindex",
     .native = method_rindex,
     .parameters = {"sub", "start", "end"},
     .required = 1,
     .positional = true},
    {.name = "rjust", .native = method_rjust, .parameters = {"width", "fillchar"}, .required = 1, .positional = true},
    {.name = "rpartition", .native = method_rpartition, .parameters = {"sep"}, .required = 1, .positional = true},
    {.name = "rsplit", .native = method_rsplit, .parameters = {"sep", "maxsplit"}},
    {.name = "rstrip", .native = method_rstrip, .parameters = {"chars"}, .positional = true},
    {.name = "split", .native = method_split, .parameters = {"sep", "maxsplit"}},
    {.name = "splitlines", .native = method_splitlines, .parameters = {"keepends"}},
    {.name = "startswith",
     .native = method_startswith,
     .parameters = {"prefix", "start", "end"},
     .required = 1,
     .positional = true},
    {.name = "strip", .native = method_strip, .parameters = {"chars"}, .positional = true},
    {.name = "swapcase", .native = method_swapcase},
    {.name = "title", .native = method_title},
    {.name = "upper", .native = method_upper},
    {.name = "zfill", .native = method_zfill, .parameters = {"width"}, .required = 1, .positional = true},
};

const qn_function *qn_string_method(const qn_str *name)
{
    for (size_t i = 0; i < sizeof string_methods / sizeof string_methods[0]; ++i) {
        if (qn_str_is(name, string_methods[i].name))
            return &string_methods[i];
    }
    return NULL;
}
