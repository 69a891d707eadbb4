/* Activations rounded to BF16 and laid out in the lanes of avx2.h, as float32. */
#include "kernels/x86/avx2_lanes.h"

size_t qn_avx2_packed_bytes(size_t cols, qn_dtype weight_dtype)
{
    (void)weight_dtype;
    return qn_round_up(cols) * sizeof(float);
}

/* Vectors of eight even and eight odd elements. */
static void pack_group_bf16(float *out, const float *group)
{
    for (size_t at = 0; at < QN_GROUP; at += 16) {
        __m256 low = _mm256_loadu_ps(group + at), high = _mm256_loadu_ps(group + at + 8);
        __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
        __m256d odd = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0xDD));
        _mm256_storeu_ps(out + at, _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xD8)));
        _mm256_storeu_ps(out + at + 8, _mm256_castpd_ps(_mm256_permute4x64_pd(odd, 0xD8)));
    }
}

/* Elements 4i + j of 16 share a vector for each j, so a quarter of a half is a transposed 4 x 4 square. */
static void pack_group_mxfp4(float *out, const float *group)
{
    for (size_t square = 0; square < QN_GROUP / 16; square++) {
        const float *from = group + 16 * square;
        size_t half = square / 4, block = square / 2 % 2, quarter = square % 2;
        float *to = out + half * QN_HALF + quarter * 16 + block * 4;
        __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + 4);
        __m128 c = _mm_loadu_ps(from + 8), d = _mm_loadu_ps(from + 12);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(to, a);
        _mm_storeu_ps(to + 8, c);
        _mm_storeu_ps(to + 32, b);
        _mm_storeu_ps(to + 40, d);
    }
}

void qn_avx2_pack(void *packed, const float *x, size_t cols, qn_dtype weight_dtype)
{
    float group[QN_GROUP], *out = packed;
    for (size_t at = 0; at < cols; at += QN_GROUP) {
        size_t count = cols - at < QN_GROUP ? cols - at : QN_GROUP;
        memset(group, 0, sizeof group);
        memcpy(group, x + at, count * sizeof(float));
        for (size_t i = 0; i < QN_GROUP; i += 8)
            _mm256_storeu_ps(group + i, qn_round_bf16(_mm256_loadu_ps(group + i)));
        if (weight_dtype == QN_DTYPE_BF16)
            pack_group_bf16(out + at, group);
        else if (weight_dtype == QN_DTYPE_MXFP4)
            pack_group_mxfp4(out + at, group);
        else
            memcpy(out + at, group, sizeof group);
    }
}
