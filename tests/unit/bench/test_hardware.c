/* A whole measurement with little memory and time, and the errors on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/fault.h"
#include "bench/hardware.h"

enum { LITTLE_MEMORY = 144 << 20 };

static qn_hardware hardware;

static qn_hardware_options options_with(size_t memory_bytes)
{
    qn_hardware_options options = {.seconds = 0.05, .memory_bytes = memory_bytes};
    qn_error err;
    assert_int_equal(qn_kernels_select(NULL, &options.kernels, &err), QN_OK);
    return options;
}

static void every_figure_but_the_disk_has_three_samples(void **state)
{
    (void)state;
    qn_hardware_options options = options_with(LITTLE_MEMORY);
    qn_error err;
    assert_int_equal(qn_hardware_measure(&options, &hardware, &err), QN_OK);
    assert_true(hardware.threads > 0 && hardware.read_count > 0);
    assert_int_equal(hardware.read[0].threads, 1);
    assert_int_equal(hardware.read[hardware.read_count - 1].threads, hardware.threads);
    assert_string_equal(hardware.isa, options.kernels->name);
    for (size_t i = 0; i < hardware.read_count; i++)
        assert_true(hardware.read[i].huge_pages.samples >= 3 && hardware.read[i].small_pages.samples >= 3);
    for (qn_figure i = 0; i < QN_FIGURES; i++) {
        const qn_statistic *s = &hardware.figure[i];
        bool bf16 = i == QN_FIGURE_BF16 || i == QN_FIGURE_BF16_ONE_THREAD, disk = i >= QN_FIGURE_DISK_SEQUENTIAL;
        assert_true(disk ? s->samples == 0 : bf16 || s->samples >= 3);
        assert_true(s->min <= s->median && s->median <= s->max);
    }
}

static void too_little_memory_is_an_error(void **state)
{
    (void)state;
    qn_hardware_options options = options_with(1 << 20);
    qn_error err;
    assert_int_equal(qn_hardware_measure(&options, &hardware, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "128 MiB are the least"));
}

static void a_folder_that_is_no_good_is_told_before_all_else(void **state)
{
    (void)state;
    qn_hardware_options options = options_with(LITTLE_MEMORY);
    options.disk = "no/such/folder";
    qn_error err;
    assert_int_equal(qn_hardware_measure(&options, &hardware, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "no/such/folder: open: "));
    assert_int_equal(hardware.figure[QN_FIGURE_BF16].samples, 0);
}

static void failing_allocations_are_errors(void **state)
{
    (void)state;
    qn_hardware_options options = options_with(LITTLE_MEMORY);
    for (long nth = 1; nth <= 3; nth++) { /* later ones: test_region.c, test_kernel_rates.c */
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_int_equal(qn_hardware_measure(&options, &hardware, &err), QN_RESOURCE);
        qn_fault_disarm();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_but_the_disk_has_three_samples),
        cmocka_unit_test(too_little_memory_is_an_error),
        cmocka_unit_test(a_folder_that_is_no_good_is_told_before_all_else),
        cmocka_unit_test(failing_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
