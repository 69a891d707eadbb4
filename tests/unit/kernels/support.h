/* What the kernel tests share: seeds, random numbers, memory between guard pages, random weight matrices. */
#ifndef TESTS_UNIT_KERNELS_SUPPORT_H
#define TESTS_UNIT_KERNELS_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/matrix.h"

/* The seed of this run: QUERN_TEST_SEED or a fresh one; printed once, so that a failure can be repeated. */
uint64_t test_seed(void);

typedef struct random_state {
    uint64_t state;
} random_state;

random_state random_start(void); /* from test_seed() */
uint64_t random_bits(random_state *random);
size_t random_below(random_state *random, size_t limit);
float random_float(random_state *random);  /* uniform in [-1, 1) */
float random_normal(random_state *random); /* mean 0, variance 1 */

/* `bytes` between two inaccessible pages, flush with the second one (`at_end`) or with the first: a touch outside
 * faults. The memory is filled with 0xA5. At most GUARDED_MAX live blocks; all are released by guarded_release_all.
 * A block at the end is as unaligned as its size. */
void *guarded(size_t bytes, int at_end);
void guarded_release_all(void);

/* x rounded to BF16 and back. */
float bf16_round(float x);

/* A random matrix in guarded memory, `offset` bytes from an aligned start or flush with the end for offset 0. Values
 * are about normal; MXFP4 codes are uniform, scales around 127. */
qn_matrix random_matrix(random_state *random, qn_dtype dtype, size_t rows, size_t cols, size_t offset);

/* Row n as the dot products see it: float32, blocks of scale byte 0 or 1 zero. */
void matrix_row(const qn_matrix *w, size_t n, float *out);

#endif
