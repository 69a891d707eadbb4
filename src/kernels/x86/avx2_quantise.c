/* The MXFP4 encoder: a block is four registers, and its candidates are tried side by side in the units, the lanes and
 * the order of the reference.
 *
 * Rounding to E2M1. Let x >= 0 lie in a binade of exponent e, raised to `step` where it is below (the elements below
 * the scale are evenly spaced). The elements around it are 2^(e-1) apart, which is the last place of a float32 between
 * 2^(e+22) and 2^(e+23): adding 2^(e+22) and taking it away again rounds x as wanted, with ties to the even multiple,
 * and those are the even codes. The code itself stands in the last bits of the sum. */
#include "kernels/x86/avx2_lanes.h"

enum { QN_LEAST_BYTE = 2, QN_LARGEST_BYTE = 252, QN_LOWEST_STEP = -100, QN_INFINITE_BITS = 0x7f800000 };

/* A block in units of its OCP scale. */
typedef struct qn_block {
    __m256 magnitude[4], importance[4];
    __m256i binade[4]; /* exponent bits of the magnitudes */
    int byte;          /* of the OCP scale, or the least one allowed */
} qn_block;

/* A candidate scale, 2^step. */
typedef struct qn_candidate {
    __m256i binade; /* exponent bits of the scale */
    __m256 largest; /* six times the scale */
} qn_candidate;

QN_INLINE qn_candidate qn_candidate_at(int step)
{
    __m256i binade = _mm256_set1_epi32((127 + step) << 23);
    return (qn_candidate){binade, _mm256_mul_ps(_mm256_castsi256_ps(binade), _mm256_set1_ps(6.0f))};
}

/* 2^(e+22) of each magnitude. */
QN_INLINE __m256 qn_magic(__m256i binade, __m256i least)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_max_epi32(binade, least), _mm256_set1_epi32(22 << 23)));
}

/* Lanes of the sum of errors. */
QN_INLINE __m256 qn_candidate_errors(const qn_block *block, qn_candidate candidate, const int weighted)
{
    __m256 sums = _mm256_setzero_ps();
    for (int v = 0; v < 4; v++) {
        __m256 magic = qn_magic(block->binade[v], candidate.binade);
        __m256 rounded = _mm256_sub_ps(_mm256_add_ps(block->magnitude[v], magic), magic);
        __m256 error = _mm256_sub_ps(block->magnitude[v], _mm256_min_ps(rounded, candidate.largest));
        __m256 scaled = weighted ? _mm256_mul_ps(error, block->importance[v]) : error;
        sums = _mm256_fmadd_ps(scaled, error, sums);
    }
    return sums;
}

QN_INLINE __m256 qn_saturation_errors(const qn_block *block, qn_candidate candidate)
{
    __m256 sums = _mm256_setzero_ps();
    for (int v = 0; v < 4; v++) {
        __m256 error = _mm256_max_ps(_mm256_sub_ps(block->magnitude[v], candidate.largest), _mm256_setzero_ps());
        sums = _mm256_fmadd_ps(_mm256_mul_ps(error, block->importance[v]), error, sums);
    }
    return sums;
}

/* Four sums at once, each reduced l with l + 4, then (0 + 1) + (2 + 3). */
QN_INLINE __m128 qn_reduce_errors(__m256 a, __m256 b, __m256 c, __m256 d)
{
    __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c, d, 0x20), _mm256_permute2f128_ps(c, d, 0x31));
    __m256 pairs = _mm256_hadd_ps(ab, cd); /* a01 a23 c01 c23 | b01 b23 d01 d23 */
    __m128 low = _mm256_castps256_ps128(pairs), high = _mm256_extractf128_ps(pairs, 1);
    return _mm_hadd_ps(low, high); /* a c b d */
}

/* The steps below -1, which win only where importance is uneven. */
static int qn_search_below(const qn_block *block, int best, float least)
{
    __m256 none = _mm256_setzero_ps();
    for (int step = -2; step >= QN_LOWEST_STEP && block->byte + step >= QN_LEAST_BYTE; step--) {
        qn_candidate candidate = qn_candidate_at(step);
        __m128 errors = qn_reduce_errors(qn_saturation_errors(block, candidate), none,
                                         qn_candidate_errors(block, candidate, 1), none);
        if (!(_mm_cvtss_f32(errors) < least))
            break;
        float error = _mm_cvtss_f32(_mm_movehdup_ps(errors));
        if (error < least) {
            least = error;
            best = step;
        }
    }
    return best;
}

/* Errors of the steps 0, -1, 1, and of saturation at -2. */
QN_INLINE int qn_least_error_step(const qn_block *block, const int weighted)
{
    __m256 below = _mm256_setzero_ps();
    if (weighted)
        below = qn_saturation_errors(block, qn_candidate_at(-2));
    __m128 errors = qn_reduce_errors(qn_candidate_errors(block, qn_candidate_at(0), weighted),
                                     qn_candidate_errors(block, qn_candidate_at(1), weighted),
                                     qn_candidate_errors(block, qn_candidate_at(-1), weighted), below);
    float error[4];
    _mm_storeu_ps(error, errors);
    int best = 0;
    float least = error[0];
    if (error[2] < least && block->byte + 1 <= QN_LARGEST_BYTE) {
        least = error[2];
        best = 1;
    }
    if (error[1] < least && block->byte - 1 >= QN_LEAST_BYTE) {
        least = error[1];
        best = -1;
    }
    return weighted && error[3] < least ? qn_search_below(block, best, least) : best;
}

