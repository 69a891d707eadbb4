/* Ints stay int64_t as long as the compiler's overflow checks pass and go through qn_integer otherwise. */
#include "text/jinja/number.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/character.h"

double qn_number_to_double(qn_value value)
{
    switch (value.kind) {
    case QN_VALUE_BOOL:
        return value.boolean ? 1 : 0;
    case QN_VALUE_INT:
        return (double)value.integer;
    case QN_VALUE_BIG_INT:
        return qn_integer_to_double(value.big);
    default:
        return value.real;
    }
}

qn_status qn_number_real(qn_render *r, qn_value value, double *out)
{
    *out = qn_number_to_double(value);
    if (value.kind == QN_VALUE_BIG_INT && isinf(*out))
        return qn_render_fail(r, "int too large to convert to float");
    return QN_OK;
}

void qn_number_widen(qn_value value, qn_integer *out)
{
    if (value.kind == QN_VALUE_BIG_INT)
        *out = *value.big;
    else
        qn_integer_set(out, value.kind == QN_VALUE_BOOL ? value.boolean : value.integer);
}

qn_status qn_number_from_integer(qn_render *r, const qn_integer *integer, qn_value *out)
{
    int64_t narrow;
    if (qn_integer_fits(integer, &narrow)) {
        *out = qn_int(narrow);
        return QN_OK;
    }
    qn_integer *big = qn_render_alloc(r, 1, sizeof *big);
    if (!big)
        return qn_render_status(r);
    *big = *integer;
    *out = (qn_value){.kind = QN_VALUE_BIG_INT, .big = big};
    return QN_OK;
}

qn_status qn_number_from_digits(qn_render *r, const char *digits, qn_value *out)
{
    qn_integer integer;
    bool negative = digits[0] == '-';
    if (!qn_integer_parse(digits + negative, strlen(digits) - negative, 10, &integer))
        return qn_render_fail(r, "an integer has more than %d bits", QN_INTEGER_BITS);
    integer.negative = negative;
    return qn_number_from_integer(r, &integer, out);
}

qn_status qn_builder_digits(qn_builder *b, const qn_integer *integer)
{
    char text[QN_INTEGER_TEXT_BYTES];
    qn_integer_format(integer, 10, text);
    qn_builder_literal(b, text);
    return b->status;
}

static qn_number_order from_int(int order)
{
    return order < 0 ? QN_NUMBER_LESS : order > 0 ? QN_NUMBER_GREATER : QN_NUMBER_EQUAL;
}

/* An int against a finite float: by integer parts, then by the fraction. */
static qn_number_order compare_mixed(qn_value integer, double real)
{
    qn_integer a, b;
    qn_number_widen(integer, &a);
    if (!qn_integer_from_double(real, &b))
        return real > 0 ? QN_NUMBER_LESS : QN_NUMBER_GREATER;
    int order = qn_integer_compare(&a, &b);
    if (order != 0)
        return from_int(order);
    double fraction = real - trunc(real);
    return fraction > 0 ? QN_NUMBER_LESS : fraction < 0 ? QN_NUMBER_GREATER : QN_NUMBER_EQUAL;
}

static int64_t small(qn_value value)
{
    return value.kind == QN_VALUE_BOOL ? value.boolean : value.integer;
}

static bool is_small(qn_value value)
{
    return value.kind == QN_VALUE_BOOL || value.kind == QN_VALUE_INT;
}

qn_number_order qn_number_compare(qn_value a, qn_value b)
{
    if (is_small(a) && is_small(b))
        return from_int((small(a) > small(b)) - (small(a) < small(b)));
    if (qn_is_integer(a) && qn_is_integer(b)) {
        qn_integer x, y;
        qn_number_widen(a, &x);
        qn_number_widen(b, &y);
        return from_int(qn_integer_compare(&x, &y));
    }
    double x = qn_number_to_double(a), y = qn_number_to_double(b);
    if (isnan(x) || isnan(y))
        return QN_NUMBER_UNORDERED;
    if (qn_is_integer(a) && isfinite(y))
        return compare_mixed(a, y);
    if (qn_is_integer(b) && isfinite(x))
        return from_int(-(int)compare_mixed(b, x));
    if (qn_is_integer(a) || qn_is_integer(b)) /* against an infinity */
        return (qn_is_integer(a) ? y : -x) > 0 ? QN_NUMBER_LESS : QN_NUMBER_GREATER;
    return from_int((x > y) - (x < y));
}

static qn_status wide_divide(qn_render *r, qn_operator operation, const qn_integer *x, const qn_integer *y,
                             qn_value *out)
{
    qn_integer quotient, remainder;
    if (operation == QN_OPERATOR_DIVIDE) {
        *out = qn_float(qn_integer_ratio(x, y));
        return isinf(out->real) ? qn_render_fail(r, "integer division result too large for a float") : QN_OK;
    }
    qn_integer_divide(x, y, &quotient, &remainder);
    return qn_number_from_integer(r, operation == QN_OPERATOR_MODULO ? &remainder : &quotient, out);
}

