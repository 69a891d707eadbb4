/* As json.dumps writes it with its default separators; plain runs of a string are copied whole. */
#include "text/jinja/tojson.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"

typedef struct writer {
    qn_builder b;
    bool ascii, sorted;
    const qn_str *item_separator, *key_separator;
    const qn_str *indent; /* NULL: all on one line */
    size_t level;
} writer;

static void write_escape(qn_builder *b, uint32_t code, qn_origin origin)
{
    char text[16];
    int bytes;
    if (code < 0x10000) {
        bytes = snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    } else {
        unsigned high = 0xD800 + ((code - 0x10000) >> 10), low = 0xDC00 + ((code - 0x10000) & 0x3FF);
        bytes = snprintf(text, sizeof text, "\\u%04x\\u%04x", high, low);
    }
    qn_builder_text(b, text, (size_t)bytes, origin);
}

static const char *short_escape(uint32_t code)
{
    switch (code) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\f':
        return "\\f";
    case '\b':
        return "\\b";
    default:
        return NULL;
    }
}

static void write_string(writer *w, const qn_str *s)
{
    qn_builder *b = &w->b;
    qn_walk walk = {.string = s};
    size_t plain = 0; /* start of what needs no escape and is not yet written */
    qn_builder_literal(b, "\"");
    for (size_t before = 0; b->status == QN_OK && qn_walk_next(&walk); before = walk.offset) {
        const char *escape = short_escape(walk.code);
        bool coded = walk.code < 0x20 || (w->ascii && walk.code >= 0x7F);
        if (!escape && !coded)
            continue;
        qn_builder_part(b, s, plain, before);
        plain = walk.offset;
        if (escape)
            qn_builder_text(b, escape, 2, walk.origin);
        else
            write_escape(b, walk.code, walk.origin);
    }
    qn_builder_part(b, s, plain, s->bytes);
    qn_builder_literal(b, "\"");
}

static void new_line(writer *w)
{
    if (!w->indent)
        return;
    qn_builder_literal(&w->b, "\n");
    qn_builder_repeat(&w->b, w->indent, w->level);
}

static qn_status write_value(writer *w, qn_value value);

static qn_status write_list(writer *w, const qn_list *list)
{
    if (list->count == 0) {
        qn_builder_literal(&w->b, "[]");
        return w->b.status;
    }
    qn_builder_literal(&w->b, "[");
    ++w->level;
    for (size_t i = 0; i < list->count; ++i) {
        if (i > 0)
            qn_builder_str(&w->b, w->item_separator);
        new_line(w);
        QN_TRY(write_value(w, list->items[i]));
    }
    --w->level;
    new_line(w);
    qn_builder_literal(&w->b, "]");
    return w->b.status;
}

static qn_status write_key(writer *w, qn_value key)
{
    if (qn_is_string(key)) {
        write_string(w, key.string);
        return w->b.status;
    }
    if (!qn_is_number(key) && key.kind != QN_VALUE_NONE)
        return qn_render_fail(w->b.render, "tojson: keys must be str, int, float, bool or None, not %s",
                              qn_type_name(key));
    qn_builder_literal(&w->b, "\"");
    QN_TRY(write_value(w, key));
    qn_builder_literal(&w->b, "\"");
    return w->b.status;
}

/* The entries in the order in which they are written. */
static qn_status entries_in_order(writer *w, const qn_dict *dict, const qn_value **keys, const qn_value **values)
{
    qn_render *r = w->b.render;
    qn_value *k = qn_render_alloc(r, dict->count, sizeof *k),
             *v = k ? qn_render_alloc(r, dict->count, sizeof *v) : NULL;
    if (!v)
        return qn_render_status(r);
    for (size_t i = 0; i < dict->count; ++i) {
        k[i] = dict->entries[i].key;
        v[i] = dict->entries[i].value;
    }
    if (w->sorted) {
        qn_value *order = qn_render_alloc(r, dict->count, sizeof *order);
        if (!order)
            return qn_render_status(r);
        for (size_t i = 0; i < dict->count; ++i)
            order[i] = k[i];
        QN_TRY(qn_values_sort(r, v, order, dict->count, false));
        k = order;
    }
    *keys = k;
    *values = v;
    return QN_OK;
}

