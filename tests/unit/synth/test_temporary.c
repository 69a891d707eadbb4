#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/fault.h"
#include "checkpoint/checkpoint.h"
#include "scratch_folder.h"
#include "synth/temporary.h"

static const char CONFIG[] = "tests/data/oracle/tiny-sharded/config.json";
static char scratch[SCRATCH_PATH_BYTES];

static int make_scratch(void **state)
{
    (void)state;
    scratch_make(scratch);
    return setenv("TMPDIR", scratch, 1);
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return unsetenv("TMPDIR");
}

static qn_synth_options options_for(const char *source)
{
    return (qn_synth_options){
        .source = source, .max_shard_bytes = 200000, .threads = 1, .cut = {.layers = 2, .without_mtp = true}};
}

static void test_made_and_removed(void **state)
{
    (void)state;
    const qn_synth_options options = options_for(CONFIG);
    char path[QN_TEMPORARY_PATH_BYTES];
    qn_synth_result result;
    qn_checkpoint *checkpoint;
    qn_error err;
    assert_int_equal(qn_synth_temporary(&options, path, &result, &err), QN_OK);
    assert_memory_equal(path, scratch, strlen(scratch));
    assert_true(result.files > 1);
    assert_int_equal(qn_checkpoint_open(path, &checkpoint, &err), QN_OK);
    qn_checkpoint_close(checkpoint);
    qn_synth_temporary_remove(path);
    assert_int_equal(scratch_entries(scratch), 0);
    qn_synth_temporary_remove(path);
    qn_synth_temporary_remove("");
}

static void test_nothing_is_left_of_a_failure(void **state)
{
    (void)state;
    char path[QN_TEMPORARY_PATH_BYTES];
    qn_synth_result result;
    qn_error err;
    qn_synth_options options = options_for("tests/data/absent.json");
    assert_int_equal(qn_synth_temporary(&options, path, &result, &err), QN_BAD_INPUT);
    assert_string_equal(path, "");
    options = options_for(CONFIG);
    qn_fault_arm(QN_FAULT_WRITE, 3);
    assert_int_equal(qn_synth_temporary(&options, path, &result, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_int_equal(scratch_entries(scratch), 0);
}

static void test_no_folder_for_it(void **state)
{
    (void)state;
    char path[QN_TEMPORARY_PATH_BYTES], absent[SCRATCH_PATH_BYTES];
    const qn_synth_options options = options_for(CONFIG);
    qn_synth_result result;
    qn_error err;
    scratch_path(scratch, "absent", absent);
    setenv("TMPDIR", absent, 1);
    assert_int_not_equal(qn_synth_temporary(&options, path, &result, &err), QN_OK);
    assert_non_null(strstr(err.message, "absent"));
    assert_string_equal(path, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_made_and_removed, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_nothing_is_left_of_a_failure, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(test_no_folder_for_it, make_scratch, remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