static qn_status float_power(qn_render *r, double x, double y, qn_value *out)
{
    if (x == 0 && y < 0)
        return qn_render_fail(r, "0.0 cannot be raised to a negative power");
    if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
        return qn_render_fail(r, "a negative number raised to a fraction is complex, which is not supported");
    double power = pow(x, y);
    if (isinf(power) && isfinite(x) && isfinite(y))
        return qn_render_fail(r, "numerical result out of range");
    *out = qn_float(power);
    return QN_OK;
}

static qn_status wide_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out)
{
    qn_integer x, y;
    bool fits = true;
    QN_TRY(qn_render_work(r, 64));
    qn_number_widen(a, &x);
    qn_number_widen(b, &y);
    switch (operation) {
    case QN_OPERATOR_ADD:
        fits = qn_integer_add(&x, &y, &x);
        break;
    case QN_OPERATOR_SUBTRACT:
        fits = qn_integer_subtract(&x, &y, &x);
        break;
    case QN_OPERATOR_MULTIPLY:
        fits = qn_integer_multiply(&x, &y, &x);
        break;
    case QN_OPERATOR_POWER:
        if (b.kind == QN_VALUE_BIG_INT)
            fits = x.count == 0 || (x.count == 1 && x.limbs[0] == 1);
        if (fits && b.kind == QN_VALUE_BIG_INT) /* 0, 1 or -1: only whether the exponent is odd matters */
            x.negative = x.negative && (y.limbs[0] & 1);
        else if (fits)
            fits = qn_integer_power(&x, (uint64_t)small(b), &x);
        break;
    default:
        return wide_divide(r, operation, &x, &y, out);
    }
    if (!fits)
        return qn_render_fail(r, "an integer grows beyond %d bits", QN_INTEGER_BITS);
    return qn_number_from_integer(r, &x, out);
}

/* True when the result was found in 64 bits. */
static bool narrow_operate(qn_operator operation, int64_t x, int64_t y, qn_value *out)
{
    int64_t result;
    switch (operation) {
    case QN_OPERATOR_ADD:
        if (__builtin_add_overflow(x, y, &result))
            return false;
        break;
    case QN_OPERATOR_SUBTRACT:
        if (__builtin_sub_overflow(x, y, &result))
            return false;
        break;
    case QN_OPERATOR_MULTIPLY:
        if (__builtin_mul_overflow(x, y, &result))
            return false;
        break;
    case QN_OPERATOR_DIVIDE: /* one rounding only while both are exact doubles */
        if (llabs(x / 2) >= (INT64_C(1) << 52) || llabs(y / 2) >= (INT64_C(1) << 52))
            return false;
        *out = qn_float((double)x / (double)y);
        return true;
    case QN_OPERATOR_FLOOR_DIVIDE:
        if (y == -1)
            return false;
        result = x / y - (x % y != 0 && (x % y < 0) != (y < 0));
        break;
    case QN_OPERATOR_MODULO:
        if (y == -1)
            return false;
        result = x % y;
        if (result != 0 && (result < 0) != (y < 0))
            result += y;
        break;
    default:
        return false;
    }
    *out = qn_int(result);
    return true;
}

static qn_status integer_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out)
{
    bool zero = is_small(b) && small(b) == 0;
    if (zero && operation == QN_OPERATOR_DIVIDE)
        return qn_render_fail(r, "division by zero");
    if (zero && (operation == QN_OPERATOR_FLOOR_DIVIDE || operation == QN_OPERATOR_MODULO))
        return qn_render_fail(r, "integer division or modulo by zero");
    bool negative = b.kind == QN_VALUE_BIG_INT ? b.big->negative : small(b) < 0;
    if (operation == QN_OPERATOR_POWER && negative) {
        double x, y;
        QN_TRY(qn_number_real(r, a, &x));
        QN_TRY(qn_number_real(r, b, &y));
        return float_power(r, x, y, out);
    }
    if (is_small(a) && is_small(b) && narrow_operate(operation, small(a), small(b), out))
        return QN_OK;
    return wide_operate(r, operation, a, b, out);
}

/* x // y and x % y of floats, as CPython's float_divmod has them. */
static void float_divide(double x, double y, double *quotient, double *remainder)
{
    double rest = fmod(x, y), whole = (x - rest) / y;
    if (rest != 0) {
        if ((y < 0) != (rest < 0)) {
            rest += y;
            whole -= 1;
        }
    } else {
        rest = copysign(0, y);
    }
    if (whole != 0) {
        *quotient = floor(whole);
        if (whole - *quotient > 0.5)
            *quotient += 1;
    } else {
        *quotient = copysign(0, x / y);
    }
    *remainder = rest;
}

