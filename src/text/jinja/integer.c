/* Schoolbook arithmetic on 32-bit limbs, least significant first: numbers here have a hundred limbs at most. */
#include "text/jinja/integer.h"

#include <math.h>
#include <string.h>

enum { BOUND_LIMBS = QN_INTEGER_BITS / 32 };

static void trim(qn_integer *a)
{
    while (a->count > 0 && a->limbs[a->count - 1] == 0)
        --a->count;
    if (a->count == 0)
        a->negative = false;
}

void qn_integer_set(qn_integer *out, int64_t value)
{
    uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    out->negative = value < 0;
    out->count = 2;
    out->limbs[0] = (uint32_t)magnitude;
    out->limbs[1] = (uint32_t)(magnitude >> 32);
    trim(out);
}

bool qn_integer_fits(const qn_integer *a, int64_t *out)
{
    if (a->count > 2)
        return false;
    uint64_t magnitude = 0;
    for (uint32_t i = 0; i < a->count; ++i)
        magnitude |= (uint64_t)a->limbs[i] << (32 * i);
    if (magnitude > (uint64_t)INT64_MAX + a->negative)
        return false;
    *out = a->negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

size_t qn_integer_bits(const qn_integer *a)
{
    if (a->count == 0)
        return 0;
    return 32 * (size_t)a->count - (size_t)__builtin_clz(a->limbs[a->count - 1]);
}

static int compare_magnitudes(const qn_integer *a, const qn_integer *b)
{
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    for (uint32_t i = a->count; i-- > 0;) {
        if (a->limbs[i] != b->limbs[i])
            return a->limbs[i] < b->limbs[i] ? -1 : 1;
    }
    return 0;
}

int qn_integer_compare(const qn_integer *a, const qn_integer *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

/* |a| + |b|; at most one limb longer than the longer one. */
static void add_magnitudes(const qn_integer *a, const qn_integer *b, qn_integer *out)
{
    uint32_t count = a->count > b->count ? a->count : b->count;
    uint64_t carry = 0;
    for (uint32_t i = 0; i < count; ++i) {
        carry += (i < a->count ? a->limbs[i] : 0);
        carry += (i < b->count ? b->limbs[i] : 0);
        out->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    out->limbs[count] = (uint32_t)carry;
    out->count = count + 1;
}

/* |a| - |b| where |a| >= |b|. */
static void subtract_magnitudes(const qn_integer *a, const qn_integer *b, qn_integer *out)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->count; ++i) {
        uint64_t take = (i < b->count ? b->limbs[i] : 0) + borrow;
        borrow = a->limbs[i] < take;
        out->limbs[i] = (uint32_t)(a->limbs[i] - take);
    }
    out->count = a->count;
}

static bool add_signed(const qn_integer *a, const qn_integer *b, bool b_negative, qn_integer *out)
{
    bool negative = a->negative;
    if (a->negative == b_negative) {
        add_magnitudes(a, b, out);
    } else if (compare_magnitudes(a, b) >= 0) {
        subtract_magnitudes(a, b, out);
    } else {
        subtract_magnitudes(b, a, out);
        negative = b_negative;
    }
    out->negative = negative;
    trim(out);
    return out->count <= BOUND_LIMBS;
}

bool qn_integer_add(const qn_integer *a, const qn_integer *b, qn_integer *out)
{
    return add_signed(a, b, b->negative, out);
}

bool qn_integer_subtract(const qn_integer *a, const qn_integer *b, qn_integer *out)
{
    return add_signed(a, b, !b->negative, out);
}

bool qn_integer_multiply(const qn_integer *a, const qn_integer *b, qn_integer *out)
{
    if (a->count + b->count > BOUND_LIMBS + 1)
        return false;
    qn_integer product = {.negative = a->negative != b->negative, .count = a->count + b->count};
    for (uint32_t i = 0; i < a->count; ++i) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->count; ++j) {
            carry += (uint64_t)a->limbs[i] * b->limbs[j] + product.limbs[i + j];
            product.limbs[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product.limbs[i + b->count] = (uint32_t)carry;
    }
    trim(&product);
    *out = product;
    return product.count <= BOUND_LIMBS;
}

bool qn_integer_power(const qn_integer *a, uint64_t exponent, qn_integer *out)
{
    qn_integer base = *a, power;
    qn_integer_set(&power, 1);
    while (exponent > 0) {
        if ((exponent & 1) && !qn_integer_multiply(&power, &base, &power))
            return false;
        exponent >>= 1;
        /* A base that grows without bound has |base| > 1, so that the loop ends here early. */
        if (exponent > 0 && !qn_integer_multiply(&base, &base, &base))
            return false;
    }
    *out = power;
    return true;
}

/* Divides |a| by one limb; returns the remainder. */
static uint32_t divide_small(const qn_integer *a, uint32_t divisor, qn_integer *quotient)
{
    uint64_t rest = 0;
    uint32_t count = a->count;
    for (uint32_t i = count; i-- > 0;) {
        rest = rest << 32 | a->limbs[i];
        quotient->limbs[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    quotient->count = count;
    trim(quotient);
    return (uint32_t)rest;
}

static void shift_left(const qn_integer *a, size_t bits, qn_integer *out)
{
    size_t limbs = bits / 32, rest = bits % 32;
    qn_integer shifted = {.negative = a->negative, .count = a->count + (uint32_t)limbs + 1};
    for (uint32_t i = 0; i < a->count; ++i) {
        uint64_t wide = (uint64_t)a->limbs[i] << rest;
        shifted.limbs[i + limbs] |= (uint32_t)wide;
        shifted.limbs[i + limbs + 1] = (uint32_t)(wide >> 32);
    }
    trim(&shifted);
    *out = shifted;
}

/* |a| / |b| by shifting and subtracting limb-wise estimates: Knuth's algorithm D (TAOCP 4.3.1). */
static void divide_magnitudes(const qn_integer *a, const qn_integer *b, qn_integer *quotient, qn_integer *remainder)
{
    if (compare_magnitudes(a, b) < 0) {
        qn_integer rest = *a;
        qn_integer_set(quotient, 0);
        *remainder = rest;
        return;
    }
    if (b->count == 1) {
        uint32_t rest = divide_small(a, b->limbs[0], quotient);
        qn_integer_set(remainder, rest);
        return;
    }
    size_t shift = (size_t)__builtin_clz(b->limbs[b->count - 1]);
    qn_integer u, v, q = {.count = a->count - b->count + 1};
    shift_left(a, shift, &u);
    shift_left(b, shift, &v);
    while (u.count <= a->count) /* D1: a digit in front, which may be 0 */
        u.limbs[u.count++] = 0;
    uint32_t n = v.count;
    for (uint32_t j = q.count; j-- > 0;) {
        uint64_t top = (uint64_t)u.limbs[j + n] << 32 | u.limbs[j + n - 1];
        uint64_t digit = top / v.limbs[n - 1], rest = top % v.limbs[n - 1];
        while (digit >> 32 || digit * v.limbs[n - 2] > (rest << 32 | u.limbs[j + n - 2])) {
            --digit;
            rest += v.limbs[n - 1];
            if (rest >> 32)
                break;
        }
        int64_t borrow = 0;
        uint64_t carry = 0;
        for (uint32_t i = 0; i < n; ++i) {
            carry += digit * v.limbs[i];
            int64_t limb = (int64_t)u.limbs[i + j] - (int64_t)(uint32_t)carry - borrow;
            u.limbs[i + j] = (uint32_t)limb;
            borrow = limb < 0;
            carry >>= 32;
        }
        int64_t limb = (int64_t)u.limbs[j + n] - (int64_t)carry - borrow;
        u.limbs[j + n] = (uint32_t)limb;
        if (limb < 0) { /* D6: the estimate was one too high */
            --digit;
            carry = 0;
            for (uint32_t i = 0; i < n; ++i) {
                carry += (uint64_t)u.limbs[i + j] + v.limbs[i];
                u.limbs[i + j] = (uint32_t)carry;
                carry >>= 32;
            }
            u.limbs[j + n] += (uint32_t)carry;
        }
        q.limbs[j] = (uint32_t)digit;
    }
    trim(&q);
    /* D8: undo the shift. */
    u.count = n;
    for (uint32_t i = 0; i < n; ++i) {
        uint64_t wide = (uint64_t)u.limbs[i] | (i + 1 < n ? (uint64_t)u.limbs[i + 1] << 32 : 0);
        u.limbs[i] = (uint32_t)(wide >> shift);
    }
    u.negative = false;
    trim(&u);
    *quotient = q;
    *remainder = u;
}

void qn_integer_divide(const qn_integer *a, const qn_integer *b, qn_integer *quotient, qn_integer *remainder)
{
    bool signs_differ = a->negative != b->negative;
    qn_integer divisor = *b, q, rest;
    divide_magnitudes(a, b, &q, &rest);
    q.negative = signs_differ && q.count > 0;
    rest.negative = divisor.negative && rest.count > 0;
    if (signs_differ && rest.count > 0) {
        qn_integer one;
        qn_integer_set(&one, 1);
        q.negative = true;
        add_signed(&q, &one, true, &q);
        /* The remainder's magnitude is |b| - |rest|. */
        qn_integer magnitude = divisor;
        subtract_magnitudes(&divisor, &rest, &magnitude);
        magnitude.negative = divisor.negative;
        trim(&magnitude);
        rest = magnitude;
    }
    *quotient = q;
    *remainder = rest;
}

/* The top 64 bits of |a| as a number, the lowest bit set when anything below was cut (so that one rounding to a double
 * is the right one), and by how many bits it was scaled down. */
static uint64_t top_bits(const qn_integer *a, int *scale)
{
    size_t bits = qn_integer_bits(a);
    if (bits <= 64) {
        *scale = 0;
        return (a->count > 1 ? (uint64_t)a->limbs[1] << 32 : 0) | (a->count > 0 ? a->limbs[0] : 0);
    }
    size_t drop = bits - 64, limb = drop / 32, rest = drop % 32;
    uint64_t top = 0;
    bool sticky = (a->limbs[limb] & (((uint32_t)1 << rest) - 1)) != 0;
    for (size_t i = 0; i < limb; ++i)
        sticky = sticky || a->limbs[i] != 0;
    for (size_t i = 0; i < 3 && limb + i < a->count; ++i) {
        size_t at = 32 * i;
        uint64_t value = a->limbs[limb + i];
        top |= at >= rest ? value << (at - rest) : value >> (rest - at);
    }
    *scale = (int)drop;
    return top | sticky;
}

double qn_integer_to_double(const qn_integer *a)
{
    int scale;
    uint64_t top = top_bits(a, &scale);
    double value = ldexp((double)top, scale);
    return a->negative ? -value : value;
}

double qn_integer_ratio(const qn_integer *a, const qn_integer *b)
{
    /* A quotient of 64 to 66 bits and a sticky remainder round once, to the right double. */
    int shift = 65 + (int)qn_integer_bits(b) - (int)qn_integer_bits(a), scale;
    qn_integer x = *a, y = *b, q, rest;
    x.negative = y.negative = false;
    if (shift > 0 && shift + (int)qn_integer_bits(&x) > 32 * (QN_INTEGER_LIMBS - 1))
        return 0.0;
    if (shift > 0)
        shift_left(&x, (size_t)shift, &x);
    else
        shift = 0;
    divide_magnitudes(&x, &y, &q, &rest);
    uint64_t top = top_bits(&q, &scale);
    double value = ldexp((double)(top | (rest.count > 0)), scale - shift);
    return a->negative != b->negative ? -value : value;
}

bool qn_integer_from_double(double value, qn_integer *out)
{
    int exponent;
    double fraction = frexp(fabs(trunc(value)), &exponent);
    if (exponent > QN_INTEGER_BITS)
        return false;
    qn_integer_set(out, 0);
    if (exponent <= 0)
        return true;
    int64_t mantissa = (int64_t)ldexp(fraction, 53);
    if (exponent < 53)
        mantissa >>= 53 - exponent;
    qn_integer_set(out, mantissa);
    if (exponent > 53)
        shift_left(out, (size_t)exponent - 53, out);
    out->negative = value < 0 && out->count > 0;
    return true;
}

bool qn_integer_parse(const char *digits, size_t count, unsigned base, qn_integer *out)
{
    qn_integer value = {0};
    for (size_t i = 0; i < count; ++i) {
        char c = digits[i];
        unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
        uint64_t carry = digit;
        for (uint32_t j = 0; j < value.count; ++j) {
            carry += (uint64_t)value.limbs[j] * base;
            value.limbs[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry) {
            if (value.count == BOUND_LIMBS)
                return false;
            value.limbs[value.count++] = (uint32_t)carry;
        }
    }
    *out = value;
    return true;
}

size_t qn_integer_format(const qn_integer *a, unsigned base, char out[QN_INTEGER_TEXT_BYTES])
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char reversed[QN_INTEGER_TEXT_BYTES];
    size_t count = 0, at = 0;
    qn_integer rest = *a;
    do
        reversed[count++] = letters[divide_small(&rest, base, &rest)];
    while (rest.count > 0);
    if (a->negative)
        out[at++] = '-';
    while (count > 0)
        out[at++] = reversed[--count];
    out[at] = '\0';
    return at;
}
