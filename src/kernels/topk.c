/* Radix selection: the k-th largest score is found digit by digit (11, 11 and 10 bits of an order-preserving integer
 * key), each pass over those alone that share the digits so far; one last pass takes what lies above it, and of those
 * equal to it the first ones. ReLU makes exact zeros of many indexer scores, so ties are the common case. */
#include "kernels/topk.h"

#include <math.h>
#include <string.h>

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

/* Unsigned order of keys = order of floats; both zeros have one key, every NaN has key 0, below -infinity. Without
 * branches: signs of scores are as good as random. */
static uint32_t order_key(float score)
{
    float one_zero = score + 0.0f;
    uint32_t bits;
    memcpy(&bits, &one_zero, sizeof bits);
    uint32_t flipped = bits ^ ((0u - (bits >> 31)) | 0x80000000u);
    return flipped & (0u - (uint32_t)!isnan(score));
}

static float key_score(uint32_t key)
{
    uint32_t bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* The gap between the smallest taken and the largest left; whatever is above NaN is infinitely far from it. */
static float gap(uint32_t taken, uint32_t left)
{
    if (taken == left)
        return 0.0f;
    return left == 0 ? INFINITY : key_score(taken) - key_score(left);
}

/* The digit that holds the *rank-th largest; *rank becomes its rank among the keys with that digit. */
static uint32_t find_digit(const uint32_t *counts, size_t *rank)
{
    uint32_t digit = DIGITS - 1;
    while (counts[digit] < *rank)
        *rank -= counts[digit--];
    return digit;
}

/* The rank-th largest key (rank 1 is the largest) and, in *equal, how many of those with this key are within rank. */
static uint32_t select_key(const float *scores, size_t n, size_t rank, uint32_t *keys, size_t *equal)
{
    uint32_t counts[DIGITS] = {0};
    for (size_t i = 0; i < n; i++)
        counts[order_key(scores[i]) >> 21]++;
    uint32_t prefix = find_digit(counts, &rank) << 21;

    size_t left = 0;
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n; i++) {
        uint32_t key = order_key(scores[i]);
        if ((key ^ prefix) >> 21 != 0)
            continue;
        keys[left++] = key;
        counts[key >> 10 & (DIGITS - 1)]++;
    }
    prefix |= find_digit(counts, &rank) << 10;

    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < left; i++)
        if ((keys[i] ^ prefix) >> 10 == 0)
            counts[keys[i] & 1023]++;
    prefix |= find_digit(counts, &rank);
    *equal = rank;
    return prefix;
}

size_t qn_topk(const float *scores, size_t n, size_t k, int32_t *out, uint32_t *scratch, float *margin)
{
    if (margin != NULL)
        *margin = INFINITY;
    if (k >= n) {
        for (size_t i = 0; i < n; i++)
            out[i] = (int32_t)i;
        return n;
    }
    if (k == 0)
        return 0;

    size_t equal, taken = 0;
    uint32_t threshold = select_key(scores, n, k, scratch, &equal);
    uint32_t largest_left = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t key = order_key(scores[i]);
        if (key > threshold || (key == threshold && equal > 0)) {
            equal -= key == threshold;
            out[taken++] = (int32_t)i;
        } else if (key > largest_left) {
            largest_left = key;
        }
    }
    if (margin != NULL)
        *margin = gap(threshold, largest_left);
    return taken;
}