qn_status qn_number_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out)
{
    if (qn_is_integer(a) && qn_is_integer(b))
        return integer_operate(r, operation, a, b, out);
    double x, y, quotient, remainder;
    QN_TRY(qn_number_real(r, a, &x));
    QN_TRY(qn_number_real(r, b, &y));
    switch (operation) {
    case QN_OPERATOR_ADD:
        *out = qn_float(x + y);
        return QN_OK;
    case QN_OPERATOR_SUBTRACT:
        *out = qn_float(x - y);
        return QN_OK;
    case QN_OPERATOR_MULTIPLY:
        *out = qn_float(x * y);
        return QN_OK;
    case QN_OPERATOR_POWER:
        return float_power(r, x, y, out);
    default:
        break;
    }
    if (y == 0)
        return qn_render_fail(r, operation == QN_OPERATOR_DIVIDE ? "float division by zero"
                                                                 : "float floor division or modulo by zero");
    float_divide(x, y, &quotient, &remainder);
    *out = qn_float(operation == QN_OPERATOR_DIVIDE ? x / y : operation == QN_OPERATOR_MODULO ? remainder : quotient);
    return QN_OK;
}

qn_status qn_number_negate(qn_render *r, qn_value value, qn_value *out)
{
    if (value.kind == QN_VALUE_FLOAT) {
        *out = qn_float(-value.real);
        return QN_OK;
    }
    return qn_number_operate(r, QN_OPERATOR_SUBTRACT, qn_int(0), value, out);
}

qn_status qn_number_absolute(qn_render *r, qn_value value, qn_value *out)
{
    if (value.kind == QN_VALUE_FLOAT) {
        *out = qn_float(fabs(value.real));
        return QN_OK;
    }
    if (qn_number_compare(value, qn_int(0)) == QN_NUMBER_LESS)
        return qn_number_negate(r, value, out);
    *out = value.kind == QN_VALUE_BOOL ? qn_int(value.boolean) : value;
    return QN_OK;
}

/* Rounds to a multiple of 10^digits, digits > 0. */
static qn_status round_integer(qn_render *r, qn_value value, int64_t digits, qn_value *out)
{
    qn_integer whole, unit, quotient, rest, twice;
    qn_number_widen(value, &whole);
    qn_integer_set(&unit, 10);
    if (digits > QN_INTEGER_DIGITS || !qn_integer_power(&unit, (uint64_t)digits, &unit)) {
        *out = qn_int(0);
        return QN_OK;
    }
    qn_integer_divide(&whole, &unit, &quotient, &rest);
    qn_integer_add(&rest, &rest, &twice);
    int half = qn_integer_compare(&twice, &unit);
    bool up = half > 0 || (half == 0 && quotient.count > 0 && (quotient.limbs[0] & 1));
    if (!qn_integer_subtract(&whole, &rest, &whole) || (up && !qn_integer_add(&whole, &unit, &whole)))
        return qn_render_fail(r, "an integer grows beyond %d bits", QN_INTEGER_BITS);
    return qn_number_from_integer(r, &whole, out);
}

/* The decimal expansion of a double is finite, so printf rounds it exactly; for digits < 0 the same rounding is done on
 * the digits of its exact integer part, with the fraction as what lies behind them. */
static double round_real(double real, int64_t digits)
{
    char text[700];
    if (digits > 22 + 308 || !isfinite(real))
        return real;
    if (digits < -308)
        return copysign(0, real);
    if (digits >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)digits, real);
        return strtod(text, NULL);
    }
    qn_integer whole, unit, quotient, rest, twice;
    qn_integer_from_double(fabs(real), &whole);
    qn_integer_set(&unit, 10);
    qn_integer_power(&unit, (uint64_t)-digits, &unit);
    qn_integer_divide(&whole, &unit, &quotient, &rest);
    qn_integer_add(&rest, &rest, &twice);
    int half = qn_integer_compare(&twice, &unit);
    bool above = half > 0 || (half == 0 && trunc(real) != real);
    bool up = above || (half == 0 && quotient.count > 0 && (quotient.limbs[0] & 1));
    qn_integer_subtract(&whole, &rest, &whole);
    if (up)
        qn_integer_add(&whole, &unit, &whole);
    return copysign(qn_integer_to_double(&whole), real);
}

qn_status qn_number_round(qn_render *r, qn_value value, int64_t digits, qn_value *out)
{
    QN_TRY(qn_render_work(r, 64));
    if (qn_is_integer(value)) {
        if (digits < 0)
            return round_integer(r, value, digits == INT64_MIN ? INT64_MAX : -digits, out);
        *out = value.kind == QN_VALUE_BOOL ? qn_int(value.boolean) : value;
        return QN_OK;
    }
    *out = qn_float(round_real(value.real, digits));
    if (isinf(out->real) && isfinite(value.real))
        return qn_render_fail(r, "rounded value too large to represent");
    return QN_OK;
}

