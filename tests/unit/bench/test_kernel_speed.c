#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "bench/kernel_speed.h"

static const size_t rows[] = {1, 4};

static qn_kernel_speed_options options_of(qn_kernel_kind kind)
{
    qn_kernel_speed_options options = {.rows = rows, .row_count = 2, .repeats = 3, .threads = 1, .sample_ms = 0.1};
    options.kinds[kind] = true;
    return options;
}

static size_t supported_tables(void)
{
    size_t count, supported = 0;
    const qn_kernels *const *all = qn_kernels_all(&count);
    for (size_t i = 0; i < count; i++)
        supported += qn_kernels_supported(all[i]);
    return supported;
}

static void chosen_kernels_of_all_tables(void **state)
{
    (void)state;
    const qn_kernel_speed_options options = options_of(QN_KERNEL_TRANSPOSED);
    qn_kernel_speed speed;
    qn_error err;
    assert_int_equal(qn_kernel_speed_measure(&options, &speed, &err), QN_OK);
    assert_int_equal(speed.count, 2 * supported_tables());
    for (size_t i = 0; i < speed.count; i++) {
        assert_int_equal(speed.figures[i].which.kind, QN_KERNEL_TRANSPOSED);
        assert_int_equal(speed.figures[i].which.rows, rows[i % 2]);
        assert_int_equal(speed.figures[i].gbps.samples, 3);
        assert_int_equal(speed.figures[i].mkeys.samples, 0);
        assert_true(speed.figures[i].read_share.min > 0);
    }
    assert_int_equal(speed.read_small.samples, 3 * speed.count);
    assert_int_equal(speed.fp32.samples, 3 * speed.count);
    assert_true(speed.bf16.samples < speed.fp32.samples); /* of one table alone */
    json_t *root = qn_kernel_speed_to_json(&speed);
    assert_int_equal(json_array_size(json_object_get(root, "kernels")), speed.count);
    json_decref(root);
    qn_kernel_speed_free(&speed);
    qn_kernel_speed_free(&speed);
}

static void one_table(void **state)
{
    (void)state;
    qn_kernel_speed_options options = options_of(QN_KERNEL_TOPK);
    qn_kernel_speed speed;
    qn_error err;
    assert_int_equal(qn_kernels_select("scalar", &options.kernels, &err), QN_OK);
    assert_int_equal(qn_kernel_speed_measure(&options, &speed, &err), QN_OK);
    assert_int_equal(speed.count, 2);
    assert_string_equal(speed.figures[0].kernels->name, "scalar");
    assert_int_equal(speed.figures[0].gflops.samples, 0);
    assert_int_equal(speed.figures[0].mkeys.samples, 3);
    qn_kernel_speed_free(&speed);
}

static void stopped(void **state)
{
    (void)state;
    qn_kernel_speed_options options = options_of(QN_KERNEL_TOPK);
    qn_kernel_speed speed;
    qn_error err;
    atomic_bool stop = true;
    options.stop = &stop;
    assert_int_equal(qn_kernel_speed_measure(&options, &speed, &err), QN_CANCELLED);
    assert_null(speed.figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_kernels_of_all_tables),
        cmocka_unit_test(one_table),
        cmocka_unit_test(stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
