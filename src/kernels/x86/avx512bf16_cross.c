#include "kernels/x86/avx512bf16_cross.h"

#include "base/clock.h"

enum { CHAINS = 12, TRIAL_STEPS = 64, TRIALS = 100, QUARTER = 4 /* pairs in 16 bytes of a key */ };

static _Atomic int chosen_form;

/* As many products in either form, from registers. */
QN_INLINE void multiply_trial(float *out, const int wide)
{
    __m512 sums[CHAINS], one = _mm512_set1_ps(out[0]);
    for (int c = 0; c < CHAINS; c++)
        sums[c] = _mm512_set1_ps(out[c]);
    for (int i = 0; i < TRIAL_STEPS; i++)
        for (int half = 0; half < (wide ? 2 : 1); half++)
            for (int c = 0; c < CHAINS; c++)
                sums[c] = wide ? _mm512_fmadd_ps(one, one, sums[c])
                               : qn_dot_bf16(sums[c], _mm512_castps_si512(one), _mm512_castps_si512(one));
    for (int c = 1; c < CHAINS; c++)
        sums[0] = _mm512_add_ps(sums[0], sums[c]);
    _mm512_storeu_ps(out, sums[0]);
}

static __attribute__((noinline)) void trial_pairs(float *out)
{
    multiply_trial(out, 0);
}

static __attribute__((noinline)) void trial_wide(float *out)
{
    multiply_trial(out, 1);
}

static uint64_t ns_of(void (*trial)(float *))
{
    float values[QN_LANES] = {0};
    uint64_t began = qn_now_ns();
    trial(values);
    uint64_t ns = qn_now_ns() - began;
    __asm__ volatile("" : : "r"(values) : "memory"); /* else nobody wants the result */
    return ns;
}

/* A BF16 of any exponent up to the given one, subnormal numbers and zero among them. */
static uint16_t random_bf16(uint64_t *state, unsigned exponents)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    const uint64_t bits = *state >> 20;
    return (uint16_t)((bits & 0x807f) | ((bits >> 16) % (exponents + 1)) << 7);
}

/* In 16,384 cases: sums of all sizes, such that cancel the odd product, and results and operands that are subnormal. */
bool qn_avx512bf16_forms_agree(void)
{
    enum { VECTORS = 1024, LARGEST = 188 /* exponent: products stay finite */ };
    uint64_t state = 0x9e3779b97f4a7c15u;
    bool agree = true;
    const unsigned old = qn_flush_subnormals();
    for (int i = 0; i < VECTORS && agree; i++) {
        _Alignas(64) uint16_t a[2 * QN_LANES], b[2 * QN_LANES];
        _Alignas(64) float sums[QN_LANES], odd[2][QN_LANES], even[2][QN_LANES];
        /* exponents close to each other let both products count */
        const unsigned spread = i % 2 == 0 ? LARGEST : 12, least = (unsigned)(LARGEST - spread) / (i % 4 == 1 ? 1 : 3);
        for (size_t k = 0; k < QN_LANES; k++) {
            for (size_t at = 2 * k; at < 2 * k + 2; at++) {
                a[at] = (uint16_t)(random_bf16(&state, spread) + (least << 7));
                b[at] = (uint16_t)(random_bf16(&state, spread) + (least << 7));
            }
            odd[0][k] = qn_bf16_to_f32(a[2 * k + 1]);
            odd[1][k] = qn_bf16_to_f32(b[2 * k + 1]);
            even[0][k] = qn_bf16_to_f32(a[2 * k]);
            even[1][k] = qn_bf16_to_f32(b[2 * k]);
            sums[k] = k % 4 == 0 ? -odd[0][k] * odd[1][k]
                                 : qn_bf16_to_f32(random_bf16(&state, 250)) * (1.0f + 0x1p-20f);
        }
        const __m512 x = _mm512_load_ps(sums);
        const __m512 pairs = qn_dot_bf16(x, qn_load32((const uint8_t *)a), qn_load32((const uint8_t *)b));
        const __m512 first = _mm512_fmadd_ps(_mm512_load_ps(odd[0]), _mm512_load_ps(odd[1]), x);
        const __m512 wide = _mm512_fmadd_ps(_mm512_load_ps(even[0]), _mm512_load_ps(even[1]), first);
        agree = _mm512_cmpeq_epi32_mask(_mm512_castps_si512(pairs), _mm512_castps_si512(wide)) == 0xffff;
    }
    _mm_setcsr(old);
    return agree;
}

/* In turns, and long enough that the CPU has its wide registers under power. */
static qn_dot_form faster_form(void)
{
    uint64_t pairs = UINT64_MAX, wide = UINT64_MAX;
    if (!qn_avx512bf16_forms_agree())
        return QN_FORM_PAIRS;
    for (int i = 0; i < TRIALS; i++) {
        uint64_t took = ns_of(trial_pairs);
        pairs = took < pairs ? took : pairs;
        took = ns_of(trial_wide);
        wide = took < wide ? took : wide;
    }
    return wide < pairs ? QN_FORM_WIDE : QN_FORM_PAIRS;
}

