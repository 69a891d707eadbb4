/* Random numbers for property tests: printed seed in, the same draws out. */
#ifndef QN_TESTS_DRAW_H
#define QN_TESTS_DRAW_H

#include <stddef.h>
#include <stdint.h>

typedef struct drawer {
    uint64_t seed;
    uint64_t drawn;
} drawer;

/* The seed of QUERN_SEED, or a new one; printed. */
drawer draw_start(void);

uint32_t draw_bits(drawer *d);
size_t draw_between(drawer *d, size_t low, size_t high); /* both included */
size_t draw_of(drawer *d, const size_t *values, size_t count);
int draw_percent(drawer *d, unsigned percent); /* 1 in that share of cases */

#define DRAW_OF(d, ...) \
    draw_of(d, (const size_t[]){__VA_ARGS__}, sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

#endif
