/* Measuring a disk: rates where it works, an error that names the folder where it does not, and nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "bench/disk.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "build-disk-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails when a file was left */
}

/* A file system without O_DIRECT or unnamed files (an overlay, some network disks) can't be measured anywhere here. */
static bool measurable(void)
{
    qn_disk_rates rates;
    qn_error err;
    if (qn_disk_measure(folder, 0.01, &rates, &err) == QN_OK)
        return true;
    print_message("SKIPPED: %s\n", err.message);
    return false;
}

static void rates_of_a_disk(void **state)
{
    (void)state;
    qn_disk_rates rates;
    qn_error err;
    if (!measurable())
        return;
    assert_int_equal(qn_disk_measure(folder, 0.01, &rates, &err), QN_OK);
    assert_true(rates.sequential.samples > 0 && rates.sequential.min > 0);
    assert_true(rates.random.samples > 0 && rates.random.min > 0);
    assert_true(rates.write.samples > 0 && rates.write.min > 0);
}

static void a_folder_that_is_not_there(void **state)
{
    (void)state;
    qn_disk_rates rates;
    qn_error err;
    assert_int_equal(qn_disk_measure("no/such/folder", 0.01, &rates, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "no/such/folder: open: No such file"));
}

static void a_failing_read_write_or_allocation(void **state)
{
    (void)state;
    static const struct {
        qn_fault_kind kind;
        const char *word;
    } faults[] = {{QN_FAULT_WRITE, "write: Input/output error"},
                  {QN_FAULT_READ, "read: Input/output error"},
                  {QN_FAULT_ALLOC, ""}};
    if (!measurable())
        return;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        qn_disk_rates rates;
        qn_error err;
        qn_fault_arm(faults[i].kind, 1);
        assert_int_equal(qn_disk_measure(folder, 0.01, &rates, &err), QN_RESOURCE);
        qn_fault_disarm();
        assert_non_null(strstr(err.message, faults[i].word));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_of_a_disk, make_folder, remove_folder),
        cmocka_unit_test(a_folder_that_is_not_there),
        cmocka_unit_test_setup_teardown(a_failing_read_write_or_allocation, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
