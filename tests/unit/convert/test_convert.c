#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "convert/convert.h"
#include "support.h"

static char folder[SUPPORT_PATH_BYTES], source[SUPPORT_PATH_BYTES], good[SUPPORT_PATH_BYTES], out[SUPPORT_PATH_BYTES];

static void convert_well(const qn_convert_options *options, qn_convert_result *result)
{
    qn_error err;
    if (qn_convert(options, result, &err) != QN_OK)
        fail_msg("%s", err.message);
}

/* `good` has what an undisturbed conversion writes. */
static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    support_path(folder, "source", source);
    support_copy_source("tests/data/oracle/tiny-long", source);
    support_path(folder, "good", good);
    support_path(folder, "out", out);
    qn_convert_options options = support_options(source, good);
    qn_convert_result result;
    convert_well(&options, &result);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

static void test_what_a_run_tells(void **state)
{
    (void)state;
    qn_convert_options options = support_options(source, out);
    qn_convert_result result;
    options.rest = true;
    convert_well(&options, &result);
    assert_false(result.complete);
    assert_true(result.files_done > 0 && result.files_done < result.files_total);
    assert_true(result.source_bytes > 0 && result.source_bytes == result.output_bytes); /* copied */
    options.rest = false;
    convert_well(&options, &result);
    assert_true(result.complete && !result.already_complete);
    assert_int_equal(result.files_done, result.files_total);
    assert_true(result.output_bytes < result.source_bytes / 3);
    convert_well(&options, &result);
    assert_true(result.complete && result.already_complete);
    assert_int_equal(result.source_bytes, 0);
    support_assert_same(good, out);
}

static void test_stops_when_asked_and_goes_on(void **state)
{
    (void)state;
    qn_convert_options options = support_options(source, out);
    qn_convert_result result;
    atomic_bool stop = true;
    qn_error err;
    options.stop = &stop;
    assert_int_equal(qn_convert(&options, &result, &err), QN_CANCELLED);
    assert_false(result.complete);
    stop = false;
    convert_well(&options, &result);
    support_assert_same(good, out);
}

/* How many calls of a kind an undisturbed conversion makes. */
static long count_calls(const qn_convert_options *options, qn_fault_kind kind)
{
    qn_convert_result result;
    qn_fault_arm(kind, LONG_MAX);
    convert_well(options, &result);
    long calls = qn_fault_seen(kind);
    qn_fault_disarm();
    support_remove(out);
    return calls;
}

/* A call that fails anywhere stops the conversion with an error, and the next run completes it. */
static void walk_faults(qn_fault_kind kind)
{
    enum { POINTS = 15 };
    qn_convert_options options = support_options(source, out);
    options.threads = 1;
    long calls = count_calls(&options, kind);
    size_t failures = 0;
    for (long nth = 1; nth <= calls; nth += nth < 5 ? 1 : 1 + calls / POINTS) {
        qn_convert_result result;
        qn_error err;
        qn_fault_arm(kind, nth);
        qn_status status = qn_convert(&options, &result, &err);
        qn_fault_disarm();
        if (status != QN_OK && status != QN_RESOURCE && status != QN_BAD_INPUT)
            fail_msg("fault %ld of kind %d: %s", nth, (int)kind, err.message);
        failures += status != QN_OK;
        convert_well(&options, &result);
        support_assert_same(good, out);
        support_remove(out);
    }
    assert_true(failures >= 5);
}

static void test_each_fault_is_survived(void **state)
{
    (void)state;
    walk_faults(QN_FAULT_ALLOC);
    walk_faults(QN_FAULT_READ);
    walk_faults(QN_FAULT_WRITE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_run_tells, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_stops_when_asked_and_goes_on, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_fault_is_survived, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
