#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "convert/convert.h"
#include "support.h"

static const char ORACLE[] = "tests/data/oracle/tiny-sharded";
static const char *const NAMES[] = {"config.json", "model.safetensors.index.json", "model-00001-of-00003.safetensors",
                                    "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"};
enum { SMALL = 2, ALL = 5 };

static char folder[SUPPORT_PATH_BYTES], source[SUPPORT_PATH_BYTES], good[SUPPORT_PATH_BYTES], out[SUPPORT_PATH_BYTES];

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static void fill_source(void)
{
    for (size_t i = 0; i < ALL; i++) {
        char from[SUPPORT_PATH_BYTES], to[SUPPORT_PATH_BYTES], *data = NULL;
        size_t bytes = 0;
        qn_error err;
        assert_int_equal(qn_file_read(support_path(ORACLE, NAMES[i], from), 1 << 30, &data, &bytes, &err), QN_OK);
        assert_int_equal(qn_file_write(support_path(source, NAMES[i], to), data, bytes, &err), QN_OK);
        qn_free(data);
    }
}

static qn_status convert(bool deleting, const char *to, qn_error *err)
{
    qn_convert_options options = support_options(source, to);
    qn_convert_result result;
    options.max_shard_bytes = 400000;
    options.delete_source_shards = deleting;
    return qn_convert(&options, &result, err);
}

static int make_folder(void **state)
{
    (void)state;
    qn_error err;
    qn_log_set_sink(drop_line, NULL);
    support_make(folder);
    support_path(folder, "source", source);
    support_path(folder, "good", good);
    support_path(folder, "out", out);
    assert_int_equal(mkdir(source, 0700), 0);
    fill_source();
    assert_int_equal(convert(false, good, &err), QN_OK);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    qn_log_set_sink(NULL, NULL);
    support_remove(folder);
    return 0;
}

static size_t weights_left(void)
{
    size_t left = 0;
    for (size_t i = SMALL; i < ALL; i++) {
        char path[SUPPORT_PATH_BYTES];
        left += access(support_path(source, NAMES[i], path), F_OK) == 0;
    }
    return left;
}

static void test_weights_go_and_config_and_index_stay(void **state)
{
    (void)state;
    qn_error err;
    assert_int_equal(convert(true, out, &err), QN_OK);
    assert_int_equal(weights_left(), 0);
    for (size_t i = 0; i < SMALL; i++) {
        char path[SUPPORT_PATH_BYTES];
        assert_int_equal(access(support_path(source, NAMES[i], path), F_OK), 0);
    }
    support_assert_same(good, out);
}

/* Whatever fails on the way, what is not in the output is still in the source: the next run ends well. */
static void test_a_failure_anywhere_loses_nothing(void **state)
{
    (void)state;
    for (qn_fault_kind kind = 0; kind < QN_FAULT_KINDS; kind++) {
        long seen = 1;
        for (long n = 1; seen >= n; n += 1 + n / 5) {
            qn_error err = {0};
            if (access(out, F_OK) == 0)
                support_remove(out);
            fill_source();
            qn_fault_arm(kind, n);
            qn_status status = convert(true, out, &err);
            seen = qn_fault_seen(kind);
            qn_fault_disarm();
            assert_true(status == QN_OK || status == err.status);
            if (status != QN_OK && convert(true, out, &err) != QN_OK)
                fail_msg("fault %d at %ld: then %s", (int)kind, n, err.message);
            assert_int_equal(weights_left(), 0);
            support_assert_same(good, out);
        }
    }
}

static void test_a_link_is_refused_before_anything_is_done(void **state)
{
    (void)state;
    qn_error err = {0};
    char path[SUPPORT_PATH_BYTES], moved[SUPPORT_PATH_BYTES];
    support_path(source, NAMES[ALL - 1], path);
    support_path(folder, "blob", moved);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    assert_int_equal(convert(true, out, &err), QN_USAGE);
    assert_string_equal(err.field, "delete-source-shards");
    assert_int_equal(weights_left(), 3);
}

static void test_a_tensor_that_the_index_does_not_know_keeps_its_file(void **state)
{
    (void)state;
    qn_error err = {0};
    char path[SUPPORT_PATH_BYTES], *data = NULL;
    size_t bytes = 0;
    support_path(source, NAMES[ALL - 1], path);
    assert_int_equal(qn_file_read(path, 1 << 30, &data, &bytes, &err), QN_OK);
    char *name = memmem(data, bytes, "lm_head.weight", 14);
    assert_non_null(name);
    name[0] = 'x';
    assert_int_equal(qn_file_write(path, data, bytes, &err), QN_OK);
    qn_free(data);
    assert_int_equal(convert(true, out, &err), QN_BAD_INPUT);
    assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_weights_go_and_config_and_index_stay, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_failure_anywhere_loses_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_link_is_refused_before_anything_is_done, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_tensor_that_the_index_does_not_know_keeps_its_file, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
