/* Found places are byte offsets: a match of whole characters is one of bytes, since UTF-8 synchronises itself. */
#include "text/jinja/text_ops.h"

#include <string.h>

#include "base/utf8.h"
#include "text/jinja/iterate.h"
#include "text/jinja/character.h"

qn_status qn_text_search_work(qn_render *r, const qn_str *s, const qn_str *needle)
{
    return qn_render_work(r, (s->bytes / 32 + 1) * (needle->bytes / 64 + 1));
}

static bool has_character(const qn_str *characters, const char *at, size_t bytes)
{
    const qn_str needle = {.data = at, .bytes = bytes};
    return qn_str_find(characters, &needle, 0, characters->bytes) != QN_NOT_FOUND;
}

/* End of the character that starts at `at`; start of the one that ends there. */
static size_t character_end(const qn_str *s, size_t at)
{
    do
        ++at;
    while (at < s->bytes && ((unsigned char)s->data[at] & 0xC0) == 0x80);
    return at;
}

static size_t character_start(const qn_str *s, size_t at)
{
    do
        --at;
    while (at > 0 && ((unsigned char)s->data[at] & 0xC0) == 0x80);
    return at;
}

qn_status qn_text_strip(qn_render *r, const qn_str *s, const qn_str *characters, bool left, bool right,
                        const qn_str **out)
{
    size_t from = 0, to = s->bytes;
    QN_TRY(qn_render_work(r, (s->bytes / 32 + 1) * ((characters ? characters->bytes : 0) / 16 + 1)));
    if (!characters) {
        if (left)
            from = qn_space_prefix(s->data, s->bytes);
        if (right)
            to = from + qn_space_trimmed(s->data + from, s->bytes - from);
        return qn_str_slice(r, s, from, to, out);
    }
    while (left && from < to && has_character(characters, s->data + from, character_end(s, from) - from))
        from = character_end(s, from);
    while (right && to > from) {
        size_t start = character_start(s, to);
        if (!has_character(characters, s->data + start, to - start))
            break;
        to = start;
    }
    return qn_str_slice(r, s, from, to, out);
}

/* An empty string is found before every character and at the end. */
static qn_status replace_empty(qn_render *r, const qn_str *s, const qn_str *after, int64_t count, qn_value *out)
{
    qn_builder b = qn_builder_start(r);
    size_t at = 0;
    for (; count != 0 && at < s->bytes && b.status == QN_OK; --count) {
        size_t end = character_end(s, at);
        qn_builder_str(&b, after);
        qn_builder_part(&b, s, at, end);
        at = end;
    }
    if (count != 0)
        qn_builder_str(&b, after);
    qn_builder_part(&b, s, at, s->bytes);
    return qn_builder_value(&b, out);
}

qn_status qn_text_replace(qn_render *r, const qn_str *s, const qn_str *before, const qn_str *after, int64_t count,
                          qn_value *out)
{
    if (before->bytes == 0)
        return replace_empty(r, s, after, count, out);
    QN_TRY(qn_text_search_work(r, s, before));
    qn_builder b = qn_builder_start(r);
    size_t at = 0;
    for (; count != 0 && b.status == QN_OK; --count) {
        ptrdiff_t found = qn_str_find(s, before, at, s->bytes);
        if (found == QN_NOT_FOUND)
            break;
        qn_builder_part(&b, s, at, (size_t)found);
        qn_builder_str(&b, after);
        at = (size_t)found + before->bytes;
    }
    qn_builder_part(&b, s, at, s->bytes);
    return qn_builder_value(&b, out);
}

static qn_status add_part(qn_render *r, qn_list_builder *list, const qn_str *s, size_t from, size_t to)
{
    const qn_str *part;
    QN_TRY(qn_str_slice(r, s, from, to, &part));
    return qn_list_add(r, list, qn_string(part));
}

/* Bytes from `at` to the next white space (or, with `space`, to what is none). */
static size_t run_end(const qn_str *s, size_t at, bool space)
{
    while (at < s->bytes) {
        uint32_t code;
        size_t step = qn_utf8_decode(s->data + at, s->bytes - at, &code);
        if (qn_code_is_space(code) != space)
            break;
        at += step;
    }
    return at;
}

static qn_status split_spaces(qn_render *r, const qn_str *s, int64_t limit, qn_list_builder *list)
{
    size_t at = run_end(s, 0, true);
    for (; at < s->bytes && limit != 0; --limit) {
        size_t end = run_end(s, at, false);
        QN_TRY(add_part(r, list, s, at, end));
        at = run_end(s, end, true);
    }
    if (at < s->bytes)
        QN_TRY(add_part(r, list, s, at, s->bytes));
    return QN_OK;
}

qn_status qn_text_split(qn_render *r, const qn_str *s, const qn_str *separator, int64_t limit, qn_value *out)
{
    qn_list_builder list = {0};
    QN_TRY(qn_text_work(r, s->bytes));
    if (!separator) {
        QN_TRY(split_spaces(r, s, limit, &list));
    } else {
        size_t at = 0;
        for (; limit != 0; --limit) {
            ptrdiff_t found = qn_str_find(s, separator, at, s->bytes);
            if (found == QN_NOT_FOUND)
                break;
            QN_TRY(add_part(r, &list, s, at, (size_t)found));
            at = (size_t)found + separator->bytes;
        }
        QN_TRY(add_part(r, &list, s, at, s->bytes));
    }
    return qn_list_value(r, QN_VALUE_LIST, list.items, list.count, out);
}

