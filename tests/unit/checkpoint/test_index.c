#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "base/fault.h"
#include "base/file.h"
#include "checkpoint/index.h"

static const char REFERENCE[] = "tests/data/oracle/tiny-sharded/model.safetensors.index.json";

static void test_reads_files_and_places(void **state)
{
    (void)state;
    qn_index index;
    qn_error err;
    assert_int_equal(qn_index_open(REFERENCE, &index, &err), QN_OK);
    assert_int_equal(index.file_count, 3);
    assert_string_equal(index.files[0], "model-00001-of-00003.safetensors");
    assert_string_equal(index.files[2], "model-00003-of-00003.safetensors");
    assert_string_equal(qn_index_file_of(&index, "lm_head.weight"), index.files[2]);
    assert_null(qn_index_file_of(&index, "lm_head.bias"));
    assert_true(index.has_total && index.total_size > 0 && qn_index_count(&index) > 100);
    qn_index_close(&index);
    qn_index_close(&index); /* is {0} again */
}

static void test_bounds_the_number_of_files(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-index-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int files = QN_MAX_SHARDS; files <= QN_MAX_SHARDS + 1; files++) {
        qn_buffer text = {0};
        qn_buffer_text(&text, "{\"metadata\":{\"total_size\":2.0},\"weight_map\":{");
        for (int i = 0; i < files; i++)
            qn_buffer_format(&text, "%s\"t%d\":\"m%d.safetensors\"", i ? "," : "", i, i);
        qn_buffer_text(&text, "}}");
        qn_error err;
        qn_index index;
        assert_int_equal(qn_file_write(path, text.data, text.size, &err), QN_OK);
        qn_buffer_free(&text);
        qn_status status = qn_index_open(path, &index, &err);
        assert_int_equal(status, files <= QN_MAX_SHARDS ? QN_OK : QN_BAD_INPUT);
        if (status == QN_OK)
            assert_true(index.total_size == 2);
        else
            assert_non_null(strstr(err.message, "names 4097 files, more than the 4096"));
        qn_index_close(&index);
    }
    unlink(path);
}

static void test_refuses_what_is_no_index(void **state)
{
    (void)state;
    qn_index index;
    qn_error err;
    assert_int_equal(qn_index_open("tests/data/oracle/tiny-sharded/config.json", &index, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "has no weight_map"));
    assert_int_equal(qn_index_open("tests/data/oracle/README.md", &index, &err), QN_BAD_INPUT);
    assert_int_equal(qn_index_open("tests/data/oracle/none", &index, &err), QN_BAD_INPUT);
    assert_null(index.root);
}

static void test_refuses_metadata_that_are_no_object(void **state)
{
    (void)state;
    static const char text[] = "{\"metadata\":[1],\"weight_map\":{\"t\":\"m.safetensors\"}}";
    char path[] = "/tmp/quern-index-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_index index;
    qn_error err;
    assert_int_equal(qn_file_write(path, text, sizeof text - 1, &err), QN_OK);
    assert_int_equal(qn_index_open(path, &index, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "metadata is no object but array"));
    unlink(path);
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    qn_status status = QN_RESOURCE;
    for (long nth = 1; status != QN_OK; nth++) {
        qn_index index;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        status = qn_index_open(REFERENCE, &index, &err);
        qn_fault_disarm();
        if (status != QN_OK)
            assert_int_equal(status, QN_RESOURCE);
        qn_index_close(&index);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_files_and_places),   cmocka_unit_test(test_bounds_the_number_of_files),
        cmocka_unit_test(test_refuses_what_is_no_index), cmocka_unit_test(test_refuses_metadata_that_are_no_object),
        cmocka_unit_test(test_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