qn_dot_form qn_avx512bf16_form(void)
{
    int form = atomic_load_explicit(&chosen_form, memory_order_relaxed);
    if (form == QN_FORM_UNKNOWN) {
        int unknown = QN_FORM_UNKNOWN;
        form = (int)faster_form();
        if (!atomic_compare_exchange_strong(&chosen_form, &unknown, form))
            form = unknown; /* another thread was first */
    }
    return (qn_dot_form)form;
}

void qn_avx512bf16_set_form(qn_dot_form form)
{
    atomic_store(&chosen_form, (int)form);
}

void qn_avx512bf16_cross_queries(uint8_t *out, const float *q, size_t heads, size_t dim, size_t count, qn_dot_form form)
{
    const size_t pairs = qn_ceil_div(count, 2), wide = form == QN_FORM_WIDE;
    for (size_t h = 0, tile; h < heads; h += tile) {
        tile = qn_cross_heads(heads - h);
        for (size_t r = 0; r < tile; r++, q += dim) {
            _Alignas(64) uint32_t row[QN_GROUP];
            qn_round_row((float *)row, q, count, (count + 7) / 8 * 8);
            uint8_t *at = out + r * 4;
            for (size_t i = 0; i < pairs && wide; i++, at += 8 * tile) {
                memcpy(at, row + 2 * i + 1, 4);
                memcpy(at + 4 * tile, row + 2 * i, 4);
            }
            for (size_t i = 0; i < pairs && !wide; i++, at += 4 * tile) {
                uint32_t word = row[2 * i] >> 16 | row[2 * i + 1];
                memcpy(at, &word, 4);
            }
        }
        out += tile * pairs * qn_cross_pair_bytes(form);
    }
}

/* Up to eight elements of a key, zeros behind the last; 0 of a key that isn't there. */
QN_INLINE __m128i load_quarter(const uint8_t *key, size_t elements)
{
    __m128i words = _mm_setzero_si128();
    if (elements >= 2 * QUARTER)
        return _mm_loadu_si128((const __m128i *)(const void *)key);
    if (elements > 0)
        memcpy(&words, key, 2 * elements);
    return words;
}

/* The pairs [at, at + QUARTER) of 16 keys: column i is pair at + i of all of them. */
QN_INLINE void load_columns(__m512i columns[QUARTER], const uint8_t *const *keys, size_t key_count, size_t offset,
                            size_t elements)
{
    __m512i rows[QUARTER], halves[QUARTER];
    for (size_t k = 0; k < QUARTER; k++) {
        __m128i w[QUARTER];
        for (size_t i = 0; i < QUARTER; i++) {
            const bool there = QUARTER * i + k < key_count;
            w[i] = load_quarter(there ? keys[QUARTER * i + k] + offset : NULL, there ? elements : 0);
        }
        rows[k] = _mm512_inserti32x4(_mm512_castsi128_si512(w[0]), w[1], 1);
        rows[k] = _mm512_inserti32x4(_mm512_inserti32x4(rows[k], w[2], 2), w[3], 3);
    }
    for (int k = 0; k < QUARTER; k += 2) {
        halves[k] = _mm512_unpacklo_epi32(rows[k], rows[k + 1]);
        halves[k + 1] = _mm512_unpackhi_epi32(rows[k], rows[k + 1]);
    }
    for (int i = 0; i < 2; i++) {
        columns[2 * i] = _mm512_unpacklo_epi64(halves[i], halves[i + 2]);
        columns[2 * i + 1] = _mm512_unpackhi_epi64(halves[i], halves[i + 2]);
    }
}

/* 16 keys of the panel, of which `key_count` are there. */
QN_INLINE void turn_keys(uint8_t *panel, const uint8_t *const *keys, size_t offset, size_t key_count, size_t count,
                         const int wide)
{
    const size_t stride = QN_PANEL_KEYS * (wide ? 8 : 4), pairs = qn_ceil_div(count, 2);
    for (size_t at = 0; at < pairs; at += QUARTER) {
        const size_t elements = count - 2 * at, here = offset + 4 * at;
        __m512i columns[QUARTER];
        if (key_count >= QN_LANES && elements >= 2 * QUARTER)
            load_columns(columns, keys, QN_LANES, here, 2 * QUARTER);
        else
            load_columns(columns, keys, key_count, here, elements);
        for (size_t i = 0; i < QUARTER && at + i < pairs; i++, panel += stride) {
            if (!wide) {
                _mm512_storeu_si512(panel, columns[i]);
                continue;
            }
            _mm512_storeu_si512(panel, _mm512_and_si512(columns[i], _mm512_set1_epi32((int)0xffff0000)));
            _mm512_storeu_si512(panel + stride / 2, _mm512_slli_epi32(columns[i], 16));
        }
    }
}

void qn_avx512bf16_cross_keys(uint8_t *panel, const uint8_t *const *keys, size_t offset, size_t key_count, size_t count,
                              qn_dot_form form)
{
    for (size_t k = 0; k < QN_PANEL_KEYS; k += QN_LANES) {
        const size_t left = key_count > k ? key_count - k : 0;
        if (form == QN_FORM_WIDE)
            turn_keys(panel + 4 * k, keys + k, offset, left, count, 1);
        else
            turn_keys(panel + 4 * k, keys + k, offset, left, count, 0);
    }
}