qn_status qn_number_truncate(qn_render *r, double real, qn_value *out)
{
    if (!isfinite(real))
        return qn_render_fail(r, "cannot convert float %s to integer", isnan(real) ? "NaN" : "infinity");
    qn_integer whole;
    qn_integer_from_double(real, &whole);
    return qn_number_from_integer(r, &whole, out);
}

/* Copies the text without white space around it and without single underscores between digits (letters among them on
 * demand), its digits of any script as ASCII. False when it cannot be a number. */
static bool number_text(const qn_str *text, bool letters, char *out, size_t room, size_t *bytes)
{
    size_t end = qn_space_trimmed(text->data, text->bytes), at = qn_space_prefix(text->data, end), count = 0;
    qn_walk walk = {.string = text, .offset = at};
    bool digit = false, underscore = false;
    while (walk.offset < end && qn_walk_next(&walk)) {
        uint32_t code = walk.code;
        if (code == '_') {
            if (!digit || underscore)
                return false;
            underscore = true;
            continue;
        }
        if (code >= 0x80 && qn_code_is_decimal(code))
            code = '0' + qn_code_decimal_value(code);
        if (code >= 0x80 || code == 0 || count + 1 >= room)
            return false;
        bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
        digit = (code >= '0' && code <= '9') || (letters && letter);
        if (underscore && !digit)
            return false;
        out[count++] = (char)code;
        underscore = false;
    }
    out[count] = '\0';
    *bytes = count;
    return count > 0 && !underscore;
}

static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    char letter = (char)(c | 0x20);
    return letter >= 'a' && letter <= 'z' ? (unsigned)(letter - 'a') + 10 : 99;
}

/* Takes a prefix such as 0x off when it fits the base, which 0 leaves to the prefix. */
static const char *strip_prefix(const char *digits, unsigned *base)
{
    unsigned named = 0;
    if (digits[0] == '0' && digits[1] != '\0')
        named = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : (digits[1] | 0x20) == 'b' ? 2 : 0;
    if (named && (*base == named || *base == 0)) {
        *base = named;
        return digits + 2;
    }
    if (*base == 0)
        *base = digits[0] == '0' && strspn(digits, "0") != strlen(digits) ? 1 : 10; /* 1: no digit is valid */
    return digits;
}

qn_status qn_number_parse_integer(qn_render *r, const qn_str *text, unsigned base, qn_value *out, bool *valid)
{
    char digits[2 * QN_INTEGER_BITS];
    size_t bytes;
    *valid = false;
    QN_TRY(qn_text_work(r, text->bytes));
    if (!number_text(text, base == 0 || base > 10, digits, sizeof digits, &bytes))
        return QN_OK;
    bool negative = digits[0] == '-', sign = negative || digits[0] == '+';
    const char *start = strip_prefix(digits + sign, &base);
    size_t count = strlen(start);
    for (size_t i = 0; i < count; ++i) {
        if (digit_value(start[i]) >= base)
            return QN_OK;
    }
    if (count == 0)
        return QN_OK;
    qn_integer integer;
    if (!qn_integer_parse(start, count, base, &integer))
        return qn_render_fail(r, "an integer grows beyond %d bits", QN_INTEGER_BITS);
    integer.negative = negative && integer.count > 0;
    *valid = true;
    return qn_number_from_integer(r, &integer, out);
}

/* digits [. digits] [e [sign] digits] with a digit on either side of the point. */
static bool is_decimal_float(const char *at)
{
    size_t whole = strspn(at, "0123456789"), part = 0;
    at += whole;
    if (*at == '.') {
        part = strspn(++at, "0123456789");
        at += part;
    }
    if (whole + part == 0)
        return false;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        if (strspn(at, "0123456789") == 0)
            return false;
        at += strspn(at, "0123456789");
    }
    return *at == '\0';
}

qn_status qn_number_parse_real(qn_render *r, const qn_str *text, double *out, bool *valid)
{
    char digits[1024];
    size_t bytes;
    *valid = false;
    QN_TRY(qn_text_work(r, text->bytes));
    if (!number_text(text, false, digits, sizeof digits, &bytes))
        return QN_OK;
    const char *start = digits + (digits[0] == '-' || digits[0] == '+');
    if (strcasecmp(start, "nan") == 0)
        *out = NAN;
    else if (strcasecmp(start, "inf") == 0 || strcasecmp(start, "infinity") == 0)
        *out = INFINITY;
    else if (is_decimal_float(start))
        *out = strtod(start, NULL);
    else
        return QN_OK;
    *valid = true;
    if (digits[0] == '-')
        *out = -*out;
    return QN_OK;
}