static qn_status write_dict(writer *w, const qn_dict *dict)
{
    const qn_value *keys, *values;
    if (dict->count == 0) {
        qn_builder_literal(&w->b, "{}");
        return w->b.status;
    }
    QN_TRY(entries_in_order(w, dict, &keys, &values));
    qn_builder_literal(&w->b, "{");
    ++w->level;
    for (size_t i = 0; i < dict->count; ++i) {
        if (i > 0)
            qn_builder_str(&w->b, w->item_separator);
        new_line(w);
        QN_TRY(write_key(w, keys[i]));
        qn_builder_str(&w->b, w->key_separator);
        QN_TRY(write_value(w, values[i]));
    }
    --w->level;
    new_line(w);
    qn_builder_literal(&w->b, "}");
    return w->b.status;
}

static void write_float(writer *w, double real)
{
    char text[QN_FLOAT_TEXT_BYTES];
    if (isnan(real)) {
        qn_builder_literal(&w->b, "NaN");
        return;
    }
    if (isinf(real)) {
        qn_builder_literal(&w->b, real > 0 ? "Infinity" : "-Infinity");
        return;
    }
    qn_float_text(real, text);
    qn_builder_literal(&w->b, text);
}

static qn_status write_compound(writer *w, qn_value value)
{
    qn_render *r = w->b.render;
    QN_TRY(qn_render_enter(r));
    qn_status status = value.kind == QN_VALUE_DICT ? write_dict(w, value.dict) : write_list(w, value.list);
    qn_render_leave(r);
    return status;
}

static qn_status write_value(writer *w, qn_value value)
{
    QN_TRY(w->b.status);
    QN_TRY(qn_render_work(w->b.render, 1));
    switch (value.kind) {
    case QN_VALUE_NONE:
        qn_builder_literal(&w->b, "null");
        break;
    case QN_VALUE_BOOL:
        qn_builder_literal(&w->b, value.boolean ? "true" : "false");
        break;
    case QN_VALUE_INT:
    case QN_VALUE_BIG_INT:
        return qn_builder_repr_of(&w->b, value);
    case QN_VALUE_FLOAT:
        write_float(w, value.real);
        break;
    case QN_VALUE_STRING:
        write_string(w, value.string);
        break;
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
    case QN_VALUE_DICT:
        return write_compound(w, value);
    default:
        return qn_render_fail(w->b.render, "tojson: Object of type %s is not JSON serializable", qn_type_name(value));
    }
    return w->b.status;
}

static qn_status set_indent(qn_render *r, writer *w, qn_value given)
{
    if (qn_is_missing(given) || given.kind == QN_VALUE_NONE)
        return QN_OK;
    if (qn_is_string(given)) {
        w->indent = given.string;
        return QN_OK;
    }
    int64_t width;
    QN_TRY(qn_argument_integer(r, "tojson: indent", given, 0, &width));
    qn_value space;
    QN_TRY(qn_str_literal(r, " ", &space));
    qn_builder spaces = qn_builder_start(r);
    qn_builder_repeat(&spaces, space.string, width > 0 ? (size_t)width : 0);
    return qn_builder_finish(&spaces, &w->indent);
}

static qn_status set_separators(qn_render *r, writer *w, qn_value given)
{
    qn_value item, key;
    QN_TRY(qn_str_literal(r, w->indent ? "," : ", ", &item));
    QN_TRY(qn_str_literal(r, ": ", &key));
    if (!qn_is_missing(given) && given.kind != QN_VALUE_NONE) {
        const qn_list *pair;
        QN_TRY(qn_collect(r, given, &pair));
        if (pair->count != 2)
            return qn_render_fail(r, "tojson: separators must be two strings, got %zu values", pair->count);
        item = pair->items[0];
        key = pair->items[1];
    }
    QN_TRY(qn_argument_string(r, "tojson: separators", item, &w->item_separator));
    return qn_argument_string(r, "tojson: separators", key, &w->key_separator);
}

qn_status qn_filter_tojson(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    writer w = {.b = qn_builder_start(r)};
    w.ascii = qn_value_truth(given[0]);
    w.sorted = qn_value_truth(given[3]);
    if (!qn_is_string(self)) /* json.dumps writes a string before it looks at the indent */
        QN_TRY(set_indent(r, &w, given[1]));
    QN_TRY(set_separators(r, &w, given[2]));
    QN_TRY(write_value(&w, self));
    return qn_builder_value(&w.b, out);
}
