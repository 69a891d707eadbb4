/* The store as the engine sees it. Its threads are joined by close, so lines are read after it. */
#include <setjmp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "store_support.h"

enum { ROOMY = 64 };

static void test_what_was_written_is_read_after_a_restart(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, ROOMY);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    assert_int_equal(test_write(store, &waker, 1, 3), -1); /* is there */
    assert_int_equal(test_read(store, &waker, 1, 2), 1);
    assert_int_equal(test_read(store, &waker, 1, 5), -1);
    qn_kv_store_close(store);
    assert_non_null(strstr(test_lines, ": 0 blocks, 0 B of at most 768.0 KiB, 0 tokens\n"));

    test_lines_begin();
    store = test_open(&waker, ROOMY);
    qn_hash keys[7];
    for (uint64_t i = 0; i < 7; i++)
        keys[i] = test_key(1, i);
    assert_int_equal(qn_kv_store_find(store, keys, 7), 5);
    assert_int_equal(qn_kv_store_find(store, keys + 2, 2), 2);
    assert_int_equal(qn_kv_store_find(store, keys + 5, 2), 0);
    assert_int_equal(qn_kv_store_find(store, keys, 0), 0);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(test_read(store, &waker, 1, i), 1);
    qn_kv_store_state counts = test_state(store);
    assert_int_equal(counts.blocks, 5);
    assert_int_equal(counts.bytes, 5 * TEST_FILE_BYTES);
    assert_int_equal(counts.reads, 5);
    assert_int_equal(counts.writes + counts.failed_reads + counts.evictions, 0);
    qn_kv_store_close(store);
    qn_kv_store_close(NULL);
    test_lines_end();
    assert_non_null(strstr(test_lines, ": 5 blocks, 60.0 KiB of at most 768.0 KiB, 80 tokens\n"));
    assert_int_equal(test_files(NULL), 5);
}

