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

#include "base/direct_reader.h"
#include "base/fault.h"
#include "base/memory.h"
#include "kv/store_file.h"
#include "store_support.h"

static uint8_t *buffer, file[TEST_FILE_BYTES + 1];
static size_t buffer_bytes;
static const int64_t RECENCY_NS = 1234567890123456789;

static int set_up(void **state)
{
    buffer_bytes = qn_direct_buffer_bytes(TEST_FILE_BYTES);
    buffer = qn_direct_buffer_new(buffer_bytes);
    return buffer ? test_folder_make(state) : -1;
}

static int tear_down(void **state)
{
    qn_direct_buffer_free(buffer, buffer_bytes);
    return test_folder_remove(state);
}

static qn_status write_one(const char *dir, qn_error *err)
{
    uint8_t block[TEST_BLOCK_BYTES];
    int32_t ids[TEST_BLOCK_TOKENS];
    qn_kv_header header = test_header(1, 1);
    test_fill(1, 1, block);
    test_ids(1, 1, ids);
    return qn_kv_file_write(dir, &header, ids, block, RECENCY_NS, buffer, err);
}

/* The block must be as before unless it was read. */
static qn_status read_as(const qn_kv_header *header, const int32_t *ids, qn_error *err)
{
    uint8_t block[TEST_BLOCK_BYTES] = {0}, zeros[TEST_BLOCK_BYTES] = {0};
    qn_status status = qn_kv_file_read(test_folder, header, ids, buffer, block, err);
    if (status == QN_OK)
        assert_true(test_is_filled(1, 1, block));
    else
        assert_memory_equal(block, zeros, sizeof block);
    return status;
}

static qn_status read_one(qn_error *err)
{
    int32_t ids[TEST_BLOCK_TOKENS];
    qn_kv_header header = test_header(1, 1);
    test_ids(1, 1, ids);
    return read_as(&header, ids, err);
}

static void load(const char *path)
{
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    assert_int_equal(fread(file, 1, sizeof file, stream), TEST_FILE_BYTES);
    fclose(stream);
}

static void store(const char *path, size_t bytes)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(file, 1, bytes, stream), bytes);
    fclose(stream);
}

static void test_a_block_comes_back_with_its_date(void **state)
{
    (void)state;
    qn_error err;
    struct stat info;
    char *path = test_path(1, 1);
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    assert_int_equal(read_one(&err), QN_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, TEST_FILE_BYTES);
    assert_int_equal(info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec, RECENCY_NS);
    qn_kv_header header = test_header(1, 1);
    qn_kv_file_date(test_folder, qn_kv_header_id(&header), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mtim.tv_sec, 0);
    assert_int_equal(info.st_mtim.tv_nsec, 1);
    assert_true(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
    assert_true(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(read_one(&err), QN_BAD_INPUT);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
    assert_non_null(strstr(err.message, "cannot remove"));
    qn_free(path);
}

static void test_no_cut_or_flipped_byte_is_taken_for_a_block(void **state)
{
    (void)state;
    qn_error err;
    char *path = test_path(1, 1);
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    load(path);
    for (size_t bytes = 0; bytes < TEST_FILE_BYTES; bytes += bytes < 4100 ? 1 : 997) {
        store(path, bytes);
        assert_int_equal(read_one(&err), QN_BAD_INPUT);
    }
    store(path, TEST_FILE_BYTES + 1);
    assert_int_equal(read_one(&err), QN_BAD_INPUT);
    for (size_t at = 0; at < TEST_FILE_BYTES; at++) {
        FILE *stream = fopen(path, "r+b");
        assert_non_null(stream);
        assert_int_equal(ftruncate(fileno(stream), TEST_FILE_BYTES), 0);
        if (at > 0) {
            assert_int_equal(fseek(stream, (long)at - 1, SEEK_SET), 0);
            fputc(file[at - 1], stream);
        }
        assert_int_equal(fseek(stream, (long)at, SEEK_SET), 0);
        fputc(file[at] ^ (1 << at % 8), stream);
        fclose(stream);
        assert_int_equal(read_one(&err), QN_BAD_INPUT);
    }
    store(path, TEST_FILE_BYTES);
    assert_int_equal(read_one(&err), QN_OK);
    qn_free(path);
}

/* The file lies where a block of `header` would. */
static void expect_mismatch(const qn_kv_header *header, const int32_t *ids, const char *reason)
{
    qn_error err;
    char *from = test_path(1, 1), *to = qn_kv_file_path(test_folder, qn_kv_header_id(header)), folder[128];
    assert_non_null(to);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(to, '/') - to), to);
    mkdir(folder, 0700);
    if (strcmp(from, to) != 0) {
        load(from);
        store(to, TEST_FILE_BYTES);
    }
    assert_int_equal(read_as(header, ids, &err), QN_BAD_INPUT);
    if (!strstr(err.message, reason))
        fail_msg("%s: no word of %s", err.message, reason);
    qn_free(to);
    qn_free(from);
}

