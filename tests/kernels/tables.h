/* The kernel tables under test: those of the build that this CPU runs, and the AVX-512 one compiled through SIMDe, so
 * that its arithmetic is tested on machines without the instructions. */
#ifndef TESTS_KERNELS_TABLES_H
#define TESTS_KERNELS_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"
#include "kernels/x86/avx512bf16.h"

typedef struct tested_table {
    const qn_kernels *kernels;
    const char *name;                   /* "avx512bf16-emulated" for the emulated one */
    void (*set_form)(qn_dot_form form); /* NULL where there is one form only */
} tested_table;

enum { TESTED_TABLES_MAX = 8 };

/* Fills out, scalar first, and returns the number. */
size_t tested_tables(tested_table out[TESTED_TABLES_MAX]);

/* Prints which table runs natively, emulated, or not at all. */
void print_tested_tables(void);

/* An activation row as a matmul of this table takes it, in guarded memory. */
const void *packed_row(const qn_kernels *kernels, const float *x, size_t cols, qn_dtype weight_dtype);

/* Whether the table rounds activations to BF16. */
bool rounds_activations(const qn_kernels *kernels);

/* Largest |a - b| allowed between two float32 sums of `terms` products whose absolute values add up to `magnitude`. */
float sum_tolerance(size_t terms, double magnitude);

#endif
