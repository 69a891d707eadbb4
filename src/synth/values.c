/* A value may cost a few cycles, since there are up to 753 billion of them: 16 random bits choose a sign and one of
 * 32,768 quantiles of the distribution from a table, and a multiplication gives it its row's and column's scale. Philox
 * takes too long for each value's bits; it only draws, per row, the place in the cycle of SplitMix64 from which the
 * row's bits come. */
#include "synth/values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/size.h"

enum {
    QUANTILES = 1 << 15,
    TAIL = 64, /* quantiles that lie far apart */
    STEPS = 2, /* of the integration from a quantile to the next */
    TAIL_STEPS = 64,
    DRAW_BITS = 16,
    DRAWS_A_WORD = 64 / DRAW_BITS,
    NORMALS_A_CALL = 2
};

/* What a call of Philox is for; the two top bits of the counter's first word. */
enum { STREAM_VALUES, STREAM_ROWS, STREAM_COLUMNS, STREAM_SHIFT = 30 };

static const double MATRIX_SPREAD = 0.2, ROUTER_ROW_SPREAD = 0.15, NORM_SPREAD = 0.15;
static const double RESIDUAL_GAIN = 0.1, HEAD_GAIN = 2, EMBEDDING_STD = 0.02, ROUTER_BIAS_STD = 0.01,
                    NORM_BIAS_STD = 0.05;

struct qn_values {
    uint32_t key[2];
    float quantile[QUANTILES]; /* of the magnitude, ascending; the signed values have variance 1 */
};

typedef struct stream {
    uint32_t key[2];
    uint32_t row, kind;
    uint64_t name_hash;
} stream;

static stream stream_of(const qn_values *values, const qn_catalogue_tensor *tensor, uint32_t kind, size_t row)
{
    return (stream){.key = {values->key[0], values->key[1]},
                    .row = (uint32_t)row,
                    .kind = kind << STREAM_SHIFT,
                    .name_hash = XXH3_64bits(tensor->name, strlen(tensor->name))};
}

static void draw(const stream *s, size_t call, uint32_t words[4])
{
    const uint32_t counter[4] = {(uint32_t)call | s->kind, s->row, (uint32_t)s->name_hash,
                                 (uint32_t)(s->name_hash >> 32)};
    qn_philox4x32_10(counter, s->key, words);
}

/* The slope of Student's quantile function at the value x: 1 / density. The density at 0 is 8 / (3 pi sqrt(5)). */
static double student_slope(double x)
{
    const double density_at_0 = 0.37960668982249451;
    double factor = 1 + x * x / 5;
    return factor * factor * factor / density_at_0;
}

/* Student's quantile function solves x'(p) = 1 / density(x), x(1/2) = 0: by Runge and Kutta's fourth order method,
 * since the density is rational and needs no function whose last bit differs between libraries. */
static void fill_quantiles(float *out)
{
    const double share = 0.5 / QUANTILES;
    double x = 0, squares = 0;
    for (size_t i = 0; i < QUANTILES; i++) {
        size_t steps = i < QUANTILES - TAIL ? STEPS : TAIL_STEPS;
        double step = share / (double)steps;
        if (i == 0) /* each quantile is the middle of its share, so the first is half a share from the start */
            step /= 2;
        for (size_t k = 0; k < steps; k++) {
            double a = student_slope(x), b = student_slope(x + step / 2 * a);
            double c = student_slope(x + step / 2 * b), d = student_slope(x + step * c);
            x += step / 6 * (a + 2 * b + 2 * c + d);
        }
        out[i] = (float)x;
        squares += x * x;
    }
    double deviation = sqrt(squares / QUANTILES);
    for (size_t i = 0; i < QUANTILES; i++)
        out[i] = (float)(out[i] / deviation);
}

qn_status qn_values_new(uint64_t seed, qn_values **out, qn_error *err)
{
    qn_values *values = qn_alloc_aligned(1, sizeof *values);
    if (!values)
        return qn_fail_memory(err, "tables of random values", sizeof *values);
    values->key[0] = (uint32_t)seed;
    values->key[1] = (uint32_t)(seed >> 32);
    fill_quantiles(values->quantile);
    *out = values;
    return QN_OK;
}

void qn_values_free(qn_values *values)
{
    qn_free(values);
}

/* e^x for |x| below 2, to some 1e-3: (1 + x / 1024)^1024 by squaring, the same on every machine. */
static double exponential(double x)
{
    double power = 1 + x / 1024;
    for (int i = 0; i < 10; i++)
        power *= power;
    return power;
}

