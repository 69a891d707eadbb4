/* What fits beside the weights, and how a run's memory is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/memory.h"

enum { LOG_BYTES = 4096 };

static char logged[LOG_BYTES];

/* 1000 bytes and 10 a token. */
static bool cost(void *context, size_t tokens, size_t *bytes)
{
    (void)context;
    *bytes = 1000 + tokens * 10;
    return tokens < SIZE_MAX / 100;
}

static void fits_as_many_tokens_as_it_can(void **state)
{
    (void)state;
    /* 0.9 * 100,000 - 20,000 of weights leave 70,000: 6,900 tokens. */
    assert_int_equal(qn_memory_fit(5001, 16, 20000, 100000, cost, NULL), 5001);
    assert_int_equal(qn_memory_fit(6900, 16, 20000, 100000, cost, NULL), 6900);
    assert_int_equal(qn_memory_fit(6901, 16, 20000, 100000, cost, NULL), 6896);
    assert_int_equal(qn_memory_fit(1 << 20, 128, 20000, 100000, cost, NULL), 53 * 128);
    assert_int_equal(qn_memory_fit(SIZE_MAX / 2, 128, 20000, 100000, cost, NULL), 53 * 128);
    /* Weights that fill or exceed it leave a quarter: 25,000. */
    assert_int_equal(qn_memory_fit(1 << 20, 16, 200000, 100000, cost, NULL), 2400);
    /* Nothing fits: one granule is the least. */
    assert_int_equal(qn_memory_fit(1 << 20, 16, 90000, 100000, cost, NULL), 16);
    assert_int_equal(qn_memory_fit(5, 16, 90000, 100000, cost, NULL), 5);
}

static void collect_log(void *context, const char *line)
{
    (void)context;
    size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s\n", line);
}

static void tells_the_plan(void **state)
{
    (void)state;
    qn_memory_plan plan = {.weight_bytes = 3 << 20,
                           .kv_bytes = 1 << 20,
                           .kv_tokens = 4096,
                           .kv_block_tokens = 128,
                           .step_bytes = 512,
                           .step_rows = 64,
                           .available_bytes = (size_t)1 << 30};
    qn_log_set_sink(collect_log, NULL);
    logged[0] = '\0';
    qn_memory_plan_log(&plan);
    assert_non_null(strstr(logged, "weights 3.0 MiB"));
    assert_non_null(strstr(logged, "KV cache 1.0 MiB, 4096 tokens in blocks of 128"));
    assert_non_null(strstr(logged, "step buffers 512 B, 64 rows"));
    assert_non_null(strstr(logged, "in all 4.0 MiB (4194816 bytes) of 1.0 GiB available"));
    assert_null(strstr(logged, "more than"));
    plan.available_bytes = 1000;
    qn_memory_plan_log(&plan);
    assert_non_null(strstr(logged, "more than is available"));
    qn_log_set_sink(NULL, NULL);
}

static void weights_fit_only_with_all_the_rest(void **state)
{
    (void)state;
    qn_memory_plan plan = {.weight_bytes = 700, .kv_bytes = 150, .step_bytes = 50, .available_bytes = 1000};
    assert_true(qn_memory_plan_fits(&plan));
    size_t *const parts[] = {&plan.weight_bytes, &plan.kv_bytes, &plan.step_bytes};
    for (size_t i = 0; i < 3; i++) {
        size_t was = *parts[i];
        *parts[i] = was + 1;
        assert_false(qn_memory_plan_fits(&plan));
        *parts[i] = SIZE_MAX;
        assert_false(qn_memory_plan_fits(&plan));
        *parts[i] = was;
    }
    plan.available_bytes = 0; /* not known */
    assert_false(qn_memory_plan_fits(&plan));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_as_many_tokens_as_it_can),
        cmocka_unit_test(tells_the_plan),
        cmocka_unit_test(weights_fit_only_with_all_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
