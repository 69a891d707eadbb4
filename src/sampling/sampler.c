/* Cheap sampling over a large vocabulary, exactly.
 *
 * The plain way computes a softmax, sorts it, masks it, draws noise for every token and takes the argmax. Here every
 * step works on the few tokens that matter, with the same result bit for bit:
 *
 *   - gumbel(r) lies in [-3.14, 22.88], so a token whose logit / T is 26.1 below the best can't win whatever its noise,
 * and with the best token's gumbel known, mostly nearer ones can't either; they are left out at once.
 *   - Probabilities are taken relative to the best token, as fixed-point integers of 2^-40. Integer sums have no order,
 *     so the nucleus of top-p is the same however it is found, and a token below 2^-41 of the best (28.5 down) weighs
 *     nothing and is left out of the sum without changing it.
 *   - Peaks of stretches of the row (peaks.h) bound the k-th largest, so that top-k gathers only a few; for top-p, an
 *     estimate of the sum between known bounds mostly tells where the nucleus ends.
 *   - The k-th largest and the border of the nucleus come from a radix selection over the bits of the logits, byte by
 *     byte: linear, no sort.
 *   - Noise is drawn in ascending id only for tokens that can beat the best score so far; of their random words, the
 *     number of leading ones bounds the gumbel from above, so that two logarithms are spent only on what may
 *     really win.
 */
#include "sampling/sampler.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/size.h"
#include "sampling/exponentials.h"
#include "sampling/peaks.h"
#include "sampling/selection.h"

/* How far below the best (in units of logit / T) a token can still win, and can still weigh in top-p's sum. */
static const double WINNING_REACH = 26.1, WEIGHING_REACH = 28.5;
static const double HIGHEST_GUMBEL = 22.88;
static const double WEIGHT_ONE = 1099511627776.0; /* 2^40: the best token's weight; a vocabulary of 2^23 fits 64 bits */

enum { LEADING_ONES = 33 };

struct qn_sampler {
    size_t vocab_size;
    /* The candidates, in ascending id. */
    size_t count;
    int32_t *ids;
    float *logits;
    uint64_t *weights;
    double gumbel_ceiling[LEADING_ONES]; /* the largest gumbel of a word with that many leading ones */
    qn_peaks peaks;
    float *row; /* [vocab_size]: logits by a request's rules */
};

size_t qn_sampler_bytes(size_t vocab_size)
{
    return sizeof(qn_sampler) + vocab_size * (sizeof(int32_t) + 2 * sizeof(float) + sizeof(uint64_t));
}

qn_status qn_sampler_new(size_t vocab_size, qn_sampler **out, qn_error *err)
{
    qn_sampler *sampler = qn_alloc_zero(1, sizeof *sampler);
    if (sampler == NULL) {
        return qn_fail_memory(err, "sampler", sizeof *sampler);
    }
    sampler->vocab_size = vocab_size;
    sampler->ids = qn_alloc(vocab_size, sizeof *sampler->ids);
    sampler->logits = qn_alloc(vocab_size, sizeof *sampler->logits);
    sampler->weights = qn_alloc(vocab_size, sizeof *sampler->weights);
    sampler->row = qn_alloc(vocab_size, sizeof *sampler->row);
    if (sampler->row == NULL || sampler->ids == NULL || sampler->logits == NULL || sampler->weights == NULL) {
        qn_sampler_free(sampler);
        return qn_fail_memory(err, "sampler", qn_sampler_bytes(vocab_size));
    }
    for (unsigned ones = 0; ones < LEADING_ONES; ones++) {
        uint32_t highest = ones < 32 ? ~(UINT32_C(1) << (31 - ones)) : UINT32_MAX;
        /* The margin covers a libm whose log is not monotonic in its last bit. */
        sampler->gumbel_ceiling[ones] = qn_gumbel(highest) + 1e-9;
    }
    *out = sampler;
    return QN_OK;
}

