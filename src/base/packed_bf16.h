/* BF16 in 12 bits without loss: the form that weights may take in memory (QN_DTYPE_PACKED_BF16); no file has it.
 *
 * The exponents of a row of weights cluster: a window of 15 consecutive values holds all but about one in 7,000. Sign
 * and mantissa take a byte, the exponent a 4-bit code: 0..14 count from the row's window on, 15 is the exponent 0
 * (zeros and subnormal numbers). What else there is (tiny, huge, infinite, NaN) is an exception: it stands in a side
 * list with its column, and a kernel puts it into the unpacked values before it multiplies them. So packed and unpacked
 * weights give the same bits in every product.
 *
 * A row is ceil(cols / 128) groups of 192 bytes, one linear stream; a short last group is filled with zeros. A group is
 * three lines of 64 bytes, each 32 little-endian words; word l of
 *
 *     line 0      holds the codes of elements l, 32 + l, 64 + l, 96 + l, from its low bits up
 *     line 1      belongs to the elements a = l and b = 32 + l: bits 0..6 the mantissa of a, bits 8..14 that of b,
 *                 bit 15 the sign of a, bit 7 the sign of b: masked with 0x807F it is a without its exponent, with its
 *                 bytes swapped it is b
 *     line 2      likewise belongs to 64 + l and 96 + l
 *
 * A matrix's memory, 64-byte aligned: the rows, then a side of 8 bytes per row, then the exceptions. The lists of the
 * rows lie in any order; a side tells the distance from itself to its list. So rows [first, last) of a packed matrix
 * are one as well (qn_matrix_rows), and the whole may be moved as one piece. */
#ifndef QN_BASE_PACKED_BF16_H
#define QN_BASE_PACKED_BF16_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/matrix.h"

enum {
    QN_PACKED_GROUP = 128,       /* elements */
    QN_PACKED_GROUP_BYTES = 192, /* of codes, signs and mantissas */
    QN_PACKED_MAX_COLS = 65535,
    QN_PACKED_RARE = 256 /* a matrix with more than one exception in so many elements is not packed */
};

struct qn_packed_side {
    uint32_t
        distance;   /* from this side to its first exception, in units of 4 bytes; of no meaning without exceptions */
    uint16_t count; /* of exceptions */
    uint8_t window; /* the exponent of code 0, 1..241 */
    uint8_t unused; /* 0 */
};

typedef struct qn_packed_exception {
    uint16_t col; /* ascending in a row */
    uint16_t bits;
} qn_packed_exception;

/* The exceptions of a row, side->count of them. */
static inline const qn_packed_exception *qn_packed_exceptions(const qn_packed_side *side)
{
    return (const qn_packed_exception *)side + side->distance;
}

/* Puts a row's exceptions in columns [at, at + count) to where they belong in out [count]. */
void qn_packed_put_exceptions(const qn_packed_side *side, size_t at, size_t count, uint16_t *out);

/* Bytes from one row to the next. */
size_t qn_packed_row_bytes(size_t cols);

/* Elements [at, at + count) of row `row` as BF16; `at` is a multiple of QN_PACKED_GROUP. */
void qn_packed_row_to_bf16(const qn_matrix *packed, size_t row, size_t at, size_t count, uint16_t *out);

/* Packing.
 *
 * A matrix is packed if that pays, by a rule of two parts, both told by functions below: its shape lets the packed rows
 * with their sides take at most 0.85 of the BF16 bytes (rows of 128 columns and more, unless most of a last group is
 * filling; at most 65,535 columns), and no more than one element in QN_PACKED_RARE is an exception. Each costs a kernel
 * a detour; with as many as that packed weights were still a little faster than BF16 (docs/kernels.md). */

/* The most bytes that a packed matrix of this shape takes, its exceptions included; 0: the shape does not pay. */
size_t qn_packed_bf16_most_bytes(size_t rows, size_t cols);

/* A matrix on its way. The block outlives it. */
typedef struct qn_bf16_packing {
    size_t rows, cols;
    uint8_t *data; /* the block */
    qn_packed_side *sides;
    qn_packed_exception *exceptions;
    size_t most_exceptions;
    atomic_size_t exception_count; /* met so far; more than the most: packing does not pay */
} qn_bf16_packing;

/* A shape that pays; block: 64-byte aligned, most_bytes long. Never fails. */
void qn_bf16_packing_start(qn_bf16_packing *packing, size_t rows, size_t cols, void *block);

/* Packs rows [first, last), which lie at `data`, BF16 of any alignment. Any number of threads may do this at once for
 * different rows; every row has to be packed once. False: there are too many exceptions, by now or already before, and
 * the rest need not be tried. */
bool qn_bf16_packing_rows(qn_bf16_packing *packing, size_t first, size_t last, const uint8_t *data);

/* Whether there are not too many exceptions by now; any thread. */
bool qn_bf16_packing_pays(const qn_bf16_packing *packing);

/* When all rows are done (and their threads have told so): true and the packed matrix, a view of the block's first
 * *bytes bytes; or false if that does not pay, and then the block is free again.
 * packing->exception_count tells how many exceptions there are (if false: at least). */
bool qn_bf16_packing_finish(const qn_bf16_packing *packing, qn_matrix *out, size_t *bytes);

#endif
