/* A range is split by sign; what is left compares digit by digit. While the digits so far equal those of a bound (the
 * place is `tight` at it), the next digit is held to the bound's; from the first that differs the rest is free. That
 * gives a chain as long as the bound instead of a case for each number. */
#include "grammar/json_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_wide.h"
#include "grammar/json_spelling.h"
#include "grammar/words.h"

/* Decimals */

bool qn_decimal_parse(const char *text, qn_decimal *out)
{
    *out = (qn_decimal){.negative = *text == '-'};
    const char *at = text + (*text == '-');
    bool in_fraction = false, any = false;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !in_fraction); at++) {
        if (*at == '.') {
            in_fraction = true;
            continue;
        }
        any = true;
        if (*at == '0' && out->count == 0) { /* leading */
            out->point -= in_fraction;
            continue;
        }
        if (out->count == QN_DECIMAL_MOST_DIGITS)
            return false;
        out->digits[out->count++] = *at;
        out->point += !in_fraction;
    }
    if (any && (*at == 'e' || *at == 'E')) {
        char *end;
        long exponent = strtol(at + 1, &end, 10);
        if (end == at + 1 || exponent > 10000 || exponent < -10000)
            return false;
        out->point += (int)exponent;
        at = end;
    }
    while (out->count > 0 && out->digits[out->count - 1] == '0')
        out->count--;
    if (out->count == 0) {
        out->negative = false;
        out->point = 0;
    }
    out->digits[out->count] = '\0';
    return any && *at == '\0' && abs(out->point) <= QN_DECIMAL_MOST_DIGITS;
}

bool qn_decimal_of(const json_t *value, qn_decimal *out)
{
    char text[64];
    const char *wide = qn_json_wide_digits(value);
    if (wide)
        return qn_decimal_parse(wide, out);
    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        return qn_decimal_parse(text, out);
    }
    if (!json_is_real(value))
        return false;
    double real = json_real_value(value);
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, real);
        if (strtod(text, NULL) == real)
            break;
    }
    return qn_decimal_parse(text, out);
}

static int compare_magnitudes(const qn_decimal *a, const qn_decimal *b)
{
    if (a->count == 0 || b->count == 0)
        return (a->count > 0) - (b->count > 0);
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    return strcmp(a->digits, b->digits); /* no zeros at the end: a longer one is larger */
}