void qn_sampler_free(qn_sampler *sampler)
{
    if (sampler != NULL) {
        qn_free(sampler->ids);
        qn_free(sampler->logits);
        qn_free(sampler->weights);
        qn_free(sampler->row);
        qn_free(sampler);
    }
}

double qn_gumbel(uint32_t r)
{
    double u = ((double)r + 0.5) * 0x1p-32;
    return -log(-log(u));
}

/* The four words that tokens 4 * block .. 4 * block + 3 share. */
static void noise_block(const qn_sampling *sampling, size_t position, uint32_t block, uint32_t words[4])
{
    const uint32_t counter[4] = {block, (uint32_t)position, (uint32_t)((uint64_t)position >> 32), sampling->choice};
    const uint32_t key[2] = {(uint32_t)sampling->seed, (uint32_t)(sampling->seed >> 32)};
    qn_philox4x32_10(counter, key, words);
}

uint32_t qn_noise(const qn_sampling *sampling, size_t position, int32_t token)
{
    uint32_t words[4];
    noise_block(sampling, position, (uint32_t)token / 4, words);
    return words[(uint32_t)token % 4];
}

/* Keeps the candidates above the border, and of those on it the first `ties`. */
static void keep_above(qn_sampler *s, uint32_t border, uint64_t ties)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        uint32_t bits = qn_ordered_bits(s->logits[i]);
        bool keep = bits > border;
        if (bits == border && ties > 0) {
            keep = true;
            ties--;
        }
        if (keep) {
            s->ids[kept] = s->ids[i];
            s->logits[kept] = s->logits[i];
            s->weights[kept] = s->weights[i];
            kept++;
        }
    }
    s->count = kept;
}

/* How far a logit lies below the best, in units of the temperature: never above 0. */
static double depth_of(const qn_sampling *sampling, float logit, float best)
{
    return ((double)logit - (double)best) / (double)sampling->temperature;
}

/* Drops what lies deeper than `lowest`. Only logits below `in` are so near to the border that it takes the exact test.
 */
static void drop_deeper(qn_sampler *s, const qn_sampling *sampling, double lowest, float in)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->logits[i] >= in || depth_of(sampling, s->logits[i], s->peaks.highest) >= lowest) {
            s->ids[kept] = s->ids[i];
            s->logits[kept] = s->logits[i];
            kept++;
        }
    }
    s->count = kept;
}

/* The tokens whose depth is at least `lowest`, a number below 0, and whose logit is at least `least`. */
static void gather(qn_sampler *s, const qn_sampling *sampling, const float *logits, double lowest, float least)
{
    /* The depth's border as a logit, and where the exact test could decide otherwise for its rounding. */
    double best = (double)s->peaks.highest, border = best + lowest * (double)sampling->temperature;
    double margin = 1e-9 * (fabs(best) + fabs(border));
    float out = nextafterf((float)(border - margin), -INFINITY), in = nextafterf((float)(border + margin), INFINITY);
    out = fmaxf(out, least);
    size_t count = 0;
    for (size_t stretch = 0; stretch < s->peaks.count; stretch++) {
        if (s->peaks.best[stretch] < out) {
            continue;
        }
        size_t end = qn_min_size((stretch + 1) * s->peaks.width, s->vocab_size);
        for (size_t i = stretch * s->peaks.width; i < end; i++) {
            /* Written whether it counts or not: a branch here would be mispredicted all the time. */
            s->ids[count] = (int32_t)i;
            s->logits[count] = logits[i];
            count += logits[i] >= out;
        }
    }
    s->count = count;
    drop_deeper(s, sampling, lowest, in);
}

/* Weighs the candidates; returns the sum. */
static uint64_t weigh(qn_sampler *s, const qn_sampling *sampling)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->count; i++) {
        s->weights[i] = (uint64_t)(exp(depth_of(sampling, s->logits[i], s->peaks.highest)) * WEIGHT_ONE + 0.5);
        total += s->weights[i];
    }
    return total;
}

