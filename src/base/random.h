/* Randomness: Philox4x32-10, a counter-based generator, and a seed from the system.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The same key and counter
 * give the same four words everywhere, which is what lets a request's noise be drawn at any position in any
 * order (docs/sampling.md). */
#ifndef QN_BASE_RANDOM_H
#define QN_BASE_RANDOM_H

#include <stdint.h>

void qn_philox4x32_10(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* From getrandom(2); where a sandbox forbids that call, mixed from the clocks and the process id. */
uint64_t qn_random_seed(void);

/* The same with 53 bits, for a seed that is told to a user: every reader of JSON gives it back unchanged, also one that
 * reads numbers as doubles. */
uint64_t qn_random_told_seed(void);

#endif
