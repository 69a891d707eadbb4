/* The scalar float32 reference: the yardstick of the other tables. It rounds nothing to BF16 and is plain C.
 *
 * Lanes: a 128-group has 32 lanes; lane l takes elements l, l + 32, l + 64, l + 96 in that order. 32 explicit partial
 * sums let a compiler use vector registers without leave to reorder anything. */
#ifndef QN_KERNELS_REF_REF_H
#define QN_KERNELS_REF_REF_H

#include "kernels/kernels.h"

extern const qn_kernels qn_kernels_scalar;

enum { QN_REF_LANES = 32 };

/* lanes[l] += the products of lane l of one group of count <= QN_GROUP elements. */
void qn_ref_add_group(float lanes[QN_REF_LANES], const float *w, const float *x, size_t count);

/* The fixed reduction: halves are added until one is left. Destroys lanes. */
float qn_ref_reduce(float lanes[QN_REF_LANES]);

/* Dot product of float32 vectors in the canonical order. */
float qn_ref_dot(const float *w, const float *x, size_t count);

/* Elements [at, at + count) of row n as dot products see them; of MXFP4, at and count are multiples of a block; of
 * packed BF16, at is a multiple of a group. */
void qn_ref_widen(float *out, const qn_matrix *w, size_t n, size_t at, size_t count);

size_t qn_ref_packed_bytes(size_t cols, qn_dtype weight_dtype);
void qn_ref_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype);
void qn_ref_matmul(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows, float *const *y);
void qn_ref_matmul_f32(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                       float *const *y);
void qn_ref_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                              float *const *y);

void qn_ref_store_row(void *row, const float *x, size_t count);
size_t qn_ref_attend_scratch_bytes(size_t heads, size_t latent, size_t rope);
void qn_ref_attend(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                   const void *const *keys, size_t key_count, void *scratch);
size_t qn_ref_index_packed_bytes(size_t heads, size_t dim);
size_t qn_ref_index_scratch_bytes(size_t dim);
void qn_ref_index_pack(void *packed, const float *q, size_t heads, size_t dim);
void qn_ref_index_scores(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                         size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch);

void qn_ref_rms_norm(float *out, const float *x, const float *weight, size_t count, float eps);
void qn_ref_silu_multiply(float *out, const float *gate, const float *up, size_t count);
void qn_ref_axpy(float *y, float a, const float *x, size_t count);

size_t qn_ref_quantise_mxfp4(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                             qn_scale_rule rule);

#endif
