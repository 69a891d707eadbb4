#include "synthetic.h"

#include <math.h>

#include "base/random.h"

const machine test_cpu = {.fixed_us = 40000,
                          .row_us = 2000,
                          .experts_us = 60000,
                          .touched = 1.0 / 32,
                          .decode_row_us = 300,
                          .key_us = 0.02,
                          .jitter = 0.2,
                          .outliers = 0.001,
                          .slowness = 1};

const machine test_server = {.fixed_us = 8000,
                             .row_us = 400,
                             .experts_us = 30000,
                             .touched = 1.0 / 32,
                             .decode_row_us = 50,
                             .key_us = 0.002,
                             .memory_us = 12000,
                             .jitter = 0.2,
                             .outliers = 0.001,
                             .slowness = 1};

double noise_uniform(noise *source)
{
    const uint32_t counter[4] = {(uint32_t)source->drawn, (uint32_t)(source->drawn >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)source->seed, (uint32_t)(source->seed >> 32)};
    uint32_t words[4];
    qn_philox4x32_10(counter, key, words);
    source->drawn++;
    return words[0] / 4294967296.0;
}

uint64_t noise_below(noise *source, uint64_t bound)
{
    return (uint64_t)(noise_uniform(source) * (double)bound);
}

double machine_us(const machine *m, const qn_step_shape *shape)
{
    double rows = (double)(shape->decode_rows + shape->prefill_rows);
    double arithmetic = fmax(m->row_us * rows - m->memory_us, 0);
    double experts = m->experts_us * (1 - pow(1 - m->touched, rows));
    double others = m->decode_row_us * (double)shape->decode_rows + m->key_us * shape->scanned_keys;
    return m->slowness * (m->fixed_us + arithmetic + experts + others);
}

uint64_t machine_step_us(const machine *m, const qn_step_shape *shape, noise *source)
{
    double factor = 1 + m->jitter * (2 * noise_uniform(source) - 1);
    if (noise_uniform(source) < m->outliers)
        factor *= 10;
    return (uint64_t)(machine_us(m, shape) * factor);
}