/* The codes of eight elements, one in each dword. */
QN_INLINE __m256i qn_element_codes(__m256 x, __m256 magnitude, __m256i binade, __m256i scale)
{
    __m256 magic = qn_magic(binade, scale);
    __m256i sum = _mm256_castps_si256(_mm256_add_ps(magnitude, magic));
    __m256i multiple = _mm256_sub_epi32(sum, _mm256_castps_si256(magic));
    __m256i steps = _mm256_srli_epi32(_mm256_sub_epi32(_mm256_max_epi32(binade, scale), scale), 22);
    __m256i code = _mm256_min_epi32(_mm256_add_epi32(multiple, steps), _mm256_set1_epi32(7));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 28), _mm256_set1_epi32(8));
    return _mm256_or_si256(code, sign);
}

QN_INLINE void qn_encode(uint8_t *codes, const qn_block *block, const float *x, int step)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i scale = _mm256_set1_epi32((127 + step) << 23), lanes[4];
    for (int v = 0; v < 4; v++)
        lanes[v] = qn_element_codes(_mm256_loadu_ps(x + 8 * v), block->magnitude[v], block->binade[v], scale);
    __m256i words = _mm256_packs_epi32(lanes[0], lanes[1]), more = _mm256_packs_epi32(lanes[2], lanes[3]);
    __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, more), order);
    __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001)); /* even + 16 * odd */
    __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128((__m128i *)(void *)codes, packed);
}

/* The bits of the largest magnitude; NaN and infinity have the largest. */
QN_INLINE int qn_largest_bits(const __m256 magnitude[4])
{
    __m256i low = _mm256_max_epi32(_mm256_castps_si256(magnitude[0]), _mm256_castps_si256(magnitude[1]));
    __m256i high = _mm256_max_epi32(_mm256_castps_si256(magnitude[2]), _mm256_castps_si256(magnitude[3]));
    __m256i eight = _mm256_max_epi32(low, high);
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

static size_t qn_first_not_finite(const float *x)
{
    for (size_t j = 0;; j++) {
        uint32_t bits;
        memcpy(&bits, &x[j], sizeof bits);
        if ((bits & QN_INFINITE_BITS) == QN_INFINITE_BITS)
            return j;
    }
}

QN_INLINE size_t qn_quantise(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                             const qn_scale_rule rule, const int weighted)
{
    const __m256 unsigned_bits = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    const __m256i exponent = _mm256_set1_epi32(QN_INFINITE_BITS);
    for (size_t b = 0; b < blocks; b++, x += QN_MXFP4_BLOCK, codes += QN_MXFP4_BLOCK / 2) {
        qn_block block;
        for (int v = 0; v < 4; v++)
            block.magnitude[v] = _mm256_and_ps(_mm256_loadu_ps(x + 8 * v), unsigned_bits);
        int largest = qn_largest_bits(block.magnitude);
        if (largest >= QN_INFINITE_BITS)
            return b * QN_MXFP4_BLOCK + qn_first_not_finite(x);
        int least = rule == QN_SCALE_OCP || largest == 0 ? 0 : QN_LEAST_BYTE, ocp = (largest >> 23) - 2;
        block.byte = ocp > least ? ocp : least;
        __m256 inverse = _mm256_castsi256_ps(_mm256_set1_epi32((254 - block.byte) << 23));
        for (int v = 0; v < 4; v++) {
            block.magnitude[v] = _mm256_mul_ps(block.magnitude[v], inverse);
            block.binade[v] = _mm256_and_si256(_mm256_castps_si256(block.magnitude[v]), exponent);
            if (weighted)
                block.importance[v] = _mm256_loadu_ps(importance + b * QN_MXFP4_BLOCK + 8 * (size_t)v);
        }
        int step = rule == QN_SCALE_OCP || largest == 0 ? 0 : qn_least_error_step(&block, weighted);
        qn_encode(codes, &block, x, step);
        scales[b] = (uint8_t)(block.byte + step);
    }
    return QN_ALL_FINITE;
}

size_t qn_avx2_quantise_mxfp4(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                              qn_scale_rule rule)
{
    if (rule == QN_SCALE_OCP)
        return qn_quantise(codes, scales, x, NULL, blocks, QN_SCALE_OCP, 0);
    if (importance == NULL)
        return qn_quantise(codes, scales, x, NULL, blocks, QN_SCALE_LEAST_ERROR, 0);
    return qn_quantise(codes, scales, x, importance, blocks, QN_SCALE_LEAST_ERROR, 1);
}
