/* The AVX-512 table: BF16 x BF16 products by vdpbf16ps, which adds two products to each of 16 float32 sums, or with the
 * same bits by FMAs where these are faster. Subnormal operands and results of products with BF16 and MXFP4 weights
 * count as zero in both.
 *
 * Lanes. A 128-group has 16 lanes, one register: four vdpbf16ps from zero, whose result is then added to the row's own
 * register; the 16 lanes are reduced once, at the end. Which elements lie in lane i:
 *
 *     BF16    of vector j = 0..3:  elements 32j + 2i and 32j + 2i + 1, as they lie in memory (packed: the same)
 *     MXFP4   of vector j = 0..3:  elements 8i + j and 8i + 4 + j
 *
 * The 64 bytes of an MXFP4 group, as 32 words, hold elements 4l .. 4l + 3 in word l, so words shifted right by 4j are
 * indexes of vector j's elements: vpermw looks at five bits only, and its table of 32 repeats the 16 values. Lanes
 * 4b .. 4b + 3 then belong to scale block b, and the group's four scales, spread over the lanes, enter with the one FMA
 * that adds the group to the row: exactly, since they are powers of two. Activations are permuted once, by pack.
 *
 * Attention's and the indexer's scores have one lane: avx512bf16_cross.h.
 *
 * What isn't such a product (norms, rows of the cache, F16 and F32 weights, unrounded activations) is taken from the
 * AVX2 table: it waits for memory or is small. The transposed product is the AVX2 table's, with wider registers. */
#ifndef QN_KERNELS_X86_AVX512BF16_H
#define QN_KERNELS_X86_AVX512BF16_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_avx512bf16;

size_t qn_avx512bf16_packed_bytes(size_t cols, qn_dtype weight_dtype);
void qn_avx512bf16_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype);
void qn_avx512bf16_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows,
                          float *const *y);

void qn_avx512bf16_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                                     float *const *y);

/* qn_avx512bf16_matmul of packed BF16 weights, which calls this with subnormal numbers flushed. */
void qn_avx512bf16_packed_matmul(const qn_matrix *w, size_t first, size_t last, const uint8_t *const *x, size_t rows,
                                 float *const *y);

/* How BF16 pairs are multiplied where there is a choice: by vdpbf16ps, or by two FMAs of widened operands
 * (avx512bf16_cross.h). At the first call, in a fifth of a millisecond, the faster one is found out; FMAs are taken
 * only if this CPU's vdpbf16ps gives the same bits in 16,384 hard cases, so that no result depends on the choice. */
typedef enum qn_dot_form { QN_FORM_UNKNOWN, QN_FORM_PAIRS, QN_FORM_WIDE } qn_dot_form;
qn_dot_form qn_avx512bf16_form(void);
/* For tests: while nothing else runs, and not between index_pack and index_scores. */
void qn_avx512bf16_set_form(qn_dot_form form);

/* Whether this CPU's vdpbf16ps gives the bits of the two FMAs. Where it does not, QN_FORM_PAIRS is always taken. */
bool qn_avx512bf16_forms_agree(void);

size_t qn_avx512bf16_attend_scratch_bytes(size_t heads, size_t latent, size_t rope);
void qn_avx512bf16_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                          const void *const *keys, size_t key_count, void *scratch);
size_t qn_avx512bf16_index_packed_bytes(size_t heads, size_t dim);
size_t qn_avx512bf16_index_scratch_bytes(size_t dim);
void qn_avx512bf16_index_pack(void *packed, const float *q, size_t heads, size_t dim);
void qn_avx512bf16_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                                size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch);

#endif
