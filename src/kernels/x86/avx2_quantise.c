/* The MXFP4 encoder: a block is four registers, and its candidates are tried side by side in the units, the lanes and
 * the order of the reference. Blocks go through in runs that stay in the first cache, first all of a run's OCP scales,
 * then all searches, then all codes: within a block each of these waits for the one before, so that a loop over whole
 * blocks would mostly wait.
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
    __m256i magic[4]; /* 2^(e+22) of the magnitudes, before e is raised */
    int byte;         /* of the OCP scale, or the least one allowed */
} qn_block;

/* 2^(e+22) of each magnitude. */
QN_INLINE __m256i qn_magic(__m256 magnitude)
{
    __m256i binade = _mm256_and_si256(_mm256_castps_si256(magnitude), _mm256_set1_epi32(QN_INFINITE_BITS));
    return _mm256_add_epi32(binade, _mm256_set1_epi32(22 << 23));
}

/* Magnitudes of eight values in units of a scale, given its inverse. */
QN_INLINE __m256 qn_scaled_magnitude(__m256 x, __m256 inverse)
{
    return _mm256_mul_ps(_mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff))), inverse);
}

QN_INLINE __m256 qn_inverse_scale(int byte)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((254 - byte) << 23));
}

QN_INLINE void qn_load_block(qn_block *block, const float *x, int byte)
{
    block->byte = byte;
    for (int v = 0; v < 4; v++) {
        block->magnitude[v] = qn_scaled_magnitude(_mm256_loadu_ps(x + 8 * v), qn_inverse_scale(byte));
        block->magic[v] = qn_magic(block->magnitude[v]);
    }
}

/* A candidate scale, 2^step. */
typedef struct qn_candidate {
    __m256i magic;  /* 2^(step+22) */
    __m256 largest; /* six times the scale */
} qn_candidate;

QN_INLINE qn_candidate qn_candidate_at(int step)
{
    __m256 scale = _mm256_castsi256_ps(_mm256_set1_epi32((127 + step) << 23));
    return (qn_candidate){_mm256_set1_epi32((127 + step + 22) << 23), _mm256_mul_ps(scale, _mm256_set1_ps(6.0f))};
}

/* Lanes of the sum of errors. Without saturation where the candidate is above the OCP scale. */
QN_INLINE __m256 qn_candidate_errors(const qn_block *block, qn_candidate candidate, const int weighted,
                                     const int saturates)
{
    __m256 sums = _mm256_setzero_ps();
    for (int v = 0; v < 4; v++) {
        __m256 magic = _mm256_castsi256_ps(_mm256_max_epi32(block->magic[v], candidate.magic));
        __m256 rounded = _mm256_sub_ps(_mm256_add_ps(block->magnitude[v], magic), magic);
        if (saturates)
            rounded = _mm256_min_ps(rounded, candidate.largest);
        __m256 error = _mm256_sub_ps(block->magnitude[v], rounded);
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
                                         qn_candidate_errors(block, candidate, 1, 1), none);
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
    __m128 errors = qn_reduce_errors(qn_candidate_errors(block, qn_candidate_at(0), weighted, 1),
                                     qn_candidate_errors(block, qn_candidate_at(1), weighted, 0),
                                     qn_candidate_errors(block, qn_candidate_at(-1), weighted, 1), below);
    __m128 down = _mm_movehdup_ps(errors), up = _mm_movehl_ps(errors, errors), least = errors;
    int is_up = 0, is_down = 0;
    /* no branch on the outcomes: they are as good as random */
    if (block->byte < QN_LARGEST_BYTE) {
        is_up = _mm_comilt_ss(up, least);
        least = _mm_min_ss(up, least);
    }
    if (block->byte > QN_LEAST_BYTE) {
        is_down = _mm_comilt_ss(down, least);
        least = _mm_min_ss(down, least);
    }
    int best = (is_up & ~-is_down) | -is_down;
    if (weighted && _mm_comilt_ss(_mm_movehdup_ps(up), least))
        return qn_search_below(block, best, _mm_cvtss_f32(least));
    return best;
}

