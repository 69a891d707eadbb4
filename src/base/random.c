/* Philox4x32-10 straight from the paper's section 3: ten rounds of two 32x32 -> 64 multiplications, the key bumped by
 * Weyl constants between rounds. */
#include "base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"

enum { ROUNDS = 10, DOUBLE_BITS = 53 };
static const uint32_t MULTIPLIER_0 = 0xD2511F53u, MULTIPLIER_1 = 0xCD9E8D57u;
static const uint32_t WEYL_0 = 0x9E3779B9u, WEYL_1 = 0xBB67AE85u;

void qn_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t product_0 = (uint64_t)MULTIPLIER_0 * c0;
        uint64_t product_1 = (uint64_t)MULTIPLIER_1 * c2;
        c0 = (uint32_t)(product_1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)product_1;
        c2 = (uint32_t)(product_0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)product_0;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* For a sandbox that forbids getrandom: not secret, but different from run to run. */
static uint64_t seed_from_clock(void)
{
    uint64_t now_us = qn_now_us();
    uint32_t counter[4] = {(uint32_t)now_us, (uint32_t)(now_us >> 32), (uint32_t)qn_unix_seconds(), 0};
    uint32_t key[2] = {(uint32_t)getpid(), 0}, words[4];
    qn_philox4x32_10(counter, key, words);
    return (uint64_t)words[0] << 32 | words[1];
}

uint64_t qn_random_seed(void)
{
    uint64_t seed;
    ssize_t got;
    do {
        got = getrandom(&seed, sizeof seed, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof seed ? seed : seed_from_clock();
}

uint64_t qn_random_told_seed(void)
{
    return qn_random_seed() >> (64 - DOUBLE_BITS);
}
