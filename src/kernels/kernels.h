/* The numbers' table: one set of functions per instruction set, chosen once at run time. Knows no model.
 *
 * `scalar` is the float32 reference and yardstick: it rounds nothing. `avx2` and `avx512bf16` round what enters a
 * matrix product to BF16 once (nearest even) and keep the KV cache in BF16; sums are float32.
 *
 * One order of summation (docs/kernels.md): within a table, every result below depends only on its own inputs: not on
 * how many rows are computed together, how [first, last) is cut, alignment, or the thread (but for sign and payload of
 * a NaN, which are outside the promise). A dot product over `cols` takes the products of a 128-group in fixed lanes,
 * adds the groups in ascending order (a short last group counts as filled with zeros) and reduces the lanes in a fixed
 * way at the end. F32 and F16 weights are multiplied as such. MXFP4 blocks with scale byte 0 or 1 count as zero. Packed
 * BF16 weights (base/packed_bf16.h) give the bits of BF16 ones.
 *
 * All functions are pure, thread-safe and allocate nothing. Inputs and outputs do not overlap unless said. Memory is
 * never read or written outside of the stated ranges (tests use guard pages). */
#ifndef QN_KERNELS_KERNELS_H
#define QN_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/matrix.h"

enum {
    QN_GROUP = 128,          /* elements of a summation group */
    QN_ATTENTION_BLOCK = 64, /* selected keys that attention walks at once */
    QN_MATMUL_MAX_ROWS = 64  /* rows of one matmul call */
};

/* How an MXFP4 block gets its scale 2^(byte - 127). With E = floor(log2(largest magnitude)), the byte of the OCP MX
 * rule (v1.0, 6.3) is max(E - 2 + 127, 0).
 *
 * QN_SCALE_LEAST_ERROR takes the byte of the smallest sum over j of importance_j * (x_j - q_j)^2 of all bytes from 2 to
 * 252, q_j being x_j as rounded and scaled. The OCP byte wins ties, then the larger byte. Of larger bytes only the next
 * one can win: up to the block's largest magnitude, the values that a byte further up offers are some of those that it
 * offers. Of smaller bytes only the previous one can win where all importances are equal: one more step down costs the
 * largest value alone more (2.5^2 of the OCP scale, squared) than the other 31 can gain (0.25^2 each). Uneven
 * importance can drive the scale further down.
 * Bytes 0 and 1 are left out since they count as zero in dot products; the byte 2 is then the one tried in place of the
 * OCP byte. A block of zeros has the byte 0 in both rules. The sums are float32, in units of the OCP scale: an error
 * below about 2^-75 of it counts as none. */
typedef enum qn_scale_rule { QN_SCALE_LEAST_ERROR, QN_SCALE_OCP } qn_scale_rule;

#define QN_ALL_FINITE ((size_t)-1)

/* The weight dtype that activations are packed for: BF16 and packed BF16 weights take the same. */
static inline qn_dtype qn_activations_for(qn_dtype weight_dtype)
{
    return weight_dtype == QN_DTYPE_PACKED_BF16 ? QN_DTYPE_BF16 : weight_dtype;
}

