/* Configs that several tests plan for. */
#ifndef QN_TESTS_PLAN_CONFIGS_H
#define QN_TESTS_PLAN_CONFIGS_H

#include "bench/hardware.h"
#include "checkpoint/config.h"

#define GLM_CONFIG "tests/data/glm-5.3/config.json"
#define TINY_MODEL "models/quern-tiny"

void read_config(const char *path, qn_config *out);

/* Every rate is the same: a GB/s or GFLOP/s of `rate`, so that times can be worked out by hand; loops take no time. */
void make_hardware(double rate, qn_hardware *out);

#endif
