/* See draw.h. */
#include "golden/draw.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"

drawer draw_start(void)
{
    const char *given = getenv("QUERN_SEED");
    drawer d = {.seed = given ? strtoull(given, NULL, 10) : qn_random_seed()};
    printf("seed %llu (QUERN_SEED repeats it)\n", (unsigned long long)d.seed);
    return d;
}

uint32_t draw_bits(drawer *d)
{
    uint32_t counter[4] = {(uint32_t)d->drawn, (uint32_t)(d->drawn >> 32), 0, 0}, out[4];
    uint32_t key[2] = {(uint32_t)d->seed, (uint32_t)(d->seed >> 32)};
    qn_philox4x32_10(counter, key, out);
    d->drawn++;
    return out[0];
}

size_t draw_between(drawer *d, size_t low, size_t high)
{
    return low + draw_bits(d) % (high - low + 1);
}

size_t draw_of(drawer *d, const size_t *values, size_t count)
{
    return values[draw_bits(d) % count];
}

int draw_percent(drawer *d, unsigned percent)
{
    return draw_bits(d) % 100 < percent;
}
