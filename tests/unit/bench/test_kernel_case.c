/* Each case of each table that this CPU runs can be sampled, without writing beside its buffers (the sanitized build
 * looks at that), and what it counts is what its shape says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "bench/kernel_case.h"

enum { BYTES = 8 << 20 };

typedef struct fixture {
    qn_pool *pool;
    qn_region region;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    qn_error err;
    *state = &f;
    return qn_pool_new(2, &f.pool, &err) != QN_OK || qn_region_new(BYTES, false, f.pool, &f.region, &err) != QN_OK;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    qn_region_free(&f->region);
    qn_pool_free(f->pool);
    return 0;
}

static void cases_of_rows(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 8, 64};
    qn_kernel_case cases[QN_KERNEL_MAX_CASES];
    size_t count = qn_kernel_cases(rows, 3, cases), seen[QN_KERNEL_KINDS] = {0};
    for (size_t i = 0; i < count; i++)
        seen[cases[i].kind]++;
    const size_t wanted[QN_KERNEL_KINDS] = {2 * 3, 4 * 3, 4 * 3, 3, 1, 3, 2};
    assert_memory_equal(seen, wanted, sizeof wanted);
    for (qn_kernel_kind a = 0; a < QN_KERNEL_KINDS; a++)
        for (qn_kernel_kind b = 0; b < a; b++)
            assert_string_not_equal(qn_kernel_kind_name(a), qn_kernel_kind_name(b));
}

/* The scalar table takes seconds for many rows. */
static void every_case_of_every_table(void **state)
{
    const fixture *f = *state;
    static const size_t rows[] = {1, 3};
    qn_kernel_case cases[QN_KERNEL_MAX_CASES];
    qn_kernel_rig *rig;
    qn_error err;
    size_t tables, count = qn_kernel_cases(rows, 2, cases);
    const qn_kernels *const *all = qn_kernels_all(&tables);
    assert_int_equal(qn_kernel_rig_new(f->pool, &f->region, &rig, &err), QN_OK);
    for (size_t t = 0; t < tables; t++) {
        for (size_t i = 0; i < count && qn_kernels_supported(all[t]); i++) {
            size_t units = 0;
            qn_kernel_rig_use(rig, all[t], &cases[i], 0.01, &units);
            assert_true(units > 0);
            const qn_kernel_sample s = qn_kernel_rig_sample(rig);
            assert_true(s.seconds > 0);
            assert_int_equal(s.keys > 0, cases[i].kind == QN_KERNEL_TOPK);
            assert_int_equal(s.flops > 0, cases[i].kind != QN_KERNEL_TOPK);
            assert_int_equal(s.bytes > 0, cases[i].keys == 0);
            if (cases[i].kind == QN_KERNEL_MATMUL_BF16)
                assert_true(s.flops == s.bytes * (double)cases[i].rows);
            if (cases[i].kind == QN_KERNEL_MATMUL_PACKED) {
                double bf16_bytes = s.flops / (double)cases[i].rows;
                assert_true(s.bytes > 0.75 * bf16_bytes && s.bytes < 0.76 * bf16_bytes);
            }
            if (cases[i].kind == QN_KERNEL_MATMUL_MXFP4)
                assert_true(s.flops * 17 == s.bytes * (double)cases[i].rows * 64);
        }
    }
    qn_kernel_rig_free(rig);
}

static void every_failing_allocation(void **state)
{
    const fixture *f = *state;
    qn_error err;
    qn_status status = QN_RESOURCE;
    size_t refused = 0;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_kernel_rig *rig = NULL;
        assert_true(nth < 100);
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_kernel_rig_new(f->pool, &f->region, &rig, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || status == QN_RESOURCE);
        assert_int_equal(rig != NULL, status == QN_OK);
        refused += status != QN_OK;
        qn_kernel_rig_free(rig);
    }
    assert_in_range(refused, 15, 99); /* the rig and each of its buffers; then one that nothing was refused to */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_of_rows),
        cmocka_unit_test_setup_teardown(every_case_of_every_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failing_allocation, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
