#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/log.h"
#include "bench/yardstick.h"

/* BF16 dot products are a limit of the tables that have them; the faster instruction's rate is the peak. */
static void limits_of_every_table(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_yardstick y;
    qn_error err;
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
    assert_int_equal(qn_yardstick_open(pool, &y, &err), QN_OK);
    for (size_t t = 0; t < count; t++) {
        if (!qn_kernels_supported(all[t]))
            continue;
        const qn_limits limits = qn_yardstick_sample(&y, all[t]);
        assert_true(limits.read_small > 0 && limits.read_huge > 0);
        assert_true(limits.fp32 >= 0); /* 0: a CPU without the instruction */
        assert_int_equal(limits.bf16 > 0, strcmp(all[t]->name, "avx512bf16") == 0);
        assert_true(qn_limits_peak(&limits) == fmax(limits.fp32, limits.bf16));
    }
    qn_yardstick_close(&y);
    qn_pool_free(pool);
}

typedef struct heard {
    size_t lines;
    char last[QN_LOG_LINE_BYTES];
} heard;

static void hear(void *context, const char *line)
{
    heard *h = context;
    h->lines++;
    snprintf(h->last, sizeof h->last, "%s", line);
}

/* A region that caches may hold gives other figures: nobody is to take them for those of a large one. */
static void a_small_region_is_told(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_yardstick y;
    qn_error err;
    static heard h;
    assert_int_equal(qn_yardstick_bytes(0), (size_t)256 << 20);
    assert_int_equal(qn_yardstick_bytes((size_t)64 << 30), (size_t)256 << 20);
    assert_int_equal(qn_yardstick_bytes((size_t)1 << 30), (size_t)128 << 20);
    assert_int_equal(qn_yardstick_bytes(1), (size_t)16 << 20);
    assert_int_equal(qn_pool_new(1, &pool, &err), QN_OK);
    qn_log_set_sink(hear, &h);
    assert_int_equal(qn_yardstick_open_within(pool, (size_t)1 << 30, &y, &err), QN_OK);
    assert_int_equal(y.small.bytes, (size_t)128 << 20);
    assert_int_equal(h.lines, 1);
    assert_non_null(strstr(h.last, "128 MiB instead of 256 MiB"));
    qn_yardstick_close(&y);
    assert_int_equal(qn_yardstick_open_within(pool, (size_t)64 << 30, &y, &err), QN_OK);
    assert_int_equal(h.lines, 1);
    qn_log_set_sink(NULL, NULL);
    qn_yardstick_close(&y);
    qn_pool_free(pool);
}

static void no_memory(void **state)
{
    (void)state;
    qn_pool *pool;
    qn_error err;
    assert_int_equal(qn_pool_new(1, &pool, &err), QN_OK);
    size_t refused = 0;
    qn_status status = QN_RESOURCE;
    /* asking what memory is available allocates as well, and does without */
    for (long nth = 1; status != QN_OK || refused == 0; nth++) {
        assert_true(nth < 100);
        qn_yardstick y;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_yardstick_open(pool, &y, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        refused += status != QN_OK;
        qn_yardstick_close(&y);
    }
    assert_int_equal(refused, 2);
    qn_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(limits_of_every_table),
                                       cmocka_unit_test(a_small_region_is_told), cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
