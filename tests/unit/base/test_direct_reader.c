#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/direct_reader.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "read_file.h"

static void test_any_range_is_read(void **state)
{
    (void)state;
    static const size_t cuts[] = {
        0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 3 * 4096, 3 * 4096 + 1, READ_FILE_BYTES - 1, READ_FILE_BYTES};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    for (int buffered = 0; buffered < 2; buffered++) {
        qn_direct_reader *reader = open_read_file(buffered);
        assert_int_equal(qn_direct_reader_bytes(reader), READ_FILE_BYTES);
        for (size_t a = 0; a < CUTS; a++) {
            for (size_t b = a; b < CUTS; b++) {
                size_t bytes = cuts[b] - cuts[a], buffer_bytes = qn_direct_buffer_bytes(bytes);
                void *buffer = qn_direct_buffer_new(buffer_bytes);
                const uint8_t *data = NULL;
                qn_error err;
                assert_non_null(buffer);
                assert_int_equal(qn_direct_read(reader, cuts[a], bytes, buffer, &data, &err), QN_OK);
                assert_memory_equal(data, read_file_content + cuts[a], bytes);
                qn_direct_buffer_free(buffer, buffer_bytes);
            }
        }
        qn_direct_reader_close(reader);
    }
}

static void test_a_file_cut_off_while_open_is_an_error(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 100, QN_DIRECT_ALIGNMENT, 2 * QN_DIRECT_ALIGNMENT + 7};
    for (int buffered = 0; buffered < 2; buffered++) {
        for (size_t i = 0; i < 4; i++) {
            qn_direct_reader *reader = open_read_file(buffered);
            assert_int_equal(truncate(read_file_path, (off_t)lengths[i]), 0);
            size_t buffer_bytes = qn_direct_buffer_bytes(READ_FILE_BYTES);
            void *buffer = qn_direct_buffer_new(buffer_bytes);
            const uint8_t *data = NULL;
            qn_error err;
            assert_int_equal(qn_direct_read(reader, 50, READ_FILE_BYTES - 50, buffer, &data, &err), QN_BAD_INPUT);
            assert_non_null(strstr(err.message, read_file_path));
            assert_non_null(strstr(err.message, "it was truncated"));
            qn_direct_buffer_free(buffer, buffer_bytes);
            qn_direct_reader_close(reader);
            assert_int_equal(qn_file_write(read_file_path, read_file_content, READ_FILE_BYTES, &err), QN_OK);
        }
    }
}

static void test_what_is_no_file_is_refused(void **state)
{
    (void)state;
    qn_direct_reader *reader = NULL;
    qn_error err;
    assert_int_equal(qn_direct_reader_open("/tmp", &reader, &err), QN_BAD_INPUT);
    assert_int_equal(qn_direct_reader_open("/dev/null", &reader, &err), QN_BAD_INPUT);
    assert_int_equal(qn_direct_reader_open("/tmp/quern-no-such-file", &reader, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "no such file"));
    assert_null(reader);
}

static void test_each_fault_is_an_error(void **state)
{
    (void)state;
    qn_direct_reader *reader = NULL;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_direct_reader_open(read_file_path, &reader, &err), QN_RESOURCE);
    qn_fault_arm(QN_FAULT_ALLOC, 2);
    assert_int_equal(qn_direct_reader_open(read_file_path, &reader, &err), QN_RESOURCE);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_null(qn_direct_buffer_new(QN_DIRECT_ALIGNMENT));
    qn_fault_disarm();
    assert_null(qn_direct_buffer_new(qn_direct_buffer_bytes(SIZE_MAX)));

    reader = open_read_file(true);
    uint8_t byte;
    const uint8_t *data = NULL;
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_direct_read(reader, 0, 1, &byte, &data, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, read_file_path));
    qn_direct_reader_close(reader);
    qn_direct_reader_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_range_is_read, make_read_file, remove_read_file),
        cmocka_unit_test_setup_teardown(test_a_file_cut_off_while_open_is_an_error, make_read_file, remove_read_file),
        cmocka_unit_test(test_what_is_no_file_is_refused),
        cmocka_unit_test_setup_teardown(test_each_fault_is_an_error, make_read_file, remove_read_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