static void test_what_does_not_agree_is_told(void **state)
{
    (void)state;
    qn_error err;
    int32_t ids[TEST_BLOCK_TOKENS];
    test_ids(1, 1, ids);
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    qn_kv_header header = test_header(1, 1);
    header.parent.low++;
    expect_mismatch(&header, ids, "other tokens");
    header = test_header(1, 1);
    header.key.high++;
    expect_mismatch(&header, ids, "another key");
    header = test_header(1, 1);
    header.fingerprint.low++;
    expect_mismatch(&header, ids, "another model");
    header = test_header(1, 1);
    header.block_bytes--; /* the same size of file */
    expect_mismatch(&header, ids, "another size");
    header = test_header(1, 1);
    header.block_tokens--;
    expect_mismatch(&header, ids, "another size");
    header = test_header(1, 1);
    ids[7]++;
    expect_mismatch(&header, ids, "other tokens");
}

static void test_folders_and_pipes_in_place_of_files_are_errors(void **state)
{
    (void)state;
    qn_error err;
    char *path = test_path(1, 1);
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_one(&err), QN_BAD_INPUT);
    unlink(path);
    assert_int_equal(symlink("/nowhere", path), 0);
    assert_int_equal(read_one(&err), QN_BAD_INPUT);
    assert_int_equal(write_one(test_folder, &err), QN_OK); /* the link is replaced, not followed */
    assert_int_equal(access("/nowhere", F_OK), -1);
    assert_int_equal(read_one(&err), QN_OK);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(write_one(test_folder, &err), QN_OK);
    assert_int_equal(test_temporaries(), 0);
    assert_int_equal(rmdir(path), 0);

    char *slash = strrchr(path, '/'); /* a link in place of the subfolder */
    *slash = '\0';
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_int_equal(write_one(test_folder, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "is no folder"));
    qn_free(path);
}

static void test_a_link_by_the_temporary_name_is_not_followed(void **state)
{
    (void)state;
    qn_error err;
    char temporary[128], victim[128];
    snprintf(temporary, sizeof temporary, "%s/%s", test_folder, QN_KV_TEMPORARY_NAME);
    snprintf(victim, sizeof victim, "%s/victim", test_folder);
    assert_int_equal(symlink(victim, temporary), 0);
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    assert_int_equal(access(victim, F_OK), -1);
    assert_int_equal(read_one(&err), QN_OK);
}

static void test_each_fault_of_a_write_leaves_no_file(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_WRITE, QN_FAULT_ALLOC};
    for (size_t kind = 0; kind < 2; kind++) {
        for (long nth = 1;; nth++) {
            qn_error err;
            qn_fault_arm(kinds[kind], nth);
            qn_status status = write_one(test_folder, &err);
            bool failed = qn_fault_seen(kinds[kind]) >= nth;
            qn_fault_disarm();
            if (!failed) {
                assert_int_equal(status, QN_OK);
                assert_true(nth > 2);
                break;
            }
            assert_int_equal(status, QN_RESOURCE);
            assert_int_equal(test_files(NULL), 0);
        }
        qn_kv_header header = test_header(1, 1);
        qn_error err;
        qn_fault_arm(QN_FAULT_WRITE, 1);
        assert_false(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
        qn_fault_arm(QN_FAULT_ALLOC, 1);
        assert_false(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
        qn_fault_disarm();
        assert_true(qn_kv_file_remove(test_folder, qn_kv_header_id(&header), &err));
    }
    qn_error err;
    assert_int_not_equal(write_one("/tmp/quern-store-nowhere", &err), QN_OK);
}

static void test_each_fault_of_a_read_is_an_error_or_got_around(void **state)
{
    (void)state;
    qn_error err;
    assert_int_equal(write_one(test_folder, &err), QN_OK);
    for (long nth = 1;; nth++) {
        qn_fault_arm(QN_FAULT_READ, nth);
        qn_status status = read_one(&err);
        bool failed = qn_fault_seen(QN_FAULT_READ) >= nth;
        qn_fault_disarm();
        if (!failed) {
            assert_int_equal(status, QN_OK);
            assert_true(nth > 3);
            return;
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_block_comes_back_with_its_date),
        TEST(test_no_cut_or_flipped_byte_is_taken_for_a_block),
        TEST(test_what_does_not_agree_is_told),
        TEST(test_folders_and_pipes_in_place_of_files_are_errors),
        TEST(test_a_link_by_the_temporary_name_is_not_followed),
        TEST(test_each_fault_of_a_write_leaves_no_file),
        TEST(test_each_fault_of_a_read_is_an_error_or_got_around),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