static void mask_top_k(qn_sampler *s, const qn_sampling *sampling)
{
    if (sampling->top_k > 0 && (size_t)sampling->top_k < s->count) {
        uint64_t before;
        uint32_t border = qn_select_border(s->logits, NULL, s->count, (uint64_t)sampling->top_k, &before);
        keep_above(s, border, UINT64_MAX);
    }
}

/* What the nucleus must weigh when all weigh `total`. */
static uint64_t nucleus_weight(const qn_sampling *sampling, uint64_t total)
{
    double mass = ceil((double)sampling->top_p * (double)total);
    uint64_t target = mass < 1.0 ? 1 : (uint64_t)mass;
    return target < total ? target : total;
}

/* Where the nucleus ends when it has to weigh `target`, which the candidates do at least. */
typedef struct nucleus_border {
    uint32_t border;         /* its least logit's ordered bits */
    uint64_t before, weight; /* of all tokens above the border, and of each one on it */
} nucleus_border;

static nucleus_border find_nucleus(const qn_sampler *s, uint64_t target)
{
    nucleus_border found = {.weight = 0};
    found.border = qn_select_border(s->logits, s->weights, s->count, target, &found.before);
    for (size_t i = 0; i < s->count && found.weight == 0; i++) {
        if (qn_ordered_bits(s->logits[i]) == found.border) {
            found.weight = s->weights[i];
        }
    }
    return found;
}

/* Equal logits weigh the same: as many of them as the mass still needs. */
static uint64_t ties_needed(nucleus_border found, uint64_t target)
{
    return (target - found.before + found.weight - 1) / found.weight;
}

static void mask_top_p(qn_sampler *s, const qn_sampling *sampling)
{
    uint64_t target = nucleus_weight(sampling, weigh(s, sampling));
    nucleus_border found = find_nucleus(s, target);
    keep_above(s, found.border, ties_needed(found, target));
}

/* The nucleus of the whole vocabulary without an exact weight for each token: the sum of all is estimated between two
 * bounds, only tokens that matter are weighed, and where both bounds end the nucleus at the same token, so does what
 * lies between them. False, and nothing decided, where they don't. */
static bool mask_top_p_of_all(qn_sampler *s, const qn_sampling *sampling, const float *logits)
{
    double size = (double)s->vocab_size, scale = 1.0 / (double)sampling->temperature;
    double sum = qn_sum_exponentials(logits, s->vocab_size, s->peaks.highest, scale);
    /* Weights are rounded, by half a unit each at most; the rest covers the rounding of exp and of the depth. */
    double error = sum * (QN_EXPONENTIALS_ERROR + 1e-12) + size * 0.5 / WEIGHT_ONE;
    /* All tokens below this depth together weigh less than the 1 - top_p that is left out. */
    double lowest = log((1.0 - (double)sampling->top_p) * sum / size) - 0.1;
    gather(s, sampling, logits, fmax(lowest, -WEIGHING_REACH), -INFINITY);
    uint64_t gathered = weigh(s, sampling);
    uint64_t least = nucleus_weight(sampling, (uint64_t)((sum - error) * WEIGHT_ONE));
    uint64_t most = nucleus_weight(sampling, (uint64_t)((sum + error) * WEIGHT_ONE) + 1);
    if (gathered < most) {
        return false;
    }
    nucleus_border found = find_nucleus(s, least);
    if (ties_needed(found, most) != ties_needed(found, least)) {
        return false;
    }
    keep_above(s, found.border, ties_needed(found, least));
    return true;
}

/* Leaves the candidates that pass all masks and lie within `reach` of the best: deeper ones count as without a chance.
 */