/* Start of the run that ends at `at`. */
static size_t run_start(const qn_str *s, size_t at, bool space)
{
    while (at > 0) {
        uint32_t code;
        size_t start = character_start(s, at);
        qn_utf8_decode(s->data + start, at - start, &code);
        if (qn_code_is_space(code) != space)
            break;
        at = start;
    }
    return at;
}

static qn_status split_spaces_right(qn_render *r, const qn_str *s, int64_t limit, qn_list_builder *list)
{
    size_t end = run_start(s, s->bytes, true);
    for (; end > 0 && limit != 0; --limit) {
        size_t start = run_start(s, end, false);
        QN_TRY(add_part(r, list, s, start, end));
        end = run_start(s, start, true);
    }
    if (end > 0)
        QN_TRY(add_part(r, list, s, 0, end));
    return QN_OK;
}

qn_status qn_text_split_right(qn_render *r, const qn_str *s, const qn_str *separator, int64_t limit, qn_value *out)
{
    qn_list_builder list = {0};
    QN_TRY(qn_text_work(r, s->bytes));
    if (!separator) {
        QN_TRY(split_spaces_right(r, s, limit, &list));
    } else {
        size_t end = s->bytes;
        QN_TRY(qn_text_search_work(r, s, separator));
        for (; limit != 0; --limit) {
            ptrdiff_t found = qn_str_find_last(s, separator, 0, end);
            if (found == QN_NOT_FOUND)
                break;
            QN_TRY(add_part(r, &list, s, (size_t)found + separator->bytes, end));
            end = (size_t)found;
        }
        QN_TRY(add_part(r, &list, s, 0, end));
    }
    for (size_t i = 0; i < list.count / 2; ++i) {
        qn_value held = list.items[i];
        list.items[i] = list.items[list.count - 1 - i];
        list.items[list.count - 1 - i] = held;
    }
    return qn_list_value(r, QN_VALUE_LIST, list.items, list.count, out);
}

static bool ends_line(uint32_t code)
{
    return (code >= '\n' && code <= '\r') || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
           code == 0x2029;
}

qn_status qn_text_split_lines(qn_render *r, const qn_str *s, bool keep_ends, qn_value *out)
{
    qn_list_builder list = {0};
    qn_walk walk = {.string = s};
    size_t start = 0;
    QN_TRY(qn_render_work(r, s->bytes / 8));
    for (size_t before = 0; qn_walk_next(&walk); before = walk.offset) {
        if (!ends_line(walk.code))
            continue;
        if (walk.code == '\r' && walk.offset < s->bytes && s->data[walk.offset] == '\n')
            ++walk.offset;
        QN_TRY(add_part(r, &list, s, start, keep_ends ? walk.offset : before));
        start = walk.offset;
    }
    if (start < s->bytes)
        QN_TRY(add_part(r, &list, s, start, s->bytes));
    return qn_list_value(r, QN_VALUE_LIST, list.items, list.count, out);
}

qn_status qn_text_center(qn_render *r, const qn_str *s, size_t missing, const qn_str *fill, qn_value *out)
{
    /* CPython gives the odd one to the left when the width is odd too. */
    size_t left = missing / 2 + (missing & (missing + s->length) & 1);
    qn_builder b = qn_builder_start(r);
    qn_builder_repeat(&b, fill, left);
    qn_builder_str(&b, s);
    qn_builder_repeat(&b, fill, missing - left);
    return qn_builder_value(&b, out);
}

/* Some character passes `wanted`, and none is of the other case or title case. */
static qn_status has_case(qn_render *r, const qn_str *s, bool (*wanted)(uint32_t), bool (*other)(uint32_t),
                          qn_value *out)
{
    qn_walk walk = {.string = s};
    bool any = false;
    QN_TRY(qn_render_work(r, s->bytes / 8));
    *out = qn_bool(false);
    while (qn_walk_next(&walk)) {
        if (other(walk.code) || qn_code_is_title(walk.code))
            return QN_OK;
        any = any || wanted(walk.code);
    }
    *out = qn_bool(any);
    return QN_OK;
}

qn_status qn_text_is_lower(qn_render *r, const qn_str *s, qn_value *out)
{
    return has_case(r, s, qn_code_is_lower, qn_code_is_upper, out);
}

qn_status qn_text_is_upper(qn_render *r, const qn_str *s, qn_value *out)
{
    return has_case(r, s, qn_code_is_upper, qn_code_is_lower, out);
}

qn_status qn_text_escape(qn_render *r, const qn_str *s, qn_value *out)
{
    qn_builder b = qn_builder_start(r);
    qn_walk walk = {.string = s};
    size_t plain = 0;
    for (size_t before = 0; b.status == QN_OK && qn_walk_next(&walk); before = walk.offset) {
        const char *entity = walk.code == '&'    ? "&amp;"
                             : walk.code == '<'  ? "&lt;"
                             : walk.code == '>'  ? "&gt;"
                             : walk.code == '\'' ? "&#39;"
                             : walk.code == '"'  ? "&#34;"
                                                 : NULL;
        if (!entity)
            continue;
        qn_builder_part(&b, s, plain, before);
        qn_builder_text(&b, entity, strlen(entity), walk.origin);
        plain = walk.offset;
    }
    qn_builder_part(&b, s, plain, s->bytes);
    const qn_str *escaped;
    QN_TRY(qn_builder_finish(&b, &escaped));
    QN_TRY(qn_str_mark(r, escaped, true, &escaped));
    *out = qn_string(escaped);
    return QN_OK;
}