int qn_decimal_compare(const qn_decimal *a, const qn_decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

bool qn_decimal_is_integer(const qn_decimal *d)
{
    return d->count == 0 || (d->point > 0 && (unsigned)d->point >= d->count);
}

/* Digit strings */

/* Numbers with exactly `whole` digits before the point. A bound that is absent is never tight. */
typedef struct digit_range {
    qn_grammar_builder *b;
    size_t whole;
    bool fraction;          /* there may be one */
    bool leading_zero;      /* the first digit may be 0 */
    const char *low, *high; /* digits before and behind the point; as if followed by zeros */
    size_t low_count, high_count;
    bool low_exclusive, high_exclusive;
} digit_range;

static qn_expr digit_set(qn_grammar_builder *b, char first, char last)
{
    uint64_t set[4] = {0};
    for (char d = first; d <= last; d++)
        set[0] |= UINT64_C(1) << d;
    return qn_expr_byte_set(b, set);
}

static qn_expr free_digits(qn_grammar_builder *b, size_t min, size_t max)
{
    return qn_expr_repeat(b, digit_set(b, '0', '9'), min, max);
}

static char digit_at(const char *digits, size_t count, size_t i)
{
    return i < count ? digits[i] : '0';
}

static bool zeros_from(const char *digits, size_t count, size_t i)
{
    for (; i < count; i++)
        if (digits[i] != '0')
            return false;
    return true;
}

/* Whether the number may end with i digits, all that follow being zeros. */
static bool may_end(const digit_range *r, size_t i, bool low, bool high)
{
    bool above = !low || (zeros_from(r->low, r->low_count, i) && !r->low_exclusive);
    bool below = !high || !r->high_exclusive || !zeros_from(r->high, r->high_count, i);
    return above && below;
}

static qn_expr digits_from(const digit_range *r, size_t i, bool low, bool high);

/* A digit at i, and what follows it. */
static qn_expr next_digit(const digit_range *r, size_t i, bool low, bool high)
{
    qn_grammar_builder *b = r->b;
    char least = i == 0 && !r->leading_zero ? '1' : '0';
    char from = low ? digit_at(r->low, r->low_count, i) : least, to = high ? digit_at(r->high, r->high_count, i) : '9';
    qn_expr options[3];
    size_t n = 0;
    if (low && high && from == to)
        return qn_words_concat2(b, digit_set(b, from, to), digits_from(r, i + 1, true, true));
    if (low)
        options[n++] = qn_words_concat2(b, digit_set(b, from, from), digits_from(r, i + 1, true, false));
    if (high)
        options[n++] = qn_words_concat2(b, digit_set(b, to, to), digits_from(r, i + 1, false, true));
    char first = (char)(from + low), last = (char)(to - high);
    if (first <= last)
        options[n++] = qn_words_concat2(b, digit_set(b, first, last), digits_from(r, i + 1, false, false));
    return qn_words_choice(b, options, n);
}

/* Behind the point, `i` digits in, beyond all digits of the bounds at which the place is tight. */
static qn_expr beyond(const digit_range *r, size_t least, bool low, bool high)
{
    qn_grammar_builder *b = r->b;
    qn_expr zeros = qn_expr_repeat(b, digit_set(b, '0', '0'), least, QN_JSON_MOST_DIGITS);
    if (high)
        return r->high_exclusive || (low && r->low_exclusive) ? QN_NO_WORDS : zeros;
    if (!low || !r->low_exclusive)
        return free_digits(b, least, QN_JSON_MOST_DIGITS);
    return qn_expr_concat(b,
                          (qn_expr[]){qn_expr_repeat(b, digit_set(b, '0', '0'), 0, QN_JSON_MOST_DIGITS),
                                      digit_set(b, '1', '9'), free_digits(b, 0, QN_JSON_MOST_DIGITS)},
                          3);
}

/* `i` digits in; the number may end here once a digit follows the point. */
static qn_expr fraction_from(const digit_range *r, size_t i, bool low, bool high)
{
    bool first = i == r->whole;
    if ((!low || i >= r->low_count) && (!high || i >= r->high_count))
        return beyond(r, first, low, high);
    qn_expr more = next_digit(r, i, low, high);
    if (first || !may_end(r, i, low, high))
        return more;
    return more == QN_NO_WORDS ? qn_expr_empty(r->b) : qn_expr_optional(r->b, more);
}

static qn_expr digits_from(const digit_range *r, size_t i, bool low, bool high)
{
    qn_grammar_builder *b = r->b;
    if (i > r->whole)
        return fraction_from(r, i, low, high);
    if (i < r->whole && !low && !high && i > 0) {
        qn_expr point = qn_expr_concat2(b, qn_expr_text(b, "."), free_digits(b, 1, QN_JSON_MOST_DIGITS));
        qn_expr rest = r->fraction ? qn_expr_optional(b, point) : qn_expr_empty(b);
        return qn_expr_concat2(b, free_digits(b, r->whole - i, r->whole - i), rest);
    }
    if (i < r->whole)
        return next_digit(r, i, low, high);
    qn_expr fraction = QN_NO_WORDS;
    if (r->fraction)
        fraction = qn_words_concat2(b, qn_expr_text(b, "."), fraction_from(r, i, low, high));
    if (!may_end(r, i, low, high))
        return fraction;
    return fraction == QN_NO_WORDS ? qn_expr_empty(b) : qn_expr_optional(b, fraction);
}

/* Magnitudes: numbers without a sign. `low` is there always, `high` when present. */

typedef struct magnitudes {
    qn_grammar_builder *b;
    qn_decimal low, high;
    bool low_exclusive, bounded, high_exclusive;
    bool integer;
} magnitudes;

/* The digits of d as they stand around the point, with a zero before it at least; returns how many are before it. */
static size_t plain_digits(const qn_decimal *d, char out[2 * QN_DECIMAL_MOST_DIGITS + 2], size_t *count)
{
    size_t whole = d->point > 0 ? (size_t)d->point : 1, lead = d->point > 0 ? 0 : (size_t)(1 - d->point);
    size_t total = lead + d->count > whole ? lead + d->count : whole;
    memset(out, '0', total);
    memcpy(out + lead, d->digits, d->count);
    out[total] = '\0';
    *count = total;
    return whole;
}

/* Of a length between those of the bounds, min..max digits before the point. */
static qn_expr plain_between(qn_grammar_builder *b, size_t min, size_t max, bool integer)
{
    qn_expr fraction = qn_expr_concat2(b, qn_expr_text(b, "."), free_digits(b, 1, QN_JSON_MOST_DIGITS));
    return qn_expr_concat(b,
                          (qn_expr[]){digit_set(b, '1', '9'), free_digits(b, min - 1, max - 1),
                                      integer ? qn_expr_empty(b) : qn_expr_optional(b, fraction)},
                          3);
}

static qn_expr plain(const magnitudes *m)
{
    char low[2 * QN_DECIMAL_MOST_DIGITS + 2], high[2 * QN_DECIMAL_MOST_DIGITS + 2];
    size_t low_count, high_count = 0;
    size_t from = plain_digits(&m->low, low, &low_count),
           to = m->bounded ? plain_digits(&m->high, high, &high_count) : 0;
    digit_range r = {.b = m->b,
                     .whole = from,
                     .fraction = !m->integer,
                     .leading_zero = from == 1,
                     .low = low,
                     .low_count = low_count,
                     .low_exclusive = m->low_exclusive,
                     .high = high,
                     .high_count = high_count,
                     .high_exclusive = m->high_exclusive};
    if (m->bounded && from == to)
        return digits_from(&r, 0, true, true);
    qn_expr options[3] = {digits_from(&r, 0, true, false), QN_NO_WORDS, QN_NO_WORDS};
    if (m->bounded) {
        r.whole = to;
        r.leading_zero = false;
        options[1] = digits_from(&r, 0, false, true);
        if (from + 1 < to)
            options[2] = plain_between(m->b, from + 1, to - 1, m->integer);
    } else if (from < QN_JSON_MOST_DIGITS) {
        options[2] = plain_between(m->b, from + 1, QN_JSON_MOST_DIGITS, m->integer);
    }
    return qn_words_choice(m->b, options, 3);
}

static void decimal_of_int(int value, qn_decimal *out)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    (void)qn_decimal_parse(text, out);
}

