/* Everything that is printed ends here, so a value without a text of its own is refused here. */
#include "text/jinja/repr.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/arguments.h"
#include "text/jinja/call.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/loop.h"
#include "text/jinja/number.h"
#include "text/jinja/character.h"

/* Digits of the shortest decimal that reads back as `real`, and the power of ten of its first digit. */
static int shortest_digits(double real, char digits[20])
{
    char text[40];
    /* 15 digits always survive a round trip through a normal double, so that no fewer need to be tried: what has fewer
     * ends in zeros. Subnormals have less precision than that. */
    for (int precision = fabs(real) < 2.3e-308 ? 0 : 14; precision <= 16; ++precision) {
        snprintf(text, sizeof text, "%.*e", precision, fabs(real));
        if (precision == 16 || strtod(text, NULL) == fabs(real))
            break;
    }
    char *exponent = strchr(text, 'e');
    size_t count = 0;
    for (const char *at = text; at < exponent; ++at) {
        if (*at != '.')
            digits[count++] = *at;
    }
    while (count > 1 && digits[count - 1] == '0')
        --count;
    digits[count] = '\0';
    return (int)strtol(exponent + 1, NULL, 10);
}

void qn_float_text(double real, char out[QN_FLOAT_TEXT_BYTES])
{
    const char *sign = signbit(real) ? "-" : "";
    char digits[20];
    if (isnan(real)) {
        strcpy(out, "nan");
        return;
    }
    if (isinf(real)) {
        snprintf(out, QN_FLOAT_TEXT_BYTES, "%sinf", sign);
        return;
    }
    int power = real == 0 ? 0 : shortest_digits(real, digits);
    if (real == 0)
        strcpy(digits, "0");
    int count = (int)strlen(digits);
    if (power < -4 || power >= 16) {
        snprintf(out, QN_FLOAT_TEXT_BYTES, "%s%c%s%se%c%02u", sign, digits[0], count > 1 ? "." : "", digits + 1,
                 power < 0 ? '-' : '+', (unsigned)abs(power) % 1000);
    } else if (power < 0) {
        snprintf(out, QN_FLOAT_TEXT_BYTES, "%s0.%.*s%s", sign, -power - 1, "0000", digits);
    } else if (count <= power + 1) {
        snprintf(out, QN_FLOAT_TEXT_BYTES, "%s%s%.*s.0", sign, digits, power + 1 - count, "0000000000000000");
    } else {
        snprintf(out, QN_FLOAT_TEXT_BYTES, "%s%.*s.%s", sign, power + 1, digits, digits + power + 1);
    }
}

static void append_escape(qn_builder *b, uint32_t code, qn_origin origin)
{
    char text[QN_CODE_ESCAPE_BYTES];
    size_t bytes = qn_code_escape(code, text);
    qn_builder_text(b, text, bytes, origin);
}

void qn_builder_quoted(qn_builder *b, const qn_str *s, bool ascii)
{
    bool single = s->bytes > 0 && memchr(s->data, '\'', s->bytes),
         twofold = s->bytes > 0 && memchr(s->data, '"', s->bytes);
    char quote = single && !twofold ? '"' : '\'';
    qn_walk walk = {.string = s};
    qn_builder_text(b, &quote, 1, QN_ORIGIN_TEMPLATE);
    if (b->status == QN_OK)
        b->status = qn_render_work(b->render, s->bytes / 8);
    while (b->status == QN_OK && qn_walk_next(&walk)) {
        uint32_t code = walk.code;
        const char *escape = code == '\n' ? "\\n" : code == '\r' ? "\\r" : code == '\t' ? "\\t" : NULL;
        if (escape) {
            qn_builder_text(b, escape, 2, walk.origin);
        } else if (code == '\\' || code == (uint32_t)quote) {
            qn_builder_text(b, "\\", 1, walk.origin);
            qn_builder_code(b, code, walk.origin);
        } else if ((ascii && code >= 0x7F) || !qn_code_is_printable(code)) {
            append_escape(b, code, walk.origin);
        } else {
            qn_builder_code(b, code, walk.origin);
        }
    }
    qn_builder_text(b, &quote, 1, QN_ORIGIN_TEMPLATE);
}

static qn_status append_list(qn_builder *b, const qn_list *list, const char *open, const char *close)
{
    qn_builder_literal(b, open);
    for (size_t i = 0; i < list->count; ++i) {
        if (i > 0)
            qn_builder_literal(b, ", ");
        QN_TRY(qn_builder_repr_of(b, list->items[i]));
    }
    qn_builder_literal(b, close);
    return b->status;
}

static qn_status append_tuple(qn_builder *b, const qn_list *list)
{
    return append_list(b, list, "(", list->count == 1 ? ",)" : ")");
}

static qn_status append_dict(qn_builder *b, const qn_dict *dict)
{
    qn_builder_literal(b, "{");
    for (size_t i = 0; i < dict->count; ++i) {
        if (i > 0)
            qn_builder_literal(b, ", ");
        QN_TRY(qn_builder_repr_of(b, dict->entries[i].key));
        qn_builder_literal(b, ": ");
        QN_TRY(qn_builder_repr_of(b, dict->entries[i].value));
    }
    qn_builder_literal(b, "}");
    return b->status;
}

