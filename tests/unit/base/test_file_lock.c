#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file_lock.h"

static char folder[32], path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/quern-lock-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.lock", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static qn_file_lock *try_lock(qn_lock_mode mode, char holder[QN_LOCK_HOLDER_BYTES])
{
    qn_file_lock *lock = NULL;
    qn_error err;
    if (qn_file_lock_try(path, mode, &lock, holder, &err) != QN_OK)
        fail_msg("%s", err.message);
    return lock;
}

static void test_modes_exclude_each_other_as_they_should(void **state)
{
    (void)state;
    char holder[QN_LOCK_HOLDER_BYTES];
    qn_file_lock *a = try_lock(QN_LOCK_SHARED, holder), *b = try_lock(QN_LOCK_SHARED, holder);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(try_lock(QN_LOCK_EXCLUSIVE, holder));
    qn_file_lock_release(a);
    assert_null(try_lock(QN_LOCK_EXCLUSIVE, holder));
    qn_file_lock_release(b);
    a = try_lock(QN_LOCK_EXCLUSIVE, holder);
    assert_non_null(a);
    assert_null(try_lock(QN_LOCK_SHARED, holder));
    assert_null(try_lock(QN_LOCK_EXCLUSIVE, holder));
    char expected[QN_LOCK_HOLDER_BYTES];
    snprintf(expected, sizeof expected, "pid %ld on ", (long)getpid());
    assert_memory_equal(holder, expected, strlen(expected));
    qn_file_lock_release(a);
    qn_file_lock_release(NULL);
}

static void test_the_end_of_a_process_releases_its_lock(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0, holder[QN_LOCK_HOLDER_BYTES];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (try_lock(QN_LOCK_EXCLUSIVE, holder) && write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_null(try_lock(QN_LOCK_EXCLUSIVE, holder));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    qn_file_lock *lock = try_lock(QN_LOCK_EXCLUSIVE, holder);
    assert_non_null(lock);
    qn_file_lock_release(lock);
    close(ready[0]);
    close(ready[1]);
}

static void test_a_removed_file_locks_nothing(void **state)
{
    (void)state;
    char holder[QN_LOCK_HOLDER_BYTES];
    qn_file_lock *old = try_lock(QN_LOCK_EXCLUSIVE, holder);
    unlink(path);
    qn_file_lock *lock = try_lock(QN_LOCK_EXCLUSIVE, holder);
    assert_non_null(lock);
    assert_int_equal(access(path, F_OK), 0);
    qn_file_lock_release(old);
    assert_null(try_lock(QN_LOCK_EXCLUSIVE, holder));
    qn_file_lock_release(lock);
}

static void test_waiting_ends_with_the_lock_or_the_wish_to_stop(void **state)
{
    (void)state;
    char holder[QN_LOCK_HOLDER_BYTES];
    qn_file_lock *lock = try_lock(QN_LOCK_EXCLUSIVE, holder), *second = NULL;
    atomic_bool stop = true;
    qn_error err;
    assert_int_equal(qn_file_lock_wait(path, QN_LOCK_SHARED, &stop, &second, &err), QN_CANCELLED);
    assert_null(second);
    assert_non_null(strstr(err.message, "pid "));
    qn_file_lock_release(lock);
    assert_int_equal(qn_file_lock_wait(path, QN_LOCK_SHARED, NULL, &second, &err), QN_OK);
    assert_non_null(second);
    qn_file_lock_release(second);
}

static void test_each_fault_is_an_error(void **state)
{
    (void)state;
    static const struct {
        qn_fault_kind kind;
        long nth;
    } faults[] = {{QN_FAULT_ALLOC, 1}, {QN_FAULT_WRITE, 1}, {QN_FAULT_WRITE, 2}};
    for (size_t i = 0; i < 3; i++) {
        char holder[QN_LOCK_HOLDER_BYTES];
        qn_file_lock *lock = NULL;
        qn_error err;
        qn_fault_arm(faults[i].kind, faults[i].nth);
        assert_int_equal(qn_file_lock_try(path, QN_LOCK_EXCLUSIVE, &lock, holder, &err), QN_RESOURCE);
        qn_fault_disarm();
        assert_null(lock);
    }
    char holder[QN_LOCK_HOLDER_BYTES];
    qn_file_lock *lock = try_lock(QN_LOCK_EXCLUSIVE, holder);
    assert_non_null(lock);
    qn_file_lock_release(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_modes_exclude_each_other_as_they_should, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_the_end_of_a_process_releases_its_lock, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_removed_file_locks_nothing, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_waiting_ends_with_the_lock_or_the_wish_to_stop, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(test_each_fault_is_an_error, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
