#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

static char folder[32], path[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/quern-writer-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/w.safetensors", folder);
    return 0;
}

static size_t files_in_folder(void)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    size_t count = 0;
    for (struct dirent *at = readdir(dir); at; at = readdir(dir))
        count += at->d_name[0] != '.';
    closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

static qn_status declare_all(qn_safetensors_writer *w, const qn_safetensors *source, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_safetensors_count(source) && status == QN_OK; i++) {
        const qn_tensor *t = qn_safetensors_at(source, i);
        status = qn_safetensors_writer_declare(w, t->name, t->dtype, t->dims, t->shape, err);
    }
    return status;
}

/* Writes all of source in pieces of `piece` bytes. */
static qn_status copy(const qn_safetensors *source, size_t piece, qn_error *err)
{
    qn_safetensors_writer *w = NULL;
    qn_status status = qn_safetensors_writer_new(&w, err);
    if (status == QN_OK)
        status = declare_all(w, source, err);
    if (status == QN_OK)
        status = qn_safetensors_writer_begin(w, path, err);
    for (size_t i = 0; i < qn_safetensors_count(source) && status == QN_OK; i++) {
        const qn_tensor *t = qn_safetensors_at(source, i);
        for (size_t at = 0; at < t->bytes && status == QN_OK; at += piece)
            status = qn_safetensors_writer_append(w, t->data + at, t->bytes - at < piece ? t->bytes - at : piece, err);
    }
    if (status == QN_OK)
        status = qn_safetensors_writer_finish(w, err);
    qn_safetensors_writer_free(w);
    return status;
}

static void assert_same(const qn_safetensors *a, const qn_safetensors *b)
{
    assert_int_equal(qn_safetensors_count(a), qn_safetensors_count(b));
    for (size_t i = 0; i < qn_safetensors_count(a); i++) {
        const qn_tensor *x = qn_safetensors_at(a, i), *y = qn_safetensors_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->dims, y->dims);
        assert_memory_equal(x->shape, y->shape, sizeof x->shape);
        assert_int_equal(x->bytes, y->bytes);
        if (x->bytes > 0)
            assert_memory_equal(x->data, y->data, x->bytes);
    }
}

static void test_what_is_written_is_read_back(void **state)
{
    (void)state;
    static const char *const sources[] = {"tests/data/oracle/tiny-sparse-mxfp4-fused/model.safetensors",
                                          "tests/data/oracle/tiny-dense/golden-7.safetensors",
                                          "tests/data/oracle/mxfp4-vectors.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        qn_safetensors *source = NULL, *back = NULL;
        qn_error err;
        assert_int_equal(qn_safetensors_open(sources[i], &source, &err), QN_OK);
        if (copy(source, 4099, &err) != QN_OK)
            fail_msg("%s", err.message);
        if (qn_safetensors_open(path, &back, &err) != QN_OK)
            fail_msg("%s", err.message);
        assert_same(source, back);
        qn_safetensors_close(back);
        qn_safetensors_close(source);
        assert_int_equal(files_in_folder(), 1);

        char *text = NULL;
        size_t bytes = 0;
        assert_int_equal(qn_file_read(path, 1 << 26, &text, &bytes, &err), QN_OK);
        uint64_t header_bytes;
        memcpy(&header_bytes, text, 8);
        assert_int_equal((8 + header_bytes) % 64, 0);
        qn_free(text);
    }
}

static void test_odd_names_and_shapes(void **state)
{
    (void)state;
    qn_safetensors_writer *w = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_writer_new(&w, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "a\"\\\xc3\xa9/", QN_DTYPE_F16, 0, NULL, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "none", QN_DTYPE_F32, 2, (size_t[]){0, 7}, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "i", QN_DTYPE_I32, 3, (size_t[]){1, 1, 1}, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_append(w, "ab", 2, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_append(w, NULL, 0, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_append(w, "cdef", 4, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_finish(w, &err), QN_OK);
    qn_safetensors_writer_free(w);
    qn_safetensors *back = NULL;
    assert_int_equal(qn_safetensors_open(path, &back, &err), QN_OK);
    assert_memory_equal(qn_safetensors_find(back, "a\"\\\xc3\xa9/")->data, "ab", 2);
    assert_int_equal(qn_safetensors_find(back, "none")->bytes, 0);
    assert_memory_equal(qn_safetensors_find(back, "i")->data, "cdef", 4);
    qn_safetensors_close(back);
}

static void test_refuses_misuse(void **state)
{
    (void)state;
    qn_safetensors_writer *w = NULL;
    qn_error err;
    static const size_t huge[2] = {SIZE_MAX / 2, 3}, four[1] = {4}, most[1] = {SIZE_MAX};
    char long_name[QN_TENSOR_NAME_BYTES + 2];
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    assert_int_equal(qn_safetensors_writer_new(&w, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_append(w, "x", 1, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_finish(w, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "", QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, long_name, QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "__metadata__", QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a\n", QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a\xff", QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_MXFP4, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_U8, QN_TENSOR_MAX_DIMS + 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_U8, 2, huge, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_U8, 1, four, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", QN_DTYPE_U8, 1, most, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_declare(w, "b", QN_DTYPE_U8, 1, four, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_append(w, "abcde", 5, &err), QN_USAGE);
    assert_int_equal(qn_safetensors_writer_append(w, "abc", 3, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_finish(w, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "got 3 of the 4 bytes"));
    assert_int_equal(files_in_folder(), 1); /* the temporary one */
    qn_safetensors_writer_free(w);
    assert_int_equal(files_in_folder(), 0);
    qn_safetensors_writer_free(NULL);

    assert_int_equal(qn_safetensors_writer_new(&w, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_U8, 1, four, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_declare(w, "a", QN_DTYPE_U8, 1, four, &err), QN_OK);
    assert_int_equal(qn_safetensors_writer_begin(w, path, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "tensor a: declared twice"));
    qn_safetensors_writer_free(w);
}

static void test_each_failing_call_leaves_no_file(void **state)
{
    (void)state;
    qn_safetensors *source = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open("tests/data/oracle/mxfp4-vectors.safetensors", &source, &err), QN_OK);
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_WRITE};
    for (size_t k = 0; k < 2; k++) {
        qn_status status = QN_RESOURCE;
        long nth = 0;
        while (status != QN_OK) {
            qn_fault_arm(kinds[k], ++nth);
            status = copy(source, 1000, &err);
            qn_fault_disarm();
            if (status != QN_OK) {
                assert_int_equal(status, QN_RESOURCE);
                assert_int_equal(files_in_folder(), 0);
            }
        }
        assert_true(nth > 5);
        unlink(path);
    }
    qn_safetensors_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_written_is_read_back, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_odd_names_and_shapes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_refuses_misuse, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_failing_call_leaves_no_file, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
