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

enum { FILE_BYTES = 3 * QN_DIRECT_ALIGNMENT + 1234 };

static char path[32];
static uint8_t content[FILE_BYTES];

static int make_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (uint8_t)(i * 7 + i / 251);
    strcpy(path, "/tmp/quern-direct-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, FILE_BYTES), FILE_BYTES);
    close(fd);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* Opens the file directly, or as where the file system refuses that. */
static qn_direct_reader *open_reader(bool buffered)
{
    qn_direct_reader *reader = NULL;
    qn_error err;
    if (buffered)
        qn_fault_arm(QN_FAULT_READ, 1);
    qn_status status = qn_direct_reader_open(path, &reader, &err);
    qn_fault_disarm();
    assert_int_equal(status, QN_OK);
    if (buffered)
        assert_true(qn_direct_reader_is_buffered(reader));
    return reader;
}

static void test_any_range_is_read(void **state)
{
    (void)state;
    static const size_t cuts[] = {0,    1,    4095,     4096,         4097,           8191,
                                  8192, 8193, 3 * 4096, 3 * 4096 + 1, FILE_BYTES - 1, FILE_BYTES};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    for (int buffered = 0; buffered < 2; buffered++) {
        qn_direct_reader *reader = open_reader(buffered);
        assert_int_equal(qn_direct_reader_bytes(reader), FILE_BYTES);
        for (size_t a = 0; a < CUTS; a++) {
            for (size_t b = a; b < CUTS; b++) {
                size_t bytes = cuts[b] - cuts[a], buffer_bytes = qn_direct_buffer_bytes(bytes);
                void *buffer = qn_direct_buffer_new(buffer_bytes);
                const uint8_t *data = NULL;
                qn_error err;
                assert_non_null(buffer);
                assert_int_equal(qn_direct_read(reader, cuts[a], bytes, buffer, &data, &err), QN_OK);
                assert_memory_equal(data, content + cuts[a], bytes);
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
            qn_direct_reader *reader = open_reader(buffered);
            assert_int_equal(truncate(path, (off_t)lengths[i]), 0);
            size_t buffer_bytes = qn_direct_buffer_bytes(FILE_BYTES);
            void *buffer = qn_direct_buffer_new(buffer_bytes);
            const uint8_t *data = NULL;
            qn_error err;
            assert_int_equal(qn_direct_read(reader, 50, FILE_BYTES - 50, buffer, &data, &err), QN_BAD_INPUT);
            assert_non_null(strstr(err.message, path));
            assert_non_null(strstr(err.message, "it was truncated"));
            qn_direct_buffer_free(buffer, buffer_bytes);
            qn_direct_reader_close(reader);
            assert_int_equal(qn_file_write(path, content, FILE_BYTES, &err), QN_OK);
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
    assert_int_equal(qn_direct_reader_open(path, &reader, &err), QN_RESOURCE);
    qn_fault_arm(QN_FAULT_ALLOC, 2);
    assert_int_equal(qn_direct_reader_open(path, &reader, &err), QN_RESOURCE);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_null(qn_direct_buffer_new(QN_DIRECT_ALIGNMENT));
    qn_fault_disarm();
    assert_null(qn_direct_buffer_new(qn_direct_buffer_bytes(SIZE_MAX)));

    reader = open_reader(true);
    uint8_t byte;
    const uint8_t *data = NULL;
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_direct_read(reader, 0, 1, &byte, &data, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, path));
    qn_direct_reader_close(reader);
    qn_direct_reader_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_range_is_read, make_file, remove_file),
        cmocka_unit_test_setup_teardown(test_a_file_cut_off_while_open_is_an_error, make_file, remove_file),
        cmocka_unit_test(test_what_is_no_file_is_refused),
        cmocka_unit_test_setup_teardown(test_each_fault_is_an_error, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