static void test_close_finishes_queued_writes(void **state)
{
    (void)state;
    static uint8_t blocks[40][TEST_BLOCK_BYTES];
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, ROOMY);
    for (uint64_t i = 0; i < 40; i++) {
        int32_t ids[TEST_BLOCK_TOKENS];
        test_fill(7, i, blocks[i]);
        test_ids(7, i, ids);
        assert_true(qn_kv_store_write(store, test_parent(7, i), test_key(7, i), ids, blocks[i], NULL));
    }
    assert_true(test_has(store, 7, 39));
    qn_kv_store_close(store);
    store = test_open(&waker, ROOMY);
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(test_read(store, &waker, 7, i), 1);
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_queues_are_bounded(void **state)
{
    (void)state;
    static uint8_t source[TEST_BLOCK_BYTES], targets[QN_KV_STORE_MAX_JOBS][TEST_BLOCK_BYTES];
    static qn_kv_store_done done[QN_KV_STORE_MAX_JOBS];
    test_waker waker;
    int32_t ids[TEST_BLOCK_TOKENS];
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 4 * QN_KV_STORE_MAX_JOBS);
    assert_int_equal(test_write(store, &waker, 0, 0), 1);
    test_waker_hold(&waker); /* the next completion holds the writer */
    uint64_t queued = 0;
    for (test_ids(1, 0, ids); qn_kv_store_write(store, test_parent(1, 0), test_key(1, queued), ids, source, NULL);)
        queued++;
    assert_in_range(queued, QN_KV_STORE_MAX_WRITES, QN_KV_STORE_MAX_WRITES + 1); /* one may be under way */
    assert_false(test_has(store, 1, queued));
    uint64_t reads = 0;
    for (test_ids(0, 0, ids); qn_kv_store_read(store, test_parent(0, 0), test_key(0, 0), ids, targets[reads], NULL);)
        reads++;
    assert_int_equal(queued + reads, QN_KV_STORE_MAX_JOBS);
    test_waker_release(&waker);
    for (size_t taken = 0; taken < QN_KV_STORE_MAX_JOBS;) {
        done[0] = test_wait(store, &waker);
        assert_true(done[0].ok);
        taken += 1 + qn_kv_store_take_done(store, done, QN_KV_STORE_MAX_JOBS);
    }
    assert_int_equal(test_state(store).writes, queued + 1);
    assert_int_equal(test_state(store).reads, reads);
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_the_least_recent_goes_first(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 4);
    for (uint64_t chain = 0; chain < 4; chain++)
        assert_int_equal(test_write(store, &waker, chain, 0), 1);
    assert_int_equal(test_read(store, &waker, 0, 0), 1);
    qn_hash touched = test_key(1, 0);
    qn_kv_store_touch(store, &touched, 1);
    assert_int_equal(test_write(store, &waker, 4, 0), 1);
    assert_false(test_has(store, 2, 0));
    assert_int_equal(test_write(store, &waker, 5, 0), 1);
    assert_false(test_has(store, 3, 0));
    assert_int_equal(test_write(store, &waker, 6, 0), 1);
    assert_false(test_has(store, 0, 0));
    assert_int_equal(test_state(store).evictions, 3);
    assert_int_equal(test_state(store).blocks, 4);
    assert_int_equal(test_files(NULL), 4);
    qn_kv_store_close(store);

    store = test_open(&waker, 4); /* what was touched too lately to be dated is as old as its file */
    assert_int_equal(test_read(store, &waker, 1, 0), 1);
    qn_kv_store_close(store);
    store = test_open(&waker, 4);
    assert_int_equal(test_write(store, &waker, 7, 0), 1);
    assert_false(test_has(store, 4, 0));
    assert_true(test_has(store, 1, 0));
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_a_touch_of_an_old_block_outlives_a_restart(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 2);
    assert_int_equal(test_write(store, &waker, 0, 0), 1);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    qn_kv_store_close(store);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}}, older[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    char *first = test_path(0, 0), *second = test_path(1, 0);
    assert_int_equal(utimensat(AT_FDCWD, first, older, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, second, old, 0), 0);
    qn_free(first);
    qn_free(second);
    store = test_open(&waker, 2);
    const qn_hash keys[2] = {test_key(9, 9), test_key(0, 0)};
    qn_kv_store_touch(store, keys, 2);
    qn_kv_store_close(store);
    store = test_open(&waker, 2);
    assert_int_equal(test_write(store, &waker, 2, 0), 1);
    assert_true(test_has(store, 0, 0));
    assert_false(test_has(store, 1, 0));
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_chains_go_from_their_ends(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 6);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    for (uint64_t i = 4; i-- > 0;) /* its head is the most recent */
        assert_int_equal(test_read(store, &waker, 1, i), 1);
    assert_int_equal(test_write(store, &waker, 2, 0), 1);
    assert_int_equal(test_write(store, &waker, 2, 1), 1);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(test_write(store, &waker, 3, i), 1);
        assert_false(test_has(store, 1, 3 - i));
        assert_true(test_has(store, 1, 2 - i));
    }
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_a_lower_bound_holds_from_the_start(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 8);
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    qn_kv_store_close(store);
    store = test_open(&waker, 3);
    assert_int_equal(test_state(store).evictions, 5);
    assert_int_equal(test_files(NULL), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_read(store, &waker, 1, i), 1);
    qn_kv_store_close(store);

    qn_kv_store_options options = test_options(&waker, 1);
    qn_error err;
    size_t bytes = qn_kv_store_bytes(&options);
    assert_true(bytes >= 3 * options.block_bytes && bytes < (4 << 20));
    options.max_bytes--;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "one block takes 12288"));
    options.block_tokens = QN_KV_FILE_MAX_TOKENS + 1;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_INTERNAL);
    test_lines_end();
}