typedef struct qn_kernels {
    const char *name;  /* as QUERN_ISA spells it */
    qn_dtype kv_dtype; /* of cached rows: F32 (scalar) or BF16 */
    bool packed_pays;  /* products of packed BF16 with a row or a few take less time than of BF16, from memory */

    /* Activations: x [cols] float32 -> the form that matmul with a weight of this dtype (not packed BF16) wants,
     * packed_bytes(cols, dtype) long (the short last group padded with zeros), 64-byte aligned. */
    size_t (*packed_bytes)(size_t cols, qn_dtype weight_dtype);
    void (*pack)(void *packed, const float *x, size_t cols, qn_dtype weight_dtype);

    /* y[r][n - first] = sum_k w[n][k] * x[r][k] for n in [first, last), r < rows, 1 <= rows <= QN_MATMUL_MAX_ROWS; x[r]
     * packed for qn_activations_for(w->dtype). */
    void (*matmul)(const qn_matrix *w, size_t first, size_t last, const void *const *x, size_t rows, float *const *y);

    /* The same with float32 activations that are not rounded in any table (router, indexer weights): x[r] [cols]. */
    void (*matmul_f32)(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                       float *const *y);

    /* y[r][c] = sum over n in [first, last), ascending, of x[r][n - first] * w[n][c], c < w->cols: the transposed
     * product of absorbed MLA (q_nope W_k). w is BF16, packed BF16, F16 or F32; x is rounded as matmul's. */
    void (*matmul_transposed)(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                              float *const *y);

    /* A cached row: `count` float32 -> kv_dtype. */
    void (*store_row)(void *row, const float *x, size_t count);

    /* Absorbed MLA for one query over its selected keys in ascending position: for each head
     *     p = softmax_i(scale * q . keys[i]),  out = sum_i p_i * keys[i][0 .. latent)
     * keys[i] -> [latent + rope] of kv_dtype; q [heads, latent + rope] and out [heads, latent] float32. The list is
     * walked in blocks of QN_ATTENTION_BLOCK, merged in order (online softmax). key_count >= 1. `scratch` is
     * attend_scratch_bytes(heads, latent, rope) long (0 in the reference), 64-byte aligned. A head's result does not
     * depend on the others.
     */
    size_t (*attend_scratch_bytes)(size_t heads, size_t latent, size_t rope);
    void (*attend)(float *out, const float *q, size_t heads, size_t latent, size_t rope, float scale,
                   const void *const *keys, size_t key_count, void *scratch);

    /* DSA indexer: the scores of any number of queries over the same keys, each of which is read once for all:
     *     scores[t][i] = sum_h weights[t][h] * relu(dim^-1/2 * q[t][h] . keys[i]), heads ascending
     * keys: key_count contiguous rows [dim] of kv_dtype; weights[t] [heads] float32; q[t]: [heads, dim] float32 as
     * index_pack made it (rounded as matmul's), index_packed_bytes(heads, dim) long. Packed queries and `scratch`,
     * index_scratch_bytes(dim) long (0 in the reference), are 64-byte aligned. */
    size_t (*index_packed_bytes)(size_t heads, size_t dim);
    size_t (*index_scratch_bytes)(size_t dim);
    void (*index_pack)(void *packed, const float *q, size_t heads, size_t dim);
    void (*index_scores)(float *const *scores, const void *const *q, const float *const *weights, size_t queries,
                         size_t heads, size_t dim, const void *keys, size_t key_count, void *scratch);

    /* out[i] = x[i] * rsqrt(mean(x^2) + eps) * weight[i]; out may be x. */
    void (*rms_norm)(float *out, const float *x, const float *weight, size_t count, float eps);
    /* out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]; out may be gate or up. */
    void (*silu_multiply)(float *out, const float *gate, const float *up, size_t count);
    /* y[i] += a * x[i], fused. */
    void (*axpy)(float *y, float a, const float *x, size_t count);

    /* MXFP4 encoder: x [blocks * 32] float32 -> codes [blocks * 16] (E2M1, the low nibble is the even element) and
     * scales [blocks]. Elements are rounded to nearest, ties to the even code, saturating at 6 times the scale; zeros
     * keep their sign. importance [blocks * 32] weighs the squared errors (see qn_scale_rule): finite, >= 0, largest of
     * a block below 2^100; NULL: all equal. Only ratios within a block matter, as long as none of the products
     * underflows. QN_SCALE_OCP does not read it.
     * Returns QN_ALL_FINITE, or the index in x of the first NaN or infinity: nothing of its block and of those behind
     * it is written then. Every table gives the same bits. */
    size_t (*quantise_mxfp4)(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                             qn_scale_rule rule);
} qn_kernels;

/* All tables of this build, best first, scalar last; `supported`: this CPU can run it. */
const qn_kernels *const *qn_kernels_all(size_t *count);
bool qn_kernels_supported(const qn_kernels *kernels);

/* The table by name, or the best supported one for NULL. Unknown or unsupported names are errors that list what there
 * is. */
qn_status qn_kernels_select(const char *name, const qn_kernels **out, qn_error *err);

/* qn_kernels_select with the environment's QUERN_ISA. */
qn_status qn_kernels_from_environment(const qn_kernels **out, qn_error *err);

#endif
