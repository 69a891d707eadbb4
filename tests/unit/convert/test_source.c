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
#include "convert/source.h"
#include "support.h"

static const char SINGLE[] = "tests/data/oracle/tiny-mtp", SHARDED[] = "tests/data/oracle/tiny-sharded";

static char folder[SUPPORT_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

static qn_source *open_source(const char *dir)
{
    qn_source *source = NULL;
    qn_error err;
    if (qn_source_open(dir, false, &source, &err) != QN_OK)
        fail_msg("%s", err.message);
    return source;
}

/* Every tensor's bytes as the source places and reads them are those of the mapped file. */
static void check_reads(const char *dir)
{
    qn_source *source = open_source(dir);
    for (size_t i = 0; i < qn_source_count(source); i++) {
        const qn_source_tensor *t = qn_source_at(source, i);
        qn_safetensors *mapped = NULL;
        qn_slice slice;
        qn_direct_reader *reader = NULL;
        qn_error err;
        assert_int_equal(qn_safetensors_open(qn_source_file_path(source, t->file), &mapped, &err), QN_OK);
        const qn_tensor *expected = qn_safetensors_find(mapped, t->name);
        assert_non_null(expected);
        assert_int_equal(qn_source_locate(source, i, &slice, &err), QN_OK);
        assert_int_equal(slice.dtype, expected->dtype);
        assert_int_equal(slice.bytes, expected->bytes);
        assert_int_equal(qn_source_acquire(source, t->file, &reader, &err), QN_OK);
        size_t buffer_bytes = qn_direct_buffer_bytes(expected->bytes);
        void *buffer = qn_direct_buffer_new(buffer_bytes);
        const uint8_t *data = NULL;
        assert_int_equal(qn_direct_read(reader, slice.offset, expected->bytes, buffer, &data, &err), QN_OK);
        assert_memory_equal(data, expected->data, expected->bytes);
        qn_direct_buffer_free(buffer, buffer_bytes);
        qn_source_release(source, t->file);
        qn_safetensors_close(mapped);
    }
    qn_source_close(source);
}

static void test_tensors_are_read_where_they_lie(void **state)
{
    (void)state;
    check_reads(SINGLE);
    check_reads(SHARDED);
}

static void test_opens_without_any_weights(void **state)
{
    (void)state;
    support_make_source(folder, "models/quern-tiny/config.json", 5);
    qn_source *source = open_source(folder);
    qn_slice slice;
    qn_direct_reader *reader;
    qn_error err;
    assert_int_equal(qn_source_file_count(source), 5);
    assert_string_equal(qn_source_file_name(source, 4), "model-00005-of-00005.safetensors");
    assert_int_equal(strlen(qn_source_config_hash(source)), 32);
    assert_int_equal(strlen(qn_source_index_hash(source)), 32);
    assert_int_equal(qn_source_locate(source, 0, &slice, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "model-00001-of-00005.safetensors: no such file"));
    assert_int_equal(qn_source_acquire(source, 1, &reader, &err), QN_BAD_INPUT);
    qn_source_close(source);
    qn_source_close(NULL);
}

/* A file of which the header was read, and which is another when its data are to be read. */
static void test_a_file_that_changes_is_noticed(void **state)
{
    (void)state;
    char path[SUPPORT_PATH_BYTES];
    struct stat info;
    qn_error err;
    support_copy_source(SINGLE, folder);
    assert_int_equal(stat(support_path(folder, "model.safetensors", path), &info), 0);
    qn_source *source = open_source(folder);
    qn_direct_reader *reader = NULL;
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    assert_int_equal(qn_source_acquire(source, 0, &reader, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "it was changed or truncated"));
    qn_source_close(source);
}

static void test_each_fault_is_an_error(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ};
    for (size_t k = 0; k < 2; k++) {
        size_t failures = 0;
        bool reached = true;
        for (long nth = 1; reached; nth += nth < 200 ? 1 : 37) {
            qn_source *source = NULL;
            qn_slice slice;
            qn_error err;
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_source_open(SHARDED, false, &source, &err);
            if (status == QN_OK)
                status = qn_source_locate(source, 100, &slice, &err);
            reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true(status == QN_OK || status == QN_RESOURCE || status == QN_BAD_INPUT);
            failures += status != QN_OK;
            qn_source_close(source);
        }
        assert_true(failures >= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_read_where_they_lie),
        cmocka_unit_test_setup_teardown(test_opens_without_any_weights, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_file_that_changes_is_noticed, make_folder, remove_folder),
        cmocka_unit_test(test_each_fault_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
