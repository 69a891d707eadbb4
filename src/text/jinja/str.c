/* Strings over shared bytes, and the builder that makes new ones.
 *
 * Most strings come whole from one place, so origin is one word and spans are kept only for the mixed ones. */
#include "text/jinja/str.h"

#include <string.h>

#include "base/utf8.h"

/* Going through this many bytes costs one step. */
enum { BYTES_PER_STEP = 32 };

/* Shorter strings are copied rather than grown in place. */
enum { LEAST_BYTES_WITH_ROOM = 512 };

size_t qn_utf8_length(const char *data, size_t bytes)
{
    size_t length = 0;
    for (size_t i = 0; i < bytes; ++i)
        length += ((unsigned char)data[i] & 0xC0) != 0x80;
    return length;
}

qn_status qn_text_work(qn_render *r, size_t bytes)
{
    return qn_render_work(r, bytes / BYTES_PER_STEP + 1);
}

static qn_str *new_str(qn_render *r, const char *data, size_t bytes, size_t length, qn_origin origin)
{
    qn_str *s = qn_render_alloc(r, 1, sizeof *s);
    if (s) {
        s->data = data;
        s->bytes = bytes;
        s->length = length;
        s->origin = origin;
    }
    return s;
}

qn_status qn_str_wrap(qn_render *r, const char *data, size_t bytes, qn_origin origin, const qn_str **out)
{
    QN_TRY(qn_text_work(r, bytes));
    *out = new_str(r, data, bytes, qn_utf8_length(data, bytes), origin);
    return *out ? QN_OK : qn_render_status(r);
}

qn_status qn_str_copy(qn_render *r, const char *data, size_t bytes, qn_origin origin, const qn_str **out)
{
    char *copy = qn_render_alloc(r, bytes, 1);
    if (!copy)
        return qn_render_status(r);
    if (bytes > 0)
        memcpy(copy, data, bytes);
    return qn_str_wrap(r, copy, bytes, origin, out);
}

qn_status qn_str_literal(qn_render *r, const char *text, qn_value *out)
{
    const qn_str *s;
    QN_TRY(qn_str_wrap(r, text, strlen(text), QN_ORIGIN_TEMPLATE, &s));
    *out = qn_string(s);
    return QN_OK;
}

/* The spans of s that meet from..to-1, cut to it and counted from `from`. */
static qn_status clip_spans(qn_render *r, const qn_str *s, size_t from, size_t to, qn_str *out)
{
    size_t first = 0;
    while (first < s->span_count && s->spans[first].end <= from)
        ++first;
    size_t end = first;
    while (end < s->span_count && s->spans[end].start < to)
        ++end;
    QN_TRY(qn_render_work(r, end / 4));
    if (end == first) {
        out->origin = QN_ORIGIN_TEMPLATE;
        return QN_OK;
    }
    if (s->spans[first].start <= from && s->spans[first].end >= to) {
        out->origin = QN_ORIGIN_REQUEST;
        return QN_OK;
    }
    qn_span *spans = qn_render_alloc(r, end - first, sizeof *spans);
    if (!spans)
        return qn_render_status(r);
    for (size_t i = first; i < end; ++i) {
        qn_span span = s->spans[i];
        spans[i - first].start = span.start > from ? span.start - from : 0;
        spans[i - first].end = (span.end < to ? span.end : to) - from;
    }
    out->spans = spans;
    out->span_count = end - first;
    return QN_OK;
}

qn_status qn_str_slice(qn_render *r, const qn_str *s, size_t from, size_t to, const qn_str **out)
{
    if (from == 0 && to == s->bytes && !s->markup) {
        *out = s;
        return QN_OK;
    }
    QN_TRY(qn_text_work(r, to - from));
    size_t length = s->bytes == s->length ? to - from : qn_utf8_length(s->data + from, to - from);
    qn_str *slice = new_str(r, s->data + from, to - from, length, s->origin);
    if (!slice)
        return qn_render_status(r);
    if (s->origin == QN_ORIGIN_MIXED)
        QN_TRY(clip_spans(r, s, from, to, slice));
    *out = slice;
    return QN_OK;
}

qn_status qn_str_mark(qn_render *r, const qn_str *s, bool markup, const qn_str **out)
{
    if (s->markup == markup) {
        *out = s;
        return QN_OK;
    }
    qn_str *marked = qn_render_alloc(r, 1, sizeof *marked);
    if (!marked)
        return qn_render_status(r);
    *marked = *s;
    marked->markup = markup;
    *out = marked;
    return QN_OK;
}

size_t qn_str_offset(const qn_str *s, size_t index)
{
    if (s->bytes == s->length || index == 0)
        return index;
    if (index >= s->length)
        return s->bytes;
    size_t offset = 0;
    for (size_t seen = 0; offset < s->bytes; ++offset) {
        if (((unsigned char)s->data[offset] & 0xC0) != 0x80 && seen++ == index)
            break;
    }
    return offset;
}

