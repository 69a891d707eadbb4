/* What a store makes of the folder that it finds. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fault.h"
#include "base/memory.h"
#include "kv/store_file.h"
#include "kv/store_folder.h"
#include "store_support.h"

enum { BLOCKS = 6 };

/* Blocks of chain 1, with dates that rise by a second from 1000 s. */
static void make_blocks(void)
{
    test_waker waker;
    test_lines_begin();
    qn_kv_store *store = test_open(&waker, BLOCKS);
    for (uint64_t i = 0; i < BLOCKS; i++)
        assert_int_equal(test_write(store, &waker, 1, i), 1);
    qn_kv_store_close(store);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        qn_kv_header header = test_header(1, i);
        qn_kv_file_date(test_folder, qn_kv_header_id(&header), (int64_t)(1000 + i) * 1000000000);
    }
}

static qn_kv_index *read_folder(void)
{
    qn_kv_index *index = qn_kv_index_new(BLOCKS);
    qn_kv_header own = test_header(0, 0);
    qn_error err;
    test_lines_begin();
    if (qn_kv_folder_read(test_folder, &own, index, &err) != QN_OK)
        fail_msg("%s", err.message);
    test_lines_end();
    return index;
}

static qn_kv_entry *find(const qn_kv_index *index, uint64_t block)
{
    qn_kv_header header = test_header(1, block);
    return qn_kv_index_find(index, qn_kv_header_id(&header));
}

static void test_blocks_are_found_with_parents_and_dates(void **state)
{
    (void)state;
    make_blocks();
    char *path = test_path(1, 3);
    const struct timespec future[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = (time_t)1 << 33}};
    assert_int_equal(utimensat(AT_FDCWD, path, future, 0), 0);
    qn_free(path);
    qn_kv_index *index = read_folder();
    assert_string_equal(test_lines, "");
    assert_int_equal(qn_kv_index_blocks(index), BLOCKS);
    assert_int_equal(qn_kv_index_bytes(index), BLOCKS * TEST_FILE_BYTES);
    int64_t now_ns = qn_kv_index_tick(index);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        const qn_kv_entry *entry = find(index, i);
        assert_non_null(entry);
        assert_int_equal(entry->children, i + 1 < BLOCKS);
        assert_true(i == 3 ? entry->recency_ns <= now_ns : entry->recency_ns == (int64_t)(1000 + i) * 1000000000);
    }
    assert_ptr_equal(qn_kv_index_victim(index), find(index, BLOCKS - 1));
    qn_kv_index_free(index);
}

static void damage(uint64_t block, long at, off_t bytes)
{
    char *path = test_path(1, block);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    if (at >= 0) {
        assert_int_equal(fseek(stream, at, SEEK_SET), 0);
        fputc(0xee, stream);
    }
    fclose(stream);
    assert_int_equal(truncate(path, bytes), 0);
    qn_free(path);
}