static void mask_all(qn_sampler *s, const qn_sampling *sampling, const float *logits, double reach)
{
    bool nucleus = sampling->top_p<1.0F, few = sampling->top_k> 0 || sampling->min_p > 0.0F;
    if (nucleus && !few && mask_top_p_of_all(s, sampling, logits)) {
        return;
    }
    double lowest = nucleus ? -WEIGHING_REACH : -reach;
    if (sampling->min_p > 0.0F) {
        lowest = fmax(lowest, log((double)sampling->min_p));
    }
    float least = sampling->top_k > 0 ? qn_peaks_bound(&s->peaks, (size_t)sampling->top_k) : -INFINITY;
    gather(s, sampling, logits, lowest, least);
    mask_top_k(s, sampling);
    if (nucleus) {
        mask_top_p(s, sampling);
    }
}

/* The best token's score is there to be beaten from the start. */
static int32_t draw(const qn_sampler *s, const qn_sampling *sampling, size_t position, double score)
{
    float best = s->peaks.highest;
    int32_t winner = s->peaks.first;
    double slope = 1.0 / (double)sampling->temperature;
    uint32_t words[4], block = UINT32_MAX;
    for (size_t i = 0; i < s->count; i++) {
        /* An upper bound of the depth without a division: the margin covers the rounding of slope. */
        double shallow = ((double)s->logits[i] - (double)best) * slope * (1.0 - 1e-12);
        if (shallow + HIGHEST_GUMBEL < score) {
            continue;
        }
        int32_t id = s->ids[i];
        if ((uint32_t)id / 4 != block) {
            block = (uint32_t)id / 4;
            noise_block(sampling, position, block, words);
        }
        uint32_t r = words[(uint32_t)id % 4];
        int leading_ones = r == UINT32_MAX ? 32 : __builtin_clz(~r);
        if (shallow + s->gumbel_ceiling[leading_ones] < score) {
            continue;
        }
        double own = depth_of(sampling, s->logits[i], best) + qn_gumbel(r);
        if (own > score || (own == score && id < winner)) {
            score = own;
            winner = id;
        }
    }
    return winner;
}

int32_t qn_sample(qn_sampler *sampler, const qn_sampling *sampling, const float *logits, size_t position)
{
    qn_peaks_find(logits, sampler->vocab_size, &sampler->peaks);
    int32_t best_id = sampler->peaks.first;
    if (sampling->temperature == 0.0F || best_id < 0) {
        return best_id;
    }
    double score = qn_gumbel(qn_noise(sampling, position, best_id));
    /* A token so deep loses against the best one even with the highest gumbel; the margin covers rounding. */
    mask_all(sampler, sampling, logits, HIGHEST_GUMBEL - score + 1e-9);
    return draw(sampler, sampling, position, score);
}

int32_t qn_sample_with_rules(qn_sampler *sampler, const qn_rules *rules, const float *logits, size_t position)
{
    if (!qn_rules_change_anything(rules)) {
        return qn_sample(sampler, rules->sampling, logits, position);
    }
    qn_rules_apply(rules, logits, sampler->vocab_size, sampler->row);
    return qn_sample(sampler, rules->sampling, sampler->row, position);
}

void qn_sampling_distribution(qn_sampler *sampler, const qn_sampling *sampling, const float *logits,
                              double *probabilities)
{
    qn_peaks_find(logits, sampler->vocab_size, &sampler->peaks);
    int32_t best_id = sampler->peaks.first;
    for (size_t i = 0; i < sampler->vocab_size; i++) {
        probabilities[i] = 0.0;
    }
    if (best_id < 0) {
        return;
    }
    if (sampling->temperature == 0.0F) {
        probabilities[best_id] = 1.0;
        return;
    }
    float best = sampler->peaks.highest;
    mask_all(sampler, sampling, logits, WINNING_REACH);
    double sum = 0.0;
    for (size_t i = 0; i < sampler->count; i++) {
        probabilities[sampler->ids[i]] = exp(depth_of(sampling, sampler->logits[i], best));
        sum += probabilities[sampler->ids[i]];
    }
    for (size_t i = 0; i < sampler->count; i++) {
        probabilities[sampler->ids[i]] /= sum;
    }
}