/* "e" and an exponent from low to high, as serialisers pad it: e5, e+5, e-05. */
static qn_expr exponents(qn_grammar_builder *b, int low, int high)
{
    if (low > high)
        return QN_NO_WORDS;
    qn_expr options[2] = {QN_NO_WORDS, QN_NO_WORDS};
    if (high >= 0) {
        magnitudes m = {.b = b, .bounded = true, .integer = true};
        decimal_of_int(low > 0 ? low : 0, &m.low);
        decimal_of_int(high, &m.high);
        options[0] = qn_words_concat2(b, qn_expr_optional(b, qn_expr_text(b, "+")),
                                      qn_words_concat2(b, qn_expr_repeat(b, qn_expr_text(b, "0"), 0, 2), plain(&m)));
    }
    if (low < 0) {
        magnitudes m = {.b = b, .bounded = true, .integer = true};
        decimal_of_int(high < 0 ? -high : 0, &m.low);
        decimal_of_int(-low, &m.high);
        options[1] = qn_words_concat(
            b, (qn_expr[]){qn_expr_text(b, "-"), qn_expr_repeat(b, qn_expr_text(b, "0"), 0, 2), plain(&m)}, 3);
    }
    uint64_t letters[4] = {0};
    letters['e' >> 6] |= UINT64_C(1) << ('e' & 63) | UINT64_C(1) << ('E' & 63);
    return qn_words_concat2(b, qn_expr_byte_set(b, letters), qn_words_choice(b, options, 2));
}

/* d.ddd with the exponent of the bounds that are tight. */
static qn_expr mantissas(const magnitudes *m, bool low, bool high, int exponent)
{
    digit_range r = {.b = m->b,
                     .whole = 1,
                     .fraction = true,
                     .low = m->low.digits,
                     .low_count = m->low.count,
                     .low_exclusive = m->low_exclusive,
                     .high = m->high.digits,
                     .high_count = m->high.count,
                     .high_exclusive = m->high_exclusive};
    return qn_words_concat2(m->b, digits_from(&r, 0, low, high), exponents(m->b, exponent, exponent));
}

static qn_expr scientific(const magnitudes *m)
{
    enum { LEAST = -300, MOST = 300 }; /* so that a double can tell it from zero and infinity */
    bool low = m->low.count > 0;
    int from = low ? m->low.point - 1 : LEAST, to = m->bounded ? m->high.point - 1 : MOST;
    if (m->bounded && m->high.count == 0)
        return QN_NO_WORDS;
    if (low && m->bounded && from == to)
        return mantissas(m, true, true, from);
    qn_expr options[3] = {QN_NO_WORDS, QN_NO_WORDS, QN_NO_WORDS};
    if (low)
        options[0] = mantissas(m, true, false, from);
    if (m->bounded)
        options[1] = mantissas(m, false, true, to);
    options[2] = qn_words_concat2(m->b, plain_between(m->b, 1, 1, false),
                                  exponents(m->b, from + low, m->bounded ? to - 1 : to));
    return qn_words_choice(m->b, options, 3);
}

