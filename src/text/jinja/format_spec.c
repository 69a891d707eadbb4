/* format(value, spec): Python's format specification mini-language. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/number.h"
#include "text/jinja/repr.h"

static qn_status fill_string(qn_builder *b, const qn_field *field, const qn_str **fill)
{
    qn_value space;
    *fill = field->fill;
    if (*fill)
        return QN_OK;
    b->status = qn_str_literal(b->render, " ", &space);
    *fill = space.string;
    return b->status;
}

/* Fill around `length` characters by the field's alignment: how many come before and behind. */
static void share_fill(const qn_field *field, size_t length, char align, size_t *before, size_t *behind)
{
    size_t missing = field->width > (int64_t)length ? (size_t)field->width - length : 0;
    *before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    *behind = missing - *before;
}

void qn_format_text(qn_builder *b, const qn_field *field, const qn_str *text)
{
    const qn_str *fill, *shown = text;
    size_t before, behind;
    if (b->status != QN_OK || fill_string(b, field, &fill) != QN_OK)
        return;
    if (field->precision >= 0 && field->precision < (int64_t)text->length)
        b->status = qn_str_slice(b->render, text, 0, qn_str_offset(text, (size_t)field->precision), &shown);
    if (b->status != QN_OK)
        return;
    share_fill(field, shown->length, field->align ? field->align : '<', &before, &behind);
    qn_builder_repeat(b, fill, before);
    qn_builder_str(b, shown);
    qn_builder_repeat(b, fill, behind);
}

/* Length of `digits` digits with a separator between groups. */
static size_t grouped_length(size_t digits, size_t group)
{
    return digits + (digits > 0 ? (digits - 1) / group : 0);
}

/* Appends `zeros` zeros and the digits, with separators. */
static void append_grouped(qn_builder *b, const char *digits, size_t count, size_t zeros, char separator, size_t group)
{
    size_t total = count + zeros;
    for (size_t i = 0; i < total && b->status == QN_OK; ++i) {
        if (separator && i > 0 && (total - i) % group == 0)
            qn_builder_text(b, &separator, 1, QN_ORIGIN_TEMPLATE);
        qn_builder_text(b, i < zeros ? "0" : digits + i - zeros, 1, QN_ORIGIN_TEMPLATE);
    }
}

void qn_format_number(qn_builder *b, const qn_field *field, bool negative, const char *prefix, const qn_str *digits)
{
    char sign[2] = {negative ? '-' : field->sign == '-' ? '\0' : field->sign, '\0'};
    char type = (char)tolower((unsigned char)field->type);
    size_t group = type == 'x' || type == 'o' || type == 'b' ? 4 : 3;
    size_t whole = 0, fixed = strlen(sign) + strlen(prefix), zeros = 0, before, behind;
    const qn_str *fill;
    if (b->status != QN_OK || fill_string(b, field, &fill) != QN_OK)
        return;
    if (field->width > (int64_t)b->limit) {
        b->status = qn_render_fail(b->render, "a field of %lld characters is too wide", (long long)field->width);
        return;
    }
    while (whole < digits->bytes && isxdigit((unsigned char)digits->data[whole]) &&
           (type == 'x' || isdigit((unsigned char)digits->data[whole])))
        ++whole;
    size_t rest = digits->bytes - whole;
    char align = field->align ? field->align : '>';
    bool zero_filled = align == '=' && fill->bytes == 1 && fill->data[0] == '0';
    size_t length = fixed + rest + (field->grouping ? grouped_length(whole, group) : whole);
    if (zero_filled && whole > 0) {
        int64_t room = field->width - (int64_t)(fixed + rest);
        while (room > 0 && zeros + whole < (size_t)room && b->status == QN_OK &&
               (!field->grouping || grouped_length(zeros + whole, group) < (size_t)room)) {
            ++zeros;
            b->status = qn_render_work(b->render, 1);
        }
        length = (size_t)field->width > length ? (size_t)field->width : length;
    }
    share_fill(field, length, align, &before, &behind);
    if (align != '=')
        qn_builder_repeat(b, fill, before);
    qn_builder_literal(b, sign);
    qn_builder_literal(b, prefix);
    if (align == '=')
        qn_builder_repeat(b, fill, before);
    append_grouped(b, digits->data, whole, zeros, field->grouping, group);
    qn_builder_part(b, digits, whole, digits->bytes);
    qn_builder_repeat(b, fill, behind);
}

