#include "unit/random_stream.h"

#include <math.h>

#include "base/random.h"

uint32_t random_word(random_stream *r)
{
    uint32_t counter[4] = {(uint32_t)r->next, (uint32_t)(r->next >> 32), 1, 2};
    uint32_t key[2] = {(uint32_t)r->seed, (uint32_t)(r->seed >> 32)}, out[4];
    r->next++;
    qn_philox4x32_10(counter, key, out);
    return out[0];
}

double random_unit(random_stream *r)
{
    return ((double)random_word(r) + 0.5) * 0x1p-32;
}

double random_normal(random_stream *r)
{
    double u = random_unit(r), v = random_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
