/* "..." % values: Python's printf-style formatting. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/access.h"
#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/number.h"
#include "text/jinja/repr.h"
#include "text/jinja/undefined.h"

typedef struct formatter {
    qn_builder b;
    const qn_str *format;
    size_t at; /* byte of the format that is read next */
    qn_value values;
    const qn_list *positional; /* NULL: one value, or a mapping */
    size_t used;
    bool mapping; /* values may be taken by name, and need not be taken */
} formatter;

static char peek(const formatter *f)
{
    return f->at < f->format->bytes ? f->format->data[f->at] : '\0';
}

static qn_status next_value(formatter *f, qn_value *out)
{
    qn_render *r = f->b.render;
    if (f->positional) {
        if (f->used >= f->positional->count)
            return qn_render_fail(r, "not enough arguments for format string");
        *out = f->positional->items[f->used++];
        return QN_OK;
    }
    if (f->used > 0)
        return qn_render_fail(r, "not enough arguments for format string");
    ++f->used;
    *out = f->values;
    return QN_OK;
}

/* %(name): the parenthesis may hold balanced ones. */
static qn_status named_value(formatter *f, qn_value *out)
{
    qn_render *r = f->b.render;
    size_t start = ++f->at, depth = 1;
    const qn_str *name;
    if (!f->mapping)
        return qn_render_fail(r, "format requires a mapping");
    for (; f->at < f->format->bytes; ++f->at) {
        char c = f->format->data[f->at];
        depth += c == '(';
        depth -= c == ')';
        if (depth == 0)
            break;
    }
    if (depth > 0)
        return qn_render_fail(r, "incomplete format key");
    QN_TRY(qn_str_slice(r, f->format, start, f->at++, &name));
    if (f->values.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, f->values.undefined);
    if (f->values.kind != QN_VALUE_DICT)
        return qn_render_fail(r, "indices must be integers, not 'str'");
    QN_TRY(qn_get_item(r, f->values, qn_string(name), out));
    return out->kind == QN_VALUE_UNDEFINED
               ? qn_render_fail(r, "no key '%.*s' for the format", (int)name->bytes, name->data)
               : QN_OK;
}

/* A width or precision: digits, or * for the next value. */
static qn_status count_value(formatter *f, int64_t *out)
{
    qn_render *r = f->b.render;
    if (peek(f) == '*') {
        qn_value given;
        ++f->at;
        QN_TRY(next_value(f, &given));
        QN_TRY(qn_argument_integer(r, "* in a format", given, 0, out));
    } else {
        for (*out = 0; isdigit((unsigned char)peek(f)); ++f->at)
            *out = *out > INT32_MAX ? *out : *out * 10 + (peek(f) - '0');
    }
    return *out > INT32_MAX || *out < -INT32_MAX ? qn_render_fail(r, "width or precision too big") : QN_OK;
}

static qn_status read_field(formatter *f, qn_field *field)
{
    *field = (qn_field){.sign = '-', .precision = -1, .align = '>'};
    for (; peek(f) && strchr("-+ #0", peek(f)); ++f->at) {
        char flag = peek(f);
        if (flag == '-')
            field->align = '<';
        else if (flag == '#')
            field->alternate = true;
        else if (flag == '0')
            field->zero = true;
        else if (flag == '+' || field->sign == '-')
            field->sign = flag;
    }
    QN_TRY(count_value(f, &field->width));
    if (field->width < 0) {
        field->align = '<';
        field->width = -field->width;
    }
    if (peek(f) == '.') {
        ++f->at;
        QN_TRY(count_value(f, &field->precision));
        if (field->precision < 0)
            field->precision = 0;
    }
    if (peek(f) && strchr("hlL", peek(f)))
        ++f->at;
    field->type = peek(f);
    if (!field->type)
        return qn_render_fail(f->b.render, "incomplete format");
    ++f->at;
    return QN_OK;
}

static qn_status append_text(formatter *f, const qn_field *field, qn_value value)
{
    qn_builder text = qn_builder_start(f->b.render);
    const qn_str *s;
    if (field->type == 's') {
        QN_TRY(qn_value_str(f->b.render, value, &s));
    } else if (field->type == 'a' && qn_is_string(value)) {
        qn_builder_quoted(&text, value.string, true);
        QN_TRY(qn_builder_finish(&text, &s));
    } else {
        QN_TRY(qn_value_repr(f->b.render, value, &s));
        if (field->type == 'a' && s->bytes != s->length)
            return qn_render_fail(f->b.render, "%%a of values that hold text beyond ASCII is not supported");
    }
    qn_format_text(&f->b, field, s);
    return f->b.status;
}

