/* The AVX2 + FMA + F16C table: activations rounded to BF16 but held as float32, all products by float32 FMA.
 *
 * Lanes. A 128-group has 16 lanes, two registers of eight: the first register takes the first half of the group (64
 * elements as eight vectors, one FMA each, from zero), the second register the second half. Each register's sum is
 * then added to the row's own accumulator register; the 16 lanes are reduced once, at the end. Which element lies in
 * which lane depends on the weights' dtype, so that unpacking is cheapest (i: lane 0..7 of a half):
 *
 *     F32, F16; all of matmul_f32 and attention
 *                        vector j:            element 8j + i
 *     BF16 (packed too)  vectors 2j, 2j + 1:  elements 16j + 2i and 16j + 2i + 1 (low and high words of a dword)
 *     MXFP4              lanes 0..3 belong to the half's first scale block, 4..7 to its second; vectors 0..7 are, with
 *                        i = lane mod 4, elements 4i, 4i + 2, 16 + 4i, 18 + 4i, 4i + 1, 4i + 3, 17 + 4i, 19 + 4i
 *
 * qn_avx2_pack lays activations out to match. MXFP4 sums are of unscaled values; the scales enter with the one FMA that
 * adds a half's sum to the row, exactly, since they are powers of two. */
#ifndef QN_KERNELS_X86_AVX2_H
#define QN_KERNELS_X86_AVX2_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_avx2;

size_t qn_avx2_packed_bytes(size_t cols, qn_dtype weight_dtype);
void qn_avx2_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype);
void qn_avx2_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows, float *const *y);
void qn_avx2_matmul_f32(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                        float *const *y);
void qn_avx2_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                               float *const *y);

/* Elements [at, at + count) of row n of packed BF16 as BF16, `at` the start of a group; out has room for whole groups.
 */
void qn_avx2_packed_to_bf16(const qn_matrix *w, size_t n, size_t at, size_t count, uint16_t *out);

void qn_avx2_store_row(void *row, const float *x, size_t count);
size_t qn_avx2_attend_scratch_bytes(size_t heads, size_t latent, size_t rope);
void qn_avx2_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                    const void *const *keys, size_t key_count, void *scratch);
size_t qn_avx2_index_packed_bytes(size_t heads, size_t dim);
size_t qn_avx2_index_scratch_bytes(size_t dim);
void qn_avx2_index_pack(void *packed, const float *q, size_t heads, size_t dim);
void qn_avx2_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                          size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch);

void qn_avx2_rms_norm(float *out, const float *x, const float *weight, size_t count, float eps);
void qn_avx2_silu_multiply(float *out, const float *gate, const float *up, size_t count);
void qn_avx2_axpy(float *y, float a, const float *x, size_t count);

size_t qn_avx2_quantise_mxfp4(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                              qn_scale_rule rule);

#endif
