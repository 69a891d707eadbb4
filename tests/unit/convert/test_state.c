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
#include "convert/shard_file.h"
#include "convert/state.h"
#include "support.h"

static char folder[SUPPORT_PATH_BYTES], dst[SUPPORT_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    support_path(folder, "out", dst);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

static qn_manifest *make_settings(const char *rule)
{
    qn_manifest *settings = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&settings, &err), QN_OK);
    assert_int_equal(qn_manifest_set(settings, "rule", rule, &err), QN_OK);
    assert_int_equal(qn_manifest_set(settings, "size", "1", &err), QN_OK);
    return settings;
}

static void test_the_first_run_sets_what_all_others_need(void **state)
{
    (void)state;
    qn_manifest *mine = make_settings("a"), *other = make_settings("b");
    qn_file_lock *first = NULL, *second = NULL;
    qn_error err;
    assert_int_equal(qn_state_check(dst, other, &err), QN_OK); /* there is none yet */
    assert_false(qn_state_exists(dst));
    assert_int_equal(qn_state_join(dst, mine, NULL, &first, &err), QN_OK);
    assert_true(qn_state_exists(dst));
    assert_int_equal(qn_state_join(dst, mine, NULL, &second, &err), QN_OK);
    qn_file_lock_release(second);
    second = NULL;
    assert_int_equal(qn_state_check(dst, mine, &err), QN_OK);
    assert_int_equal(qn_state_check(dst, other, &err), QN_USAGE);
    assert_int_equal(qn_state_join(dst, other, NULL, &second, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "was begun with rule a, and this run has b"));
    assert_null(second);
    assert_int_equal(qn_manifest_set(mine, "more", "x", &err), QN_OK);
    assert_int_equal(qn_state_check(dst, mine, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "more unset"));
    qn_file_lock_release(first);
    qn_manifest_free(other);
    qn_manifest_free(mine);
}

static void test_who_finalizes_is_alone(void **state)
{
    (void)state;
    qn_manifest *settings = make_settings("a");
    qn_file_lock *run = NULL, *alone = NULL;
    atomic_bool stop = true;
    qn_error err;
    assert_int_equal(qn_state_join(dst, settings, NULL, &run, &err), QN_OK);
    assert_int_equal(qn_state_close_session(dst, &stop, &alone, &err), QN_CANCELLED);
    qn_file_lock_release(run);
    run = NULL;
    assert_int_equal(qn_state_close_session(dst, NULL, &alone, &err), QN_OK);
    assert_int_equal(qn_state_join(dst, settings, &stop, &run, &err), QN_CANCELLED);
    assert_null(run);
    qn_file_lock_release(alone);
    qn_manifest_free(settings);
}

static void test_a_file_is_one_runs(void **state)
{
    (void)state;
    qn_manifest *settings = make_settings("a");
    qn_file_lock *run = NULL, *a = NULL, *b = NULL, *other = NULL;
    char holder[QN_LOCK_HOLDER_BYTES] = "";
    qn_error err;
    assert_int_equal(qn_state_join(dst, settings, NULL, &run, &err), QN_OK);
    assert_int_equal(qn_state_lock_file(dst, "a", &a, holder, &err), QN_OK);
    assert_non_null(a);
    assert_int_equal(qn_state_lock_file(dst, "a", &other, holder, &err), QN_OK);
    assert_null(other);
    assert_memory_equal(holder, "pid ", 4);
    assert_int_equal(qn_state_lock_file(dst, "b", &b, holder, &err), QN_OK);
    assert_non_null(b);
    qn_file_lock_release(b);
    qn_file_lock_release(a);
    qn_file_lock_release(run);
    qn_manifest_free(settings);
}

static void test_removed_even_where_an_end_left_half_of_it(void **state)
{
    (void)state;
    qn_manifest *settings = make_settings("a");
    qn_file_lock *run = NULL;
    char old[SUPPORT_PATH_BYTES], file[SUPPORT_PATH_BYTES];
    qn_error err;
    assert_int_equal(qn_state_remove(folder, &err), QN_OK); /* nothing there */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(qn_state_join(dst, settings, NULL, &run, &err), QN_OK);
        qn_file_lock_release(run);
        run = NULL;
        if (i == 1) {
            assert_int_equal(mkdir(support_path(dst, QN_CONVERT_FOLDER ".old", old), 0777), 0);
            assert_int_equal(qn_file_write(support_path(old, "settings.json", file), "x", 1, &err), QN_OK);
        }
        assert_int_equal(qn_state_remove(dst, &err), QN_OK);
        assert_false(qn_state_exists(dst));
        assert_int_equal(rmdir(dst), 0); /* nothing is left in it */
    }
    qn_manifest_free(settings);
}

static void test_folders_that_cannot_be(void **state)
{
    (void)state;
    qn_manifest *settings = make_settings("a");
    qn_file_lock *run = NULL;
    char path[SUPPORT_PATH_BYTES];
    qn_error err;
    assert_int_equal(qn_state_join(support_path(folder, "no/such", path), settings, NULL, &run, &err), QN_USAGE);
    assert_int_equal(qn_file_write(support_path(folder, "file", path), "x", 1, &err), QN_OK);
    assert_int_equal(qn_state_join(path, settings, NULL, &run, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "is not a folder"));
    qn_manifest_free(settings);
}

static void test_each_fault_is_an_error(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ, QN_FAULT_WRITE};
    qn_manifest *settings = make_settings("a");
    for (size_t k = 0; k < 3; k++) {
        bool reached = true;
        for (long nth = 1; reached; nth++) {
            qn_file_lock *run = NULL, *again = NULL;
            qn_error err;
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_state_join(dst, settings, NULL, &run, &err);
            if (status == QN_OK)
                status = qn_state_join(dst, settings, NULL, &again, &err);
            qn_file_lock_release(again);
            qn_file_lock_release(run);
            if (status == QN_OK)
                status = qn_state_remove(dst, &err);
            reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true(status == QN_OK || status == QN_RESOURCE);
            if (!reached)
                assert_int_equal(status, QN_OK);
        }
    }
    qn_manifest_free(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_first_run_sets_what_all_others_need, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_who_finalizes_is_alone, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_file_is_one_runs, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_removed_even_where_an_end_left_half_of_it, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_folders_that_cannot_be, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_fault_is_an_error, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