/* Replaces a bound by the next integer that is inside; false when there is none (below zero). */
static bool round_bound(qn_decimal *d, bool exclusive, bool up)
{
    bool whole = qn_decimal_is_integer(d);
    if (whole && !exclusive)
        return true;
    char digits[QN_DECIMAL_MOST_DIGITS + 2] = {'0'};
    size_t n = d->point > 0 ? (size_t)d->point : 0;
    for (size_t i = 0; i < n; i++)
        digits[i + 1] = digit_at(d->digits, d->count, i);
    size_t i = n;
    if (up) {
        for (; digits[i] == '9'; i--)
            digits[i] = '0';
        digits[i]++;
    } else if (whole) { /* otherwise cutting the fraction off was it */
        if (d->count == 0)
            return false;
        for (; digits[i] == '0'; i--)
            digits[i] = '9';
        digits[i]--;
    }
    digits[n + 1] = '\0';
    return qn_decimal_parse(digits, d);
}

static qn_expr magnitude_range(magnitudes *m)
{
    if (m->integer) {
        if (!round_bound(&m->low, m->low_exclusive, true) ||
            (m->bounded && !round_bound(&m->high, m->high_exclusive, false)))
            return QN_NO_WORDS;
        m->low_exclusive = m->high_exclusive = false;
    }
    if (m->bounded) {
        int order = compare_magnitudes(&m->low, &m->high);
        if (order > 0 || (order == 0 && (m->low_exclusive || m->high_exclusive)))
            return QN_NO_WORDS;
    }
    qn_expr options[2] = {plain(m), m->integer ? QN_NO_WORDS : scientific(m)};
    return qn_words_choice(m->b, options, 2);
}

/* Signed ranges */

static bool below_zero(const qn_number_bound *bound)
{
    return bound->present && bound->value.negative;
}

/* The magnitudes of the numbers from zero up (or from zero down, when the bounds are given mirrored). */
static qn_expr half(qn_grammar_builder *b, const qn_number_bound *low, const qn_number_bound *high, bool integer)
{
    magnitudes m = {.b = b, .integer = integer, .bounded = high->present};
    if (low->present && !low->value.negative) {
        m.low = low->value;
        m.low_exclusive = low->exclusive;
    }
    if (high->present) {
        m.high = high->value;
        m.high_exclusive = high->exclusive;
    }
    return magnitude_range(&m);
}

static qn_number_bound mirrored(const qn_number_bound *bound)
{
    qn_number_bound other = *bound;
    other.value.negative = bound->value.count > 0 && !bound->value.negative;
    return other;
}

qn_expr qn_json_number_range(qn_grammar_builder *b, const qn_number_bound *low, const qn_number_bound *high,
                             bool integer)
{
    qn_expr options[2] = {QN_NO_WORDS, QN_NO_WORDS};
    if (!below_zero(high))
        options[0] = half(b, low, high, integer);
    if (!low->present || below_zero(low)) { /* -0 is spelt only where negative numbers are */
        qn_number_bound from = mirrored(high), to = mirrored(low);
        options[1] = qn_words_concat2(b, qn_expr_text(b, "-"), half(b, &from, &to, integer));
    }
    return qn_words_choice(b, options, 2);
}

bool qn_number_range_is_empty(const qn_number_bound *low, const qn_number_bound *high, bool integer)
{
    if (!low->present || !high->present)
        return false;
    int order = qn_decimal_compare(&low->value, &high->value);
    if (order > 0 || (order == 0 && (low->exclusive || high->exclusive)))
        return true;
    if (!integer || order == 0)
        return order == 0 && integer && !qn_decimal_is_integer(&low->value);
    if (low->value.negative != high->value.negative && low->value.count > 0 && high->value.count > 0)
        return false; /* zero is inside */
    const qn_number_bound *small = low, *large = high;
    if (low->value.negative) {
        small = high;
        large = low;
    }
    qn_decimal from = small->value, to = large->value;
    from.negative = to.negative = false;
    return !round_bound(&from, small->exclusive, true) || !round_bound(&to, large->exclusive, false) ||
           compare_magnitudes(&from, &to) > 0;
}