size_t qn_str_index(const qn_str *s, size_t offset)
{
    return s->bytes == s->length ? offset : qn_utf8_length(s->data, offset);
}

bool qn_str_equal(const qn_str *a, const qn_str *b)
{
    return a == b || (a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0));
}

int qn_str_compare(const qn_str *a, const qn_str *b)
{
    /* UTF-8 was made so that byte order is code point order. */
    size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = common ? memcmp(a->data, b->data, common) : 0;
    if (order != 0)
        return order;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

bool qn_str_is(const qn_str *s, const char *text)
{
    size_t bytes = strlen(text);
    return s->bytes == bytes && memcmp(s->data, text, bytes) == 0;
}

bool qn_str_starts(const qn_str *s, const qn_str *prefix)
{
    return prefix->bytes <= s->bytes && (prefix->bytes == 0 || memcmp(s->data, prefix->data, prefix->bytes) == 0);
}

bool qn_str_ends(const qn_str *s, const qn_str *suffix)
{
    return suffix->bytes <= s->bytes &&
           (suffix->bytes == 0 || memcmp(s->data + s->bytes - suffix->bytes, suffix->data, suffix->bytes) == 0);
}

ptrdiff_t qn_str_find(const qn_str *s, const qn_str *needle, size_t from, size_t to)
{
    if (from > to || needle->bytes > to - from)
        return QN_NOT_FOUND;
    if (needle->bytes == 0)
        return (ptrdiff_t)from;
    const char *found = memmem(s->data + from, to - from, needle->data, needle->bytes);
    return found ? found - s->data : QN_NOT_FOUND;
}

ptrdiff_t qn_str_find_last(const qn_str *s, const qn_str *needle, size_t from, size_t to)
{
    if (from > to || needle->bytes > to - from)
        return QN_NOT_FOUND;
    if (needle->bytes == 0)
        return (ptrdiff_t)to;
    for (size_t at = to - needle->bytes + 1; at-- > from;) {
        if (s->data[at] == needle->data[0] && memcmp(s->data + at, needle->data, needle->bytes) == 0)
            return (ptrdiff_t)at;
    }
    return QN_NOT_FOUND;
}

qn_builder qn_builder_start(qn_render *r)
{
    return (qn_builder){.render = r, .limit = r->limits.memory_bytes};
}

/* Room for `more` bytes; false after a failure. */
static bool reserve(qn_builder *b, size_t more)
{
    if (b->status != QN_OK)
        return false;
    if (more > b->limit - b->bytes) {
        b->status = qn_render_fail(b->render, "the text grows beyond %zu bytes", b->limit);
        return false;
    }
    if (more <= b->capacity - b->bytes)
        return true;
    size_t capacity = b->capacity < b->limit / 2 ? b->capacity * 2 : b->limit;
    if (capacity < b->bytes + more)
        capacity = b->bytes + more;
    if (capacity < 64 && b->limit >= 64)
        capacity = 64;
    char *data = qn_render_alloc(b->render, capacity, 1);
    if (!data) {
        b->status = qn_render_status(b->render);
        return false;
    }
    if (b->bytes > 0)
        memcpy(data, b->data, b->bytes);
    b->data = data;
    b->capacity = capacity;
    return true;
}

/* Notes that the bytes start..end-1, the newest ones, came from the request. */
static void add_span(qn_builder *b, size_t start, size_t end)
{
    if (start == end || b->status != QN_OK)
        return;
    if (b->span_count > 0 && b->spans[b->span_count - 1].end == start) {
        b->spans[b->span_count - 1].end = end;
        return;
    }
    if (b->span_count == b->span_capacity) {
        size_t capacity = b->span_capacity ? b->span_capacity * 2 : 4;
        qn_span *spans = qn_render_alloc(b->render, capacity, sizeof *spans);
        if (!spans) {
            b->status = qn_render_status(b->render);
            return;
        }
        if (b->span_count > 0)
            memcpy(spans, b->spans, b->span_count * sizeof *spans);
        b->spans = spans;
        b->span_capacity = capacity;
    }
    b->spans[b->span_count++] = (qn_span){start, end};
}

void qn_builder_text(qn_builder *b, const char *data, size_t bytes, qn_origin origin)
{
    if (bytes == 0 || !reserve(b, bytes))
        return;
    memcpy(b->data + b->bytes, data, bytes);
    if (origin == QN_ORIGIN_REQUEST)
        add_span(b, b->bytes, b->bytes + bytes);
    b->bytes += bytes;
    b->length += qn_utf8_length(data, bytes);
}

void qn_builder_literal(qn_builder *b, const char *text)
{
    qn_builder_text(b, text, strlen(text), QN_ORIGIN_TEMPLATE);
}

void qn_builder_code(qn_builder *b, uint32_t code, qn_origin origin)
{
    char bytes[4];
    qn_builder_text(b, bytes, qn_utf8_encode(code, bytes), origin);
}

void qn_builder_str(qn_builder *b, const qn_str *s)
{
    qn_builder_part(b, s, 0, s->bytes);
}

void qn_builder_part(qn_builder *b, const qn_str *s, size_t from, size_t to)
{
    if (from >= to || b->status != QN_OK)
        return;
    b->status = qn_text_work(b->render, to - from);
    if (!reserve(b, to - from))
        return;
    size_t at = b->bytes;
    memcpy(b->data + at, s->data + from, to - from);
    b->bytes += to - from;
    b->length += s->bytes == s->length ? to - from : qn_utf8_length(s->data + from, to - from);
    if (s->origin == QN_ORIGIN_REQUEST)
        add_span(b, at, b->bytes);
    for (size_t i = 0; i < s->span_count; ++i) {
        size_t start = s->spans[i].start > from ? s->spans[i].start : from;
        size_t end = s->spans[i].end < to ? s->spans[i].end : to;
        if (start < end)
            add_span(b, at + start - from, at + end - from);
    }
}

qn_builder qn_builder_extend(qn_render *r, const qn_str *s)
{
    qn_builder b = qn_builder_start(r);
    qn_room *room = s->room;
    if (!room || room->end != s->data + s->bytes) {
        qn_builder_str(&b, s);
        return b;
    }
    b.data = room->end - s->bytes;
    b.bytes = s->bytes;
    b.length = s->length;
    b.capacity = s->bytes + room->left;
    room->left = 0;
    room->end = NULL;
    b.spans = room->spans;
    b.span_count = s->span_count;
    b.span_capacity = room->span_capacity;
    if (s->origin == QN_ORIGIN_REQUEST)
        add_span(&b, 0, s->bytes);
    return b;
}

void qn_builder_repeat(qn_builder *b, const qn_str *s, size_t times)
{
    if (s->bytes == 0 || times == 0 || b->status != QN_OK)
        return;
    if (times > b->limit / s->bytes) {
        b->status = qn_render_fail(b->render, "the text grows beyond %zu bytes", b->limit);
        return;
    }
    if (!reserve(b, times * s->bytes))
        return;
    for (size_t i = 0; i < times && b->status == QN_OK; ++i)
        qn_builder_str(b, s);
}

static qn_status attach_room(qn_builder *b, qn_str *s)
{
    if (b->bytes < LEAST_BYTES_WITH_ROOM || b->capacity == b->bytes)
        return QN_OK;
    s->room = qn_render_alloc(b->render, 1, sizeof *s->room);
    if (!s->room)
        return qn_render_status(b->render);
    *s->room = (qn_room){b->data + b->bytes, b->capacity - b->bytes, b->spans, b->span_capacity};
    return QN_OK;
}

qn_status qn_builder_finish(qn_builder *b, const qn_str **out)
{
    if (b->status != QN_OK)
        return b->status;
    qn_str *s = new_str(b->render, b->data ? b->data : "", b->bytes, b->length, QN_ORIGIN_TEMPLATE);
    if (!s)
        return qn_render_status(b->render);
    QN_TRY(attach_room(b, s));
    if (b->span_count == 1 && b->spans[0].start == 0 && b->spans[0].end == b->bytes) {
        s->origin = QN_ORIGIN_REQUEST;
    } else if (b->span_count > 0) {
        s->origin = QN_ORIGIN_MIXED;
        s->spans = b->spans;
        s->span_count = b->span_count;
    }
    *out = s;
    return QN_OK;
}

qn_status qn_builder_value(qn_builder *b, qn_value *out)
{
    const qn_str *s;
    QN_TRY(qn_builder_finish(b, &s));
    *out = qn_string(s);
    return QN_OK;
}

bool qn_walk_next(qn_walk *walk)
{
    const qn_str *s = walk->string;
    if (walk->offset >= s->bytes)
        return false;
    walk->origin = s->origin;
    if (s->origin == QN_ORIGIN_MIXED) {
        while (walk->span < s->span_count && s->spans[walk->span].end <= walk->offset)
            ++walk->span;
        bool inside = walk->span < s->span_count && s->spans[walk->span].start <= walk->offset;
        walk->origin = inside ? QN_ORIGIN_REQUEST : QN_ORIGIN_TEMPLATE;
    }
    walk->offset += qn_utf8_decode(s->data + walk->offset, s->bytes - walk->offset, &walk->code);
    return true;
}