/* Type 0 with a precision: as g, but always with a point or an exponent. */
static void general_with_point(double real, int precision, char *text, size_t room)
{
    char scientific[QN_MAX_PRECISION + 32];
    if (precision == 0)
        precision = 1;
    snprintf(scientific, sizeof scientific, "%.*e", precision - 1, real);
    int power = (int)strtol(strchr(scientific, 'e') + 1, NULL, 10);
    if (power < -4 || power >= precision - 1) {
        /* %g takes the exponent from one power later on: drop the zeros it would drop. */
        char *exponent = strchr(scientific, 'e'), *end = exponent;
        if (strchr(scientific, '.')) {
            while (end[-1] == '0')
                --end;
            if (end[-1] == '.')
                --end;
        }
        snprintf(text, room, "%.*s%s", (int)(end - scientific), scientific, exponent);
        return;
    }
    snprintf(text, room, "%.*g", precision, real);
    if (!strchr(text, '.'))
        strncat(text, ".0", room - strlen(text) - 1);
}

qn_status qn_format_real(qn_render *r, double real, const qn_field *field, const qn_str **out)
{
    char text[QN_MAX_PRECISION + 400], type = field->type, printf_format[8];
    if (field->precision > QN_MAX_PRECISION)
        return qn_render_fail(r, "a precision beyond %d is not supported", QN_MAX_PRECISION);
    real = fabs(real);
    if (!isfinite(real)) {
        bool upper = type == 'E' || type == 'F' || type == 'G';
        strcpy(text, isnan(real) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
    } else if (type == 0 && field->precision < 0) {
        qn_float_text(real, text);
    } else if (type == 0) {
        general_with_point(real, (int)field->precision, text, sizeof text);
    } else {
        snprintf(printf_format, sizeof printf_format, "%%%s.*%c", field->alternate ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" /* the format is made of checked parts just above */
        snprintf(text, sizeof text, printf_format, field->precision < 0 ? 6 : (int)field->precision, real);
#pragma GCC diagnostic pop
    }
    return qn_str_copy(r, text, strlen(text), QN_ORIGIN_TEMPLATE, out);
}

static qn_status spec_error(qn_render *r, const qn_str *spec, qn_value value)
{
    return qn_render_fail(r, "invalid format specifier '%.*s' for a value of type '%s'",
                          (int)(spec->bytes < 100 ? spec->bytes : 100), spec->data, qn_type_name(value));
}

/* Digits at *at as a number; -1 when there are none. */
static bool parse_count(const qn_str *spec, size_t *at, int64_t *out)
{
    *out = -1;
    while (*at < spec->bytes && isdigit((unsigned char)spec->data[*at])) {
        *out = (*out < 0 ? 0 : *out) * 10 + (spec->data[(*at)++] - '0');
        if (*out > INT32_MAX)
            return false;
    }
    return true;
}

static bool take(const qn_str *spec, size_t *at, char c)
{
    if (*at >= spec->bytes || spec->data[*at] != c)
        return false;
    ++*at;
    return true;
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static qn_status parse_spec(qn_render *r, const qn_str *spec, qn_value value, qn_field *field)
{
    size_t at = 0;
    uint32_t code;
    size_t first = qn_utf8_decode(spec->data, spec->bytes, &code);
    *field = (qn_field){.sign = '-', .precision = -1};
    if (first > 0 && first < spec->bytes && is_align(spec->data[first])) {
        QN_TRY(qn_str_slice(r, spec, 0, first, &field->fill));
        field->align = spec->data[first];
        at = first + 1;
    } else if (spec->bytes > 0 && is_align(spec->data[0])) {
        field->align = spec->data[at++];
    }
    if (at < spec->bytes && strchr("+- ", spec->data[at]) && spec->data[at])
        field->sign = spec->data[at++];
    field->alternate = take(spec, &at, '#');
    if (!field->fill && take(spec, &at, '0')) {
        QN_TRY(qn_str_wrap(r, "0", 1, QN_ORIGIN_TEMPLATE, &field->fill));
        field->zero = true;
        if (!field->align && !qn_is_string(value))
            field->align = '=';
    }
    if (!parse_count(spec, &at, &field->width))
        return qn_render_fail(r, "too many decimal digits in format string");
    if (take(spec, &at, ','))
        field->grouping = ',';
    else if (take(spec, &at, '_'))
        field->grouping = '_';
    if (take(spec, &at, '.') && (!parse_count(spec, &at, &field->precision) || field->precision < 0))
        return qn_render_fail(r, "format specifier missing precision");
    if (at < spec->bytes)
        field->type = spec->data[at++];
    return at == spec->bytes ? QN_OK : spec_error(r, spec, value);
}

static qn_status format_string(qn_builder *b, qn_value value, const qn_str *spec, const qn_field *field)
{
    bool plain = (field->type == 0 || field->type == 's') && field->sign == '-' && !field->alternate &&
                 !field->grouping && field->align != '=';
    if (!plain)
        return spec_error(b->render, spec, value);
    qn_format_text(b, field, value.string);
    return b->status;
}

static qn_status format_real(qn_builder *b, qn_value value, const qn_str *spec, qn_field *field)
{
    const qn_str *digits;
    double real;
    if (field->type != 0 && !strchr("eEfFgGn%", field->type))
        return spec_error(b->render, spec, value);
    QN_TRY(qn_number_real(b->render, value, &real));
    bool percent = field->type == '%', negative = signbit(real) && !isnan(real);
    if (percent)
        real *= 100;
    qn_field inner = *field;
    inner.type = percent ? 'f' : field->type == 'n' ? 'g' : field->type;
    QN_TRY(qn_format_real(b->render, real, &inner, &digits));
    if (percent) {
        qn_builder with_sign = qn_builder_start(b->render);
        qn_builder_str(&with_sign, digits);
        qn_builder_literal(&with_sign, "%");
        QN_TRY(qn_builder_finish(&with_sign, &digits));
    }
    qn_format_number(b, field, negative, "", digits);
    return b->status;
}

static qn_status format_character(qn_builder *b, qn_value value, const qn_str *spec, qn_field *field)
{
    char bytes[4];
    const qn_str *character;
    bool valid = field->sign == '-' && !field->alternate && !field->grouping && field->precision < 0;
    if (!valid)
        return spec_error(b->render, spec, value);
    int64_t code = value.kind == QN_VALUE_INT ? value.integer : value.kind == QN_VALUE_BOOL ? value.boolean : -1;
    size_t count = code >= 0 && code <= 0x10FFFF ? qn_utf8_encode((uint32_t)code, bytes) : 0;
    if (count == 0)
        return qn_render_fail(b->render, "the number is not the code of a character");
    QN_TRY(qn_str_copy(b->render, bytes, count, QN_ORIGIN_TEMPLATE, &character));
    if (!field->align)
        field->align = '>';
    qn_format_text(b, field, character);
    return b->status;
}

static qn_status format_integer(qn_builder *b, qn_value value, const qn_str *spec, qn_field *field)
{
    qn_integer integer;
    char text[QN_INTEGER_TEXT_BYTES];
    const qn_str *digits;
    if (field->type != 0 && strchr("eEfFgG%", field->type))
        return format_real(b, value, spec, field);
    if (field->type == 'c')
        return format_character(b, value, spec, field);
    bool comma_in_hex = field->grouping == ',' && field->type != 0 && field->type != 'd';
    if ((field->type != 0 && !strchr("bdoxXn", field->type)) || field->precision >= 0 || comma_in_hex)
        return spec_error(b->render, spec, value);
    unsigned base = field->type == 'b' ? 2 : field->type == 'o' ? 8 : tolower(field->type) == 'x' ? 16 : 10;
    const char *prefix = !field->alternate || base == 10 ? ""
                         : base == 2                     ? "0b"
                         : base == 8                     ? "0o"
                         : field->type == 'x'            ? "0x"
                                                         : "0X";
    qn_number_widen(value, &integer);
    bool negative = integer.negative;
    integer.negative = false;
    size_t bytes = qn_integer_format(&integer, base, text);
    for (size_t i = 0; field->type == 'X' && i < bytes; ++i)
        text[i] = (char)toupper((unsigned char)text[i]);
    QN_TRY(qn_str_copy(b->render, text, bytes, QN_ORIGIN_TEMPLATE, &digits));
    qn_format_number(b, field, negative, prefix, digits);
    return b->status;
}

qn_status qn_format_value(qn_builder *b, qn_value value, const qn_str *spec)
{
    qn_field field;
    QN_TRY(b->status);
    if (spec->bytes == 0)
        return qn_builder_str_of(b, value);
    if (!qn_is_string(value) && !qn_is_number(value))
        return qn_render_fail(b->render, "unsupported format string passed to %s.__format__", qn_type_name(value));
    QN_TRY(parse_spec(b->render, spec, value, &field));
    if (qn_is_string(value))
        return format_string(b, value, spec, &field);
    return qn_is_integer(value) ? format_integer(b, value, spec, &field) : format_real(b, value, spec, &field);
}
