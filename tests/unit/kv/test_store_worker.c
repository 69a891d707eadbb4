/* What the store's threads do when files and disk are not as they should be. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "store_support.h"

enum { ROOMY = 64 };

static void flip_byte(uint64_t chain, uint64_t index, long at)
{
    char *path = test_path(chain, index);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, at, SEEK_SET), 0);
    int byte = fgetc(stream);
    assert_int_equal(fseek(stream, at, SEEK_SET), 0);
    fputc(byte ^ 1, stream);
    fclose(stream);
    qn_free(path);
}

static void test_a_bad_file_is_removed_and_written_anew(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, ROOMY);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    flip_byte(1, 1, 4096 + 100);
    assert_int_equal(test_read(store, &waker, 1, 1), 0);
    assert_false(test_has(store, 1, 1));
    assert_true(test_has(store, 1, 2));
    assert_int_equal(test_state(store).blocks, 2);
    assert_int_equal(test_state(store).bytes, 2 * TEST_FILE_BYTES);
    assert_int_equal(test_state(store).failed_reads, 1);
    assert_int_equal(test_files(NULL), 2);
    assert_int_equal(test_write(store, &waker, 1, 1), 1);
    assert_int_equal(test_read(store, &waker, 1, 1), 1);

    char *path = test_path(1, 2); /* removed by somebody else */
    assert_int_equal(unlink(path), 0);
    qn_free(path);
    assert_int_equal(test_read(store, &waker, 1, 2), 0);
    assert_false(test_has(store, 1, 2));
    qn_kv_store_close(store);
    test_lines_end();
    assert_non_null(strstr(test_lines, "KV store: removed /tmp/"));
    assert_non_null(strstr(test_lines, "is damaged (checksum of the contents)"));
}

static void test_other_tokens_than_the_stored_are_no_hit(void **state)
{
    (void)state;
    test_waker waker;
    uint8_t block[TEST_BLOCK_BYTES] = {0};
    int32_t ids[TEST_BLOCK_TOKENS];
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, ROOMY);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    test_ids(1, 0, ids);
    ids[0]++;
    assert_true(qn_kv_store_read(store, test_parent(1, 0), test_key(1, 0), ids, block, NULL));
    assert_false(test_wait(store, &waker).ok);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    test_ids(1, 0, ids);
    assert_true(qn_kv_store_read(store, test_key(5, 5), test_key(1, 0), ids, block, NULL));
    assert_false(test_wait(store, &waker).ok);
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_a_read_of_a_block_queued_for_writing_waits_for_it(void **state)
{
    (void)state;
    static uint8_t source[TEST_BLOCK_BYTES], target[TEST_BLOCK_BYTES], other[TEST_BLOCK_BYTES];
    test_waker waker;
    int32_t ids[TEST_BLOCK_TOKENS];
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, ROOMY);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    assert_int_equal(test_write(store, &waker, 1, 1), 1);
    test_waker_hold(&waker);
    test_fill(2, 0, source);
    test_ids(2, 0, ids);
    assert_true(qn_kv_store_write(store, test_parent(2, 0), test_key(2, 0), ids, source, source));
    assert_true(qn_kv_store_read(store, test_parent(2, 0), test_key(2, 0), ids, target, target));
    test_ids(1, 1, ids);
    assert_true(qn_kv_store_read(store, test_parent(1, 1), test_key(1, 1), ids, other, other));
    test_waker_release(&waker);
    bool seen_write = false;
    for (int i = 0; i < 3; i++) {
        qn_kv_store_done done = test_wait(store, &waker);
        assert_true(done.ok);
        seen_write = seen_write || done.tag == source;
        assert_true(done.tag != target || seen_write);
    }
    assert_true(test_is_filled(2, 0, target));
    assert_true(test_is_filled(1, 1, other));
    qn_kv_store_close(store);
    test_lines_end();
}

static void test_a_chain_longer_than_the_store_keeps_its_head(void **state)
{
    (void)state;
    enum { BOUND = 5, LENGTH = 20 };
    static uint8_t blocks[LENGTH][TEST_BLOCK_BYTES];
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, BOUND);
    assert_int_equal(test_write(store, &waker, 9, 0), 1);
    size_t queued = 0;
    for (uint64_t i = 0; i < LENGTH; i++) {
        int32_t ids[TEST_BLOCK_TOKENS];
        test_fill(1, i, blocks[i]);
        test_ids(1, i, ids);
        queued += qn_kv_store_write(store, test_parent(1, i), test_key(1, i), ids, blocks[i], NULL);
    }
    for (; queued > 0; queued--)
        test_wait(store, &waker);
    assert_false(test_has(store, 9, 0));
    for (uint64_t i = 0; i < LENGTH; i++)
        assert_int_equal(test_has(store, 1, i), i < BOUND);
    assert_int_equal(test_write(store, &waker, 1, BOUND + 1), -1); /* its parent is not there */
    assert_int_equal(test_write(store, &waker, 1, BOUND + 2), -1);
    assert_int_equal(test_write(store, &waker, 1, BOUND), 0); /* nothing but its own chain could go */
    assert_int_equal(test_files(NULL), BOUND);
    assert_int_equal(test_write(store, &waker, 8, 0), 1); /* another chain takes from the end */
    assert_false(test_has(store, 1, BOUND - 1));
    qn_kv_store_close(store);
    test_lines_end();
    assert_null(strstr(test_lines, "writes nothing")); /* no failure of the disk */
}