static void test_blocks_of_another_model_are_not_read_and_go_first(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 4);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    qn_kv_store_close(store);
    qn_kv_store_options options = test_options(&waker, 4);
    options.fingerprint.low++;
    qn_error err;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_OK);
    assert_false(test_has(store, 1, 0));
    assert_int_equal(test_state(store).blocks, 0);
    assert_int_equal(test_state(store).bytes, TEST_FILE_BYTES);
    for (uint64_t i = 0; i < 3; i++) /* the same keys as the other's */
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    assert_int_equal(test_read(store, &waker, 1, 0), 1);
    qn_kv_store_close(store);
    assert_non_null(
        strstr(test_lines,
               ": 0 blocks, 0 B of at most 48.0 KiB, 0 tokens, and 12.0 KiB of other models, builds or options\n"));

    store = test_open(&waker, 4);
    assert_int_equal(test_read(store, &waker, 1, 0), 1);
    for (uint64_t i = 1; i < 4; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    assert_int_equal(test_state(store).blocks, 4);
    assert_int_equal(test_files(NULL), 4);
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_one_process_has_the_folder(void **state)
{
    (void)state;
    int ready[2];
    char byte = 0, expected[64];
    test_waker waker;
    test_lines_begin();
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        test_open(&waker, 4);
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    qn_kv_store_options options = test_options(&waker, 4);
    qn_kv_store *store = NULL;
    qn_error err;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_RESOURCE);
    snprintf(expected, sizeof expected, "is the KV store of pid %ld on ", (long)child);
    assert_non_null(strstr(err.message, expected));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    qn_kv_store_close(test_open(&waker, 4));
    close(ready[0]);
    close(ready[1]);
    test_lines_end();
}

static void test_what_is_no_folder_is_refused(void **state)
{
    (void)state;
    char path[128], deep[160];
    test_waker waker;
    qn_kv_store_options options = test_options(&waker, 4);
    qn_kv_store *store = NULL;
    qn_error err;
    test_lines_begin();
    snprintf(path, sizeof path, "%s/sub", test_folder);
    snprintf(deep, sizeof deep, "%s/deep", path);
    options.dir = deep;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_BAD_INPUT);
    options.dir = path;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_OK);
    qn_kv_store_close(store);
    snprintf(deep, sizeof deep, "%s/quern-kv.lock", path);
    options.dir = deep;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "is no folder"));
    test_lines_end();
}

static void test_each_failed_allocation_or_thread_is_an_error(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, 8);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    qn_kv_store_close(store);
    qn_kv_store_options options = test_options(&waker, 8);
    for (long nth = 1;; nth++) {
        qn_error err;
        store = NULL;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_kv_store_open(&options, &store, &err);
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            assert_true(nth > 16);
            break;
        }
        assert_int_equal(status, QN_RESOURCE);
        assert_null(store);
    }
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_read(store, &waker, 1, i), 1);
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_each_failed_allocation_of_a_job_loses_only_that(void **state)
{
    (void)state;
    test_waker waker;
    long tries[2] = {0, 0};
    test_lines_begin();
    qn_kv_store_options options = test_options(&waker, ROOMY);
    options.retry_us = 1;
    qn_kv_store *store = NULL;
    qn_error err;
    assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_OK);
    assert_int_equal(test_write(store, &waker, 0, 0), 1);
    for (int reading = 0; reading < 2; reading++) {
        for (bool failed = true; failed;) {
            long nth = ++tries[reading];
            qn_fault_arm(QN_FAULT_ALLOC, nth);
            int result = reading ? test_read(store, &waker, 0, 0) : test_write(store, &waker, (uint64_t)nth, 0);
            failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
            qn_fault_disarm();
            if (!failed)
                assert_int_equal(result, 1);
        }
    }
    assert_true(tries[0] > 3 && tries[1] > 3);
    assert_int_equal(test_read(store, &waker, 0, 0), 1); /* want of memory is no reason to remove a file */
    qn_kv_store_close(store);
    test_lines_end();
    assert_int_equal(test_temporaries(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_written_is_read_after_a_restart),
        TEST(test_close_finishes_queued_writes),
        TEST(test_queues_are_bounded),
        TEST(test_the_least_recent_goes_first),
        TEST(test_a_touch_of_an_old_block_outlives_a_restart),
        TEST(test_chains_go_from_their_ends),
        TEST(test_a_lower_bound_holds_from_the_start),
        TEST(test_blocks_of_another_model_are_not_read_and_go_first),
        TEST(test_one_process_has_the_folder),
        TEST(test_what_is_no_folder_is_refused),
        TEST(test_each_failed_allocation_or_thread_is_an_error),
        TEST(test_each_failed_allocation_of_a_job_loses_only_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