static void test_damaged_files_and_temporaries_are_removed(void **state)
{
    (void)state;
    char temporary[128];
    make_blocks();
    damage(0, 50, TEST_FILE_BYTES);
    damage(1, -1, 0);
    damage(2, -1, TEST_FILE_BYTES - 1);
    damage(3, -1, (off_t)1 << 40); /* huge, on disks that can have holes */
    char *from = test_path(1, 4), *to = test_path(9, 9), *slash = strrchr(to, '/');
    *slash = '\0';
    mkdir(to, 0700);
    *slash = '/';
    assert_int_equal(rename(from, to), 0);
    qn_free(from);
    qn_free(to);
    snprintf(temporary, sizeof temporary, "%s/%s", test_folder, QN_KV_TEMPORARY_NAME);
    int fd = open(temporary, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    qn_kv_index *index = read_folder();
    assert_non_null(strstr(test_lines, ": removed 5 damaged KV blocks, one of them: "));
    assert_int_equal(qn_kv_index_blocks(index), 1);
    assert_non_null(find(index, 5));
    assert_int_equal(test_files(NULL), 1);
    qn_kv_index_free(index);
}

static void test_what_others_put_there_is_left_alone(void **state)
{
    (void)state;
    char path[200];
    make_blocks();
    static const char *const names[] = {"notes", "ab.kv", "00112233445566778899aabbccddeeff.kv"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", test_folder, names[i]);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_true(fd >= 0);
        close(fd);
    }
    char *first = test_path(1, 0), *second = test_path(1, 1), *third = test_path(1, 2);
    snprintf(path, sizeof path, "%s/moved", test_folder);
    assert_int_equal(rename(first, path), 0);
    assert_int_equal(symlink(path, first), 0);
    unlink(second);
    assert_int_equal(mkfifo(second, 0600), 0);
    unlink(third);
    assert_int_equal(mkdir(third, 0700), 0);
    qn_kv_index *index = read_folder();
    assert_non_null(strstr(test_lines, ": left out 3 files that cannot be read, one of them: "));
    assert_null(strstr(test_lines, "removed"));
    assert_int_equal(qn_kv_index_blocks(index), BLOCKS - 3);
    assert_int_equal(access(path, F_OK), 0);
    struct stat info;
    assert_true(lstat(first, &info) == 0 && S_ISLNK(info.st_mode));
    assert_true(lstat(second, &info) == 0 && S_ISFIFO(info.st_mode));
    qn_kv_index_free(index);
    qn_free(first);
    qn_free(second);
    qn_free(third);
}

static void test_a_linked_subfolder_is_not_entered(void **state)
{
    (void)state;
    char *path = test_path(1, 0), moved[160];
    make_blocks();
    *strrchr(path, '/') = '\0';
    snprintf(moved, sizeof moved, "%s/moved", test_folder);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    qn_kv_index *index = read_folder();
    assert_null(find(index, 0));
    assert_non_null(strstr(test_lines, "left out 1 files"));
    qn_kv_index_free(index);
    qn_free(path);
}

static void test_another_layout_is_told(void **state)
{
    (void)state;
    make_blocks();
    qn_kv_index *index = qn_kv_index_new(BLOCKS);
    qn_kv_header own = test_header(0, 0);
    own.block_tokens = 32;
    qn_error err;
    test_lines_begin();
    assert_int_equal(qn_kv_folder_read(test_folder, &own, index, &err), QN_OK);
    test_lines_end();
    assert_non_null(strstr(test_lines,
                           ": 6 KV blocks of this model lie there in another layout, such as 16 tokens in 4192 "
                           "bytes; this run has 32 in 4192: "));
    assert_int_equal(qn_kv_index_blocks(index), 0);
    assert_int_equal(qn_kv_index_bytes(index), BLOCKS * TEST_FILE_BYTES);
    assert_true(find(index, 0)->foreign);
    qn_kv_index_free(index);
}

static void test_a_failing_disk_removes_nothing(void **state)
{
    (void)state;
    make_blocks();
    for (long nth = 1;; nth++) {
        qn_fault_arm(QN_FAULT_READ, nth);
        qn_kv_index *index = read_folder();
        bool failed = qn_fault_seen(QN_FAULT_READ) >= nth;
        qn_fault_disarm();
        assert_int_equal(qn_kv_index_blocks(index), BLOCKS - failed);
        assert_int_equal(test_files(NULL), BLOCKS);
        qn_kv_index_free(index);
        if (!failed)
            break;
        assert_non_null(strstr(test_lines, ": left out 1 files"));
    }
    qn_kv_header own = test_header(0, 0);
    qn_kv_index *index = qn_kv_index_new(0);
    qn_error err;
    assert_int_equal(qn_kv_folder_read("/tmp/quern-store-nowhere", &own, index, &err), QN_BAD_INPUT);
    qn_kv_index_free(index);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, test_folder_make, test_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_blocks_are_found_with_parents_and_dates),
        TEST(test_damaged_files_and_temporaries_are_removed),
        TEST(test_what_others_put_there_is_left_alone),
        TEST(test_a_linked_subfolder_is_not_entered),
        TEST(test_another_layout_is_told),
        TEST(test_a_failing_disk_removes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