static qn_kv_store *open_with_retry(test_waker *waker, uint64_t retry_us)
{
    qn_kv_store_options options = test_options(waker, ROOMY);
    qn_kv_store *store = NULL;
    qn_error err;
    options.retry_us = retry_us;
    if (qn_kv_store_open(&options, &store, &err) != QN_OK)
        fail_msg("%s", err.message);
    return store;
}

static size_t count_lines(const char *text)
{
    size_t count = 0;
    for (const char *at = test_lines; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void test_a_failed_write_stops_writing_for_a_while(void **state)
{
    (void)state;
    const uint64_t hour_us = 3600u * 1000000u;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = open_with_retry(&waker, hour_us);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    qn_fault_arm(QN_FAULT_WRITE, 2);
    assert_int_equal(test_write(store, &waker, 1, 1), 0);
    qn_fault_disarm();
    for (uint64_t i = 1; i < 5; i++)
        assert_int_equal(test_write(store, &waker, 1, i), -1);
    assert_int_equal(test_read(store, &waker, 1, 0), 1);
    qn_kv_store_close(store);
    assert_int_equal(count_lines("writes nothing for a while: "), 1);
    assert_non_null(strstr(test_lines, "No space left on device"));

    store = open_with_retry(&waker, 1);
    qn_fault_arm(QN_FAULT_WRITE, 2);
    assert_int_equal(test_write(store, &waker, 1, 1), 0);
    qn_fault_disarm();
    assert_int_equal(test_write(store, &waker, 1, 1), 1);
    assert_int_equal(test_write(store, &waker, 1, 2), 1);
    qn_kv_store_close(store);
    test_lines_end();
    assert_int_equal(test_files(NULL), 3);
}

static void test_every_fault_of_an_eviction_is_survived(void **state)
{
    (void)state;
    test_waker waker;
    test_lines_begin();
    for (long nth = 1; nth < 6; nth++) {
        qn_kv_store_options options = test_options(&waker, 2);
        qn_kv_store *store = NULL;
        qn_error err;
        options.retry_us = 1;
        assert_int_equal(qn_kv_store_open(&options, &store, &err), QN_OK);
        for (uint64_t i = 0; i < 3; i++)
            assert_int_not_equal(test_write(store, &waker, (uint64_t)nth * 10 + i, 0), 0);
        qn_fault_arm(QN_FAULT_WRITE, nth);
        test_write(store, &waker, (uint64_t)nth * 10 + 5, 0);
        qn_fault_disarm();
        assert_true(test_state(store).bytes <= 2 * TEST_FILE_BYTES);
        qn_kv_store_close(store);
        assert_true(test_files(NULL) <= 2);
        assert_int_equal(test_temporaries(), 0);
    }
    test_lines_end();
}

static void test_a_limit_on_file_sizes_only_stops_writing(void **state)
{
    (void)state;
    struct rlimit before;
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = open_with_retry(&waker, 1);
    assert_int_equal(test_write(store, &waker, 1, 0), 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 8192, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int result = test_write(store, &waker, 1, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(result, 0);
    assert_int_equal(test_files(NULL), 1);
    assert_int_equal(test_write(store, &waker, 1, 1), 1);
    assert_int_equal(test_read(store, &waker, 1, 1), 1);
    qn_kv_store_close(store);
    test_lines_end();
    assert_non_null(strstr(test_lines, "File too large"));
}

static void test_a_full_disk_only_stops_writing(void **state)
{
    (void)state;
    test_waker waker;
    if (mount("quern-test", test_folder, "tmpfs", 0, "size=64k") != 0) {
        print_message("SKIPPED: no right to mount a small file system (%s)\n", strerror(errno));
        skip();
    }
    test_lines_begin();
    qn_kv_store *store = open_with_retry(&waker, 1);
    uint64_t stored = 0;
    while (stored < ROOMY && test_write(store, &waker, 1, stored) == 1)
        stored++;
    bool readable = stored > 0 && stored < ROOMY;
    for (uint64_t i = 0; i < stored; i++)
        readable = readable && test_read(store, &waker, 1, i) == 1;
    size_t temporaries = test_temporaries(), files = test_files(NULL);
    qn_kv_store_close(store);
    store = open_with_retry(&waker, 1);
    size_t blocks = test_state(store).blocks;
    qn_kv_store_close(store);
    test_lines_end();
    assert_int_equal(umount(test_folder), 0);
    assert_true(readable);
    assert_int_equal(temporaries, 0);
    assert_int_equal(files, stored);
    assert_int_equal(blocks, stored);
    assert_non_null(strstr(test_lines, "No space left on device"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_bad_file_is_removed_and_written_anew),
        TEST(test_other_tokens_than_the_stored_are_no_hit),
        TEST(test_a_read_of_a_block_queued_for_writing_waits_for_it),
        TEST(test_a_chain_longer_than_the_store_keeps_its_head),
        TEST(test_a_failed_write_stops_writing_for_a_while),
        TEST(test_every_fault_of_an_eviction_is_survived),
        TEST(test_a_limit_on_file_sizes_only_stops_writing),
        TEST(test_a_full_disk_only_stops_writing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
