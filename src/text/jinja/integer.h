/* Integers beyond 64 bits: sign and magnitude, at most QN_INTEGER_BITS bits.
 *
 * Python's integers have no bound; the few templates that leave 64 bits stay far below this one. Plain values: every
 * function writes into the caller's struct; results may be the same struct as an operand. */
#ifndef QN_TEXT_JINJA_INTEGER_H
#define QN_TEXT_JINJA_INTEGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QN_INTEGER_BITS = 4096,
    QN_INTEGER_LIMBS = QN_INTEGER_BITS / 32 + 4,      /* room for a shifted dividend */
    QN_INTEGER_DIGITS = QN_INTEGER_BITS * 302 / 1000, /* at least the decimal digits it takes */
    QN_INTEGER_TEXT_BYTES = QN_INTEGER_BITS + 8       /* any base, sign and NUL */
};

typedef struct qn_integer {
    bool negative;  /* never for zero */
    uint32_t count; /* limbs in use; the last one is not 0; zero has none */
    uint32_t limbs[QN_INTEGER_LIMBS];
} qn_integer;

void qn_integer_set(qn_integer *out, int64_t value);
bool qn_integer_fits(const qn_integer *a, int64_t *out); /* false: beyond int64_t */
size_t qn_integer_bits(const qn_integer *a);             /* bits of the magnitude */
int qn_integer_compare(const qn_integer *a, const qn_integer *b);

/* False: the result is beyond QN_INTEGER_BITS. */
bool qn_integer_add(const qn_integer *a, const qn_integer *b, qn_integer *out);
bool qn_integer_subtract(const qn_integer *a, const qn_integer *b, qn_integer *out);
bool qn_integer_multiply(const qn_integer *a, const qn_integer *b, qn_integer *out);
bool qn_integer_power(const qn_integer *a, uint64_t exponent, qn_integer *out);

/* Python's // and %: the quotient rounded down, the remainder with the divisor's sign. b is not zero. */
void qn_integer_divide(const qn_integer *a, const qn_integer *b, qn_integer *quotient, qn_integer *remainder);

/* a / b correctly rounded; infinite when beyond a double's range. b is not zero. */
double qn_integer_ratio(const qn_integer *a, const qn_integer *b);
double qn_integer_to_double(const qn_integer *a);           /* correctly rounded, or infinite */
bool qn_integer_from_double(double value, qn_integer *out); /* truncates a finite value; false: too large */

/* Digits of base 2..36, without sign or prefix, all valid. False: too large. */
bool qn_integer_parse(const char *digits, size_t count, unsigned base, qn_integer *out);

/* Writes sign, digits (lower case) and a NUL; returns the length. */
size_t qn_integer_format(const qn_integer *a, unsigned base, char out[QN_INTEGER_TEXT_BYTES]);

#endif