/* Two values that are nearly normal, mean 0 and variance 1, from four words: sums of four uniform ones each. */
static void normals(const uint32_t words[4], double out[NORMALS_A_CALL])
{
    const double square_root_of_3 = 1.7320508075688772;
    for (size_t i = 0; i < NORMALS_A_CALL; i++) {
        uint32_t a = words[2 * i], b = words[2 * i + 1];
        double sum = (double)(a >> 16) + (double)(a & 0xFFFF) + (double)(b >> 16) + (double)(b & 0xFFFF);
        out[i] = ((sum + 2) / 65536 - 2) * square_root_of_3;
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t bytes = strlen(name), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(name + bytes - end_bytes, end) == 0;
}

static double row_spread(const qn_catalogue_tensor *tensor)
{
    return tensor->kind == QN_KIND_ROUTER ? ROUTER_ROW_SPREAD : MATRIX_SPREAD;
}

/* The standard deviation of a matrix. */
static double deviation_of(const qn_catalogue_tensor *tensor)
{
    if (tensor->kind == QN_KIND_EMBEDDING)
        return EMBEDDING_STD;
    double deviation = 1 / sqrt((double)tensor->shape[1]);
    if (tensor->kind == QN_KIND_HEAD)
        return HEAD_GAIN * deviation;
    bool to_residual = ends_with(tensor->name, "o_proj.weight") || ends_with(tensor->name, "down_proj.weight");
    return to_residual ? RESIDUAL_GAIN * deviation : deviation;
}

void qn_values_columns(const qn_values *values, const qn_catalogue_tensor *tensor, float *out)
{
    stream s = stream_of(values, tensor, STREAM_COLUMNS, 0);
    for (size_t i = 0; i < tensor->shape[1]; i += NORMALS_A_CALL) {
        uint32_t words[4];
        double z[NORMALS_A_CALL];
        draw(&s, i / NORMALS_A_CALL, words);
        normals(words, z);
        for (size_t k = 0; k < qn_min_size(NORMALS_A_CALL, tensor->shape[1] - i); k++)
            out[i + k] = (float)exponential(MATRIX_SPREAD * z[k]);
    }
}

/* The scale of a row, with the tensor's deviation in it. A log-normal factor of parameter sigma has the mean square
 * e^(2 sigma^2), which is divided out for both of them. */
static float row_scale(const qn_values *values, const qn_catalogue_tensor *tensor, size_t row)
{
    stream s = stream_of(values, tensor, STREAM_ROWS, row);
    uint32_t words[4];
    double z[NORMALS_A_CALL], spread = row_spread(tensor);
    draw(&s, 0, words);
    normals(words, z);
    double scale = exponential(spread * z[0] - spread * spread - MATRIX_SPREAD * MATRIX_SPREAD);
    return (float)(scale * deviation_of(tensor));
}

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014). */
static uint64_t split_mix(uint64_t *counter)
{
    uint64_t z = *counter += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static float signed_quantile(const qn_values *values, uint32_t bits)
{
    uint32_t word;
    memcpy(&word, &values->quantile[bits & (QUANTILES - 1)], sizeof word);
    word |= (bits & QUANTILES) << 16; /* the 16th bit is the sign; there may be others above */
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

void qn_values_row(const qn_values *values, const qn_catalogue_tensor *tensor, size_t row, const float *columns,
                   float *out)
{
    stream s = stream_of(values, tensor, STREAM_VALUES, row);
    float scale = row_scale(values, tensor, row);
    uint32_t words[4];
    draw(&s, 0, words);
    uint64_t counter = (uint64_t)words[0] << 32 | words[1];
    size_t cols = tensor->shape[1], whole = cols / DRAWS_A_WORD * DRAWS_A_WORD;
    for (size_t i = 0; i < whole; i += DRAWS_A_WORD) {
        uint64_t bits = split_mix(&counter);
        for (size_t k = 0; k < DRAWS_A_WORD; k++)
            out[i + k] = signed_quantile(values, (uint32_t)(bits >> (DRAW_BITS * k))) * (scale * columns[i + k]);
    }
    uint64_t bits = split_mix(&counter);
    for (size_t i = whole; i < cols; i++)
        out[i] = signed_quantile(values, (uint32_t)(bits >> (DRAW_BITS * (i - whole)))) * (scale * columns[i]);
}

static double vector_value(const qn_catalogue_tensor *tensor, double z)
{
    if (tensor->kind == QN_KIND_ROUTER)
        return ROUTER_BIAS_STD * z;
    return ends_with(tensor->name, ".bias") ? NORM_BIAS_STD * z : exponential(NORM_SPREAD * z);
}

void qn_values_vector(const qn_values *values, const qn_catalogue_tensor *tensor, size_t first, size_t count,
                      float *out)
{
    stream s = stream_of(values, tensor, STREAM_VALUES, 0);
    for (size_t i = first; i < first + count; i++) {
        uint32_t words[4];
        double z[NORMALS_A_CALL];
        draw(&s, i / NORMALS_A_CALL, words);
        normals(words, z);
        out[i - first] = (float)vector_value(tensor, z[i % NORMALS_A_CALL]);
    }
}