/* The codes of eight elements in units of the scale, one in each dword. */
QN_INLINE __m256i qn_element_codes(__m256 x, __m256 inverse)
{
    const __m256i least = _mm256_set1_epi32((127 + 22) << 23);
    __m256 magnitude = qn_scaled_magnitude(x, inverse);
    __m256i magic = _mm256_max_epi32(qn_magic(magnitude), least);
    __m256 sum = _mm256_add_ps(magnitude, _mm256_castsi256_ps(magic));
    __m256i multiple = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
    /* each binade further up starts two codes later */
    __m256i code = _mm256_add_epi32(multiple, _mm256_srli_epi32(_mm256_sub_epi32(magic, least), 22));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(x), 28), _mm256_set1_epi32(8));
    return _mm256_or_si256(_mm256_min_epi32(code, _mm256_set1_epi32(7)), sign);
}

static void qn_encode(uint8_t *codes, const uint8_t *scales, const float *x, size_t blocks)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (size_t b = 0; b < blocks; b++, x += QN_MXFP4_BLOCK) {
        __m256 inverse = qn_inverse_scale(scales[b]);
        __m256i lanes[4];
        for (int v = 0; v < 4; v++)
            lanes[v] = qn_element_codes(_mm256_loadu_ps(x + 8 * v), inverse);
        __m256i words = _mm256_packs_epi32(lanes[0], lanes[1]), more = _mm256_packs_epi32(lanes[2], lanes[3]);
        __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words, more), order);
        __m256i pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi16(0x1001)); /* even + 16 * odd */
        __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        _mm_storeu_si128((__m128i *)(void *)(codes + b * (QN_MXFP4_BLOCK / 2)), packed);
    }
}

/* The bits of the largest magnitude; NaN and infinity have the largest. */
QN_INLINE int qn_largest_bits(const float *x)
{
    __m256i eight = _mm256_setzero_si256();
    for (int v = 0; v < 4; v++) {
        __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + 8 * v));
        eight = _mm256_max_epi32(eight, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
    }
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
}

/* The OCP scales of blocks, or the least allowed; stops at a block with a value that is not finite and returns the
 * number before it. */
static size_t qn_ocp_scales(uint8_t *scales, const float *x, size_t blocks, int least)
{
    for (size_t b = 0; b < blocks; b++) {
        int largest = qn_largest_bits(x + b * QN_MXFP4_BLOCK);
        if (largest >= QN_INFINITE_BITS)
            return b;
        int byte = (largest >> 23) - 2, floor = largest == 0 ? 0 : least;
        scales[b] = (uint8_t)(byte > floor ? byte : floor);
    }
    return blocks;
}

/* Moves the scales to those of the least error. */
QN_INLINE void qn_search_scales(uint8_t *scales, const float *x, const float *importance, size_t blocks,
                                const int weighted)
{
    for (size_t b = 0; b < blocks; b++) {
        if (scales[b] == 0) /* a block of zeros */
            continue;
        qn_block block;
        qn_load_block(&block, x + b * QN_MXFP4_BLOCK, scales[b]);
        for (size_t v = 0; weighted && v < 4; v++)
            block.importance[v] = _mm256_loadu_ps(importance + b * QN_MXFP4_BLOCK + 8 * v);
        scales[b] = (uint8_t)(scales[b] + qn_least_error_step(&block, weighted));
    }
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

size_t qn_avx2_quantise_mxfp4(uint8_t *codes, uint8_t *scales, const float *x, const float *importance, size_t blocks,
                              qn_scale_rule rule)
{
    enum { RUN = 32 };
    for (size_t at = 0; at < blocks; at += RUN) {
        const float *run = x + at * QN_MXFP4_BLOCK;
        size_t wanted = qn_min_size(RUN, blocks - at);
        size_t count = qn_ocp_scales(scales + at, run, wanted, rule == QN_SCALE_OCP ? 0 : QN_LEAST_BYTE);
        if (rule == QN_SCALE_LEAST_ERROR && importance != NULL)
            qn_search_scales(scales + at, run, importance + at * QN_MXFP4_BLOCK, count, 1);
        else if (rule == QN_SCALE_LEAST_ERROR)
            qn_search_scales(scales + at, run, NULL, count, 0);
        qn_encode(codes + at * (QN_MXFP4_BLOCK / 2), scales + at, run, count);
        if (count < wanted)
            return (at + count) * QN_MXFP4_BLOCK + qn_first_not_finite(run + count * QN_MXFP4_BLOCK);
    }
    return QN_ALL_FINITE;
}