static qn_status append_view(qn_builder *b, const qn_view *view)
{
    static const char *const names[] = {"dict_keys([", "dict_values([", "dict_items(["};
    qn_builder_literal(b, names[view->kind]);
    for (size_t i = 0; i < view->dict->count; ++i) {
        const qn_dict_entry *entry = &view->dict->entries[i];
        qn_value pair[2] = {entry->key, entry->value};
        if (i > 0)
            qn_builder_literal(b, ", ");
        if (view->kind == QN_VIEW_ITEMS)
            QN_TRY(append_tuple(b, &(qn_list){.count = 2, .items = pair}));
        else
            QN_TRY(qn_builder_repr_of(b, view->kind == QN_VIEW_KEYS ? entry->key : entry->value));
    }
    qn_builder_literal(b, "])");
    return b->status;
}

static qn_status append_number(qn_builder *b, qn_value value)
{
    char text[64];
    if (value.kind == QN_VALUE_BIG_INT)
        return qn_builder_digits(b, value.big);
    if (value.kind == QN_VALUE_FLOAT)
        qn_float_text(value.real, text);
    else
        snprintf(text, sizeof text, "%" PRId64, value.integer);
    qn_builder_literal(b, text);
    return b->status;
}

static qn_status append_range(qn_builder *b, const qn_range *range)
{
    char text[100];
    snprintf(text, sizeof text,
             range->step == 1 ? "range(%" PRId64 ", %" PRId64 ")" : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
             range->start, range->stop, range->step);
    qn_builder_literal(b, text);
    return b->status;
}

static qn_status append_loop(qn_builder *b, qn_loop *loop)
{
    char text[64];
    size_t length;
    QN_TRY(qn_loop_length(b->render, loop, &length));
    snprintf(text, sizeof text, "<LoopContext %" PRId64 "/%zu>", loop->index0 + 1, length);
    qn_builder_literal(b, text);
    return b->status;
}

static qn_status append_macro(qn_builder *b, const qn_macro *macro)
{
    qn_builder_literal(b, "<Macro ");
    if (macro->name)
        qn_builder_quoted(b, macro->name, false);
    else
        qn_builder_literal(b, "anonymous");
    qn_builder_literal(b, ">");
    return b->status;
}

static qn_status append_compound(qn_builder *b, qn_value value)
{
    switch (value.kind) {
    case QN_VALUE_LIST:
        return append_list(b, value.list, "[", "]");
    case QN_VALUE_TUPLE:
        return append_tuple(b, value.list);
    case QN_VALUE_DICT:
        return append_dict(b, value.dict);
    case QN_VALUE_VIEW:
        return append_view(b, value.view);
    case QN_VALUE_NAMESPACE:
        qn_builder_literal(b, "<Namespace ");
        QN_TRY(append_dict(b, value.names));
        qn_builder_literal(b, ">");
        return b->status;
    case QN_VALUE_RANGE:
        return append_range(b, value.range);
    case QN_VALUE_LOOP:
        return append_loop(b, value.loop);
    case QN_VALUE_MACRO:
        return append_macro(b, value.macro);
    case QN_VALUE_FUNCTION:
        if (value.function->class_name) {
            qn_builder_literal(b, value.function->class_name);
            return b->status;
        }
        break;
    default:
        break;
    }
    return qn_render_fail(b->render, "a value of type '%s' has no text of its own: make a list of it, or call it",
                          qn_type_name(value));
}

qn_status qn_builder_repr_of(qn_builder *b, qn_value value)
{
    qn_render *r = b->render;
    if (b->status != QN_OK)
        return b->status;
    switch (value.kind) {
    case QN_VALUE_MISSING:
    case QN_VALUE_UNDEFINED:
        qn_builder_literal(b, "Undefined");
        break;
    case QN_VALUE_NONE:
        qn_builder_literal(b, "None");
        break;
    case QN_VALUE_BOOL:
        qn_builder_literal(b, value.boolean ? "True" : "False");
        break;
    case QN_VALUE_INT:
    case QN_VALUE_BIG_INT:
    case QN_VALUE_FLOAT:
        return append_number(b, value);
    case QN_VALUE_STRING:
        if (value.string->markup)
            qn_builder_literal(b, "Markup(");
        qn_builder_quoted(b, value.string, false);
        if (value.string->markup)
            qn_builder_literal(b, ")");
        break;
    default:
        b->status = qn_render_work(r, 1);
        if (b->status == QN_OK)
            b->status = qn_render_enter(r);
        if (b->status == QN_OK) {
            b->status = append_compound(b, value);
            qn_render_leave(r);
        }
    }
    return b->status;
}

qn_status qn_builder_str_of(qn_builder *b, qn_value value)
{
    if (value.kind == QN_VALUE_STRING)
        qn_builder_str(b, value.string);
    else if (value.kind != QN_VALUE_UNDEFINED)
        return qn_builder_repr_of(b, value);
    return b->status;
}

qn_status qn_value_str(qn_render *r, qn_value value, const qn_str **out)
{
    if (value.kind == QN_VALUE_STRING) {
        *out = value.string;
        return QN_OK;
    }
    qn_builder b = qn_builder_start(r);
    qn_builder_str_of(&b, value);
    return qn_builder_finish(&b, out);
}

qn_status qn_value_repr(qn_render *r, qn_value value, const qn_str **out)
{
    qn_builder b = qn_builder_start(r);
    qn_builder_repr_of(&b, value);
    return qn_builder_finish(&b, out);
}
