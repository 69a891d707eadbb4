/* Activations rounded to BF16 and laid out in the lanes of avx512bf16.h. */
#include "kernels/x86/avx2.h"
#include "kernels/x86/avx512bf16_lanes.h"

static int is_dot_product(qn_dtype weight_dtype)
{
    return weight_dtype == QN_DTYPE_BF16 || weight_dtype == QN_DTYPE_MXFP4;
}

size_t qn_avx512bf16_packed_bytes(size_t cols, qn_dtype weight_dtype)
{
    size_t floats = qn_avx2_packed_bytes(cols, weight_dtype);
    return is_dot_product(weight_dtype) ? floats / 2 : floats;
}

/* Word l of vector j is element 4l + j. */
static void permute_group(uint16_t *group)
{
    uint16_t natural[QN_GROUP];
    memcpy(natural, group, sizeof natural);
    for (size_t j = 0; j < 4; j++)
        for (size_t l = 0; l < QN_GROUP / 4; l++)
            group[j * (QN_GROUP / 4) + l] = natural[4 * l + j];
}

void qn_avx512bf16_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype)
{
    if (!is_dot_product(weight_dtype)) {
        qn_avx2_pack(packed, x, cols, weight_dtype);
        return;
    }
    uint16_t *out = packed;
    size_t padded = qn_round_up(cols);
    qn_avx2_store_row(out, x, cols);
    memset(out + cols, 0, (padded - cols) * sizeof *out);
    if (weight_dtype == QN_DTYPE_MXFP4)
        for (size_t at = 0; at < padded; at += QN_GROUP)
            permute_group(out + at);
}