static qn_status append_character(formatter *f, qn_field *field, qn_value value)
{
    qn_render *r = f->b.render;
    const qn_str *character;
    char bytes[4];
    if (qn_is_string(value)) {
        if (value.string->length != 1)
            return qn_render_fail(r, "%%c requires int or char");
        character = value.string;
    } else {
        int64_t code;
        QN_TRY(qn_argument_integer(r, "%c", value, 0, &code));
        size_t count = code >= 0 && code <= 0x10FFFF ? qn_utf8_encode((uint32_t)code, bytes) : 0;
        if (count == 0)
            return qn_render_fail(r, "%%c arg is not the code of a character");
        QN_TRY(qn_str_copy(r, bytes, count, QN_ORIGIN_TEMPLATE, &character));
    }
    field->precision = -1;
    qn_format_text(&f->b, field, character);
    return f->b.status;
}

/* Zeros that the 0 flag asks for go between sign and digits. */
static qn_status set_zero_fill(formatter *f, qn_field *field)
{
    if (!field->zero || field->align == '<')
        return QN_OK;
    field->align = '=';
    return qn_str_wrap(f->b.render, "0", 1, QN_ORIGIN_TEMPLATE, &field->fill);
}

static qn_status append_real(formatter *f, qn_field *field, qn_value value)
{
    const qn_str *digits;
    double real;
    if (!qn_is_number(value))
        return qn_render_fail(f->b.render, "must be real number, not %s", qn_type_name(value));
    QN_TRY(qn_number_real(f->b.render, value, &real));
    QN_TRY(set_zero_fill(f, field));
    QN_TRY(qn_format_real(f->b.render, real, field, &digits));
    qn_format_number(&f->b, field, signbit(real) && !isnan(real), "", digits);
    return f->b.status;
}

static qn_status append_integer(formatter *f, qn_field *field, qn_value value)
{
    qn_render *r = f->b.render;
    bool decimal = strchr("diu", field->type) != NULL;
    qn_integer integer;
    char text[QN_INTEGER_TEXT_BYTES];
    const qn_str *digits;
    if (decimal && value.kind == QN_VALUE_FLOAT)
        QN_TRY(qn_number_truncate(r, value.real, &value));
    if (!qn_is_integer(value))
        return qn_render_fail(r, "%%%c format: a%s number is required, not %s", field->type,
                              decimal ? " real" : "n integer", qn_type_name(value));
    unsigned base = decimal ? 10 : field->type == 'o' ? 8 : 16;
    qn_number_widen(value, &integer);
    bool negative = integer.negative;
    integer.negative = false;
    size_t bytes = qn_integer_format(&integer, base, text);
    qn_builder padded = qn_builder_start(r);
    const qn_str zero = {.data = "0", .bytes = 1, .length = 1};
    if (field->precision > (int64_t)bytes)
        qn_builder_repeat(&padded, &zero, (size_t)field->precision - bytes);
    for (size_t i = 0; field->type == 'X' && i < bytes; ++i)
        text[i] = (char)toupper((unsigned char)text[i]);
    qn_builder_text(&padded, text, bytes, QN_ORIGIN_TEMPLATE);
    QN_TRY(qn_builder_finish(&padded, &digits));
    QN_TRY(set_zero_fill(f, field));
    const char *prefix = !field->alternate || base == 10 ? "" : base == 8 ? "0o" : field->type == 'x' ? "0x" : "0X";
    qn_format_number(&f->b, field, negative, prefix, digits);
    return f->b.status;
}

static qn_status append_conversion(formatter *f)
{
    qn_field field;
    qn_value value = qn_missing();
    ++f->at;
    if (peek(f) == '(')
        QN_TRY(named_value(f, &value));
    QN_TRY(read_field(f, &field));
    if (field.type == '%') {
        qn_builder_literal(&f->b, "%");
        return f->b.status;
    }
    if (qn_is_missing(value))
        QN_TRY(next_value(f, &value));
    if (strchr("sra", field.type))
        return append_text(f, &field, value);
    if (field.type == 'c')
        return append_character(f, &field, value);
    if (strchr("diuoxX", field.type))
        return append_integer(f, &field, value);
    if (strchr("eEfFgG", field.type))
        return append_real(f, &field, value);
    return qn_render_fail(f->b.render, "unsupported format character at byte %zu", f->at - 1);
}

qn_status qn_format_percent(qn_render *r, const qn_str *format, qn_value values, qn_value *out)
{
    formatter f = {.b = qn_builder_start(r), .format = format, .values = values};
    if (values.kind == QN_VALUE_TUPLE)
        f.positional = values.list;
    f.mapping = values.kind == QN_VALUE_DICT || values.kind == QN_VALUE_LIST || values.kind == QN_VALUE_RANGE ||
                values.kind == QN_VALUE_UNDEFINED;
    while (f.at < format->bytes) {
        const char *percent = memchr(format->data + f.at, '%', format->bytes - f.at);
        size_t end = percent ? (size_t)(percent - format->data) : format->bytes;
        qn_builder_part(&f.b, format, f.at, end);
        f.at = end;
        if (percent)
            QN_TRY(append_conversion(&f));
    }
    bool unused = f.positional ? f.used < f.positional->count : f.used == 0 && !f.mapping;
    if (unused)
        return qn_render_fail(r, "not all arguments converted during string formatting");
    return qn_builder_value(&f.b, out);
}
