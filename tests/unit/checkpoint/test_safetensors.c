#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/safetensors.h"

/* The bytes of a file in a block of their exact size; released with qn_free. */
static uint8_t *make_file(const char *header, size_t data_bytes, size_t *bytes)
{
    size_t header_bytes = strlen(header);
    *bytes = 8 + header_bytes + data_bytes;
    uint8_t *file = qn_alloc_zero(*bytes, 1);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++)
        file[i] = (uint8_t)(header_bytes >> (8 * i));
    memcpy(file + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++)
        file[8 + header_bytes + i] = (uint8_t)i;
    return file;
}

#define T(name, type, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void test_tensors_come_in_order_of_data(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = make_file("{" T("z", "U8", "[4]", 0, 4) "," T("a", "F16", "[3]", 6, 12) "," T(
                                  "m", "BF16", "[]", 4, 6) "," T("none", "F32", "[0,5]", 6, 6) "}",
                              12, &bytes);
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_parse(data, bytes, "f", &file, &err), QN_OK);
    static const char *const order[] = {"z", "m", "none", "a"};
    assert_int_equal(qn_safetensors_count(file), 4);
    for (size_t i = 0; i < 4; i++) {
        const qn_tensor *t = qn_safetensors_at(file, i);
        assert_string_equal(t->name, order[i]);
        assert_ptr_equal(qn_safetensors_find(file, order[i]), t);
    }
    assert_int_equal(qn_safetensors_find(file, "a")->data[0], 6);
    assert_null(qn_safetensors_find(file, "b"));
    assert_null(qn_safetensors_find(file, ""));
    qn_safetensors_close(file);
    qn_free(data);
}

static void test_describe(void **state)
{
    (void)state;
    char text[QN_TENSOR_DESCRIPTION_BYTES];
    assert_string_equal(qn_tensor_describe(QN_DTYPE_BF16, 2, (size_t[]){96, 64}, text), "BF16 [96, 64]");
    assert_string_equal(qn_tensor_describe(QN_DTYPE_F32, 0, NULL, text), "F32 []");
    size_t huge[QN_TENSOR_MAX_DIMS];
    for (size_t i = 0; i < QN_TENSOR_MAX_DIMS; i++)
        huge[i] = SIZE_MAX;
    qn_tensor_describe(QN_DTYPE_MXFP4, QN_TENSOR_MAX_DIMS, huge, text);
    assert_string_equal(text + strlen(text) - 22, " 18446744073709551615]");
}

static void test_refuses_each_bad_file(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } rows[] = {
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 3, 7) "}", 7,
         "tensor b: its data begin at byte 3 of the data section, inside the tensor that ends at byte 4"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4, "inside the tensor"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[1]", 2, 3) "}", 4, "inside the tensor"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[0]", 2, 2) "}", 4, "inside the tensor"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 5, 9) "}", 9, "leaving a hole behind byte 4"},
        {"{" T("a", "U8", "[4]", 1, 5) "}", 5, "leaving a hole behind byte 0"},
        {"{" T("a", "U8", "[4]", 0, 4) "}", 5, "has 1 bytes that belong to no tensor"},
        {"{}", 5, "has 5 bytes that belong to no tensor"},
        {"{" T("a", "U8", "[4]", 0, 4) "," T("a", "U8", "[4]", 4, 8) "}", 8, "tensor a: stands twice"},
        {"{" T("a", "U8", "[0]", 0, 0) "," T("\\u0061", "U8", "[0]", 0, 0) "}", 0, "tensor a: stands twice"},
        {"", 0, "damaged at byte 8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bytes;
        uint8_t *data = make_file(rows[i].header, rows[i].data_bytes, &bytes);
        qn_safetensors *file = NULL;
        qn_error err;
        qn_status status = qn_safetensors_parse(data, bytes, "f", &file, &err);
        if (status != QN_BAD_INPUT || !strstr(err.message, rows[i].message))
            fail_msg("%s: %s, not \"%s\"", rows[i].header, status == QN_OK ? "accepted" : err.message, rows[i].message);
        assert_null(file);
        qn_free(data);
    }
}

static void test_header_length_lies(void **state)
{
    (void)state;
    static const struct {
        uint64_t claim;
        const char *message;
    } rows[] = {
        {10000000000u, "claims a header of 10000000000 bytes, but 70 follow"},
        {UINT64_MAX, "claims a header of 18446744073709551615 bytes"},
        {UINT64_MAX - 7, "claims a header of"},
        {71, "claims a header of 71 bytes, but 70 follow"},
        {0, "damaged at byte 8"},
        {5, "damaged at byte"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t bytes;
        uint8_t *data = make_file("{" T("aaa", "U8", "[8]", 0, 8) "       }", 8, &bytes);
        for (size_t k = 0; k < 8; k++)
            data[k] = (uint8_t)(rows[i].claim >> (8 * k));
        qn_safetensors *file = NULL;
        qn_error err;
        assert_int_equal(qn_safetensors_parse(data, bytes, "f", &file, &err), QN_BAD_INPUT);
        if (!strstr(err.message, rows[i].message))
            fail_msg("%s, not \"%s\"", err.message, rows[i].message);
        qn_free(data);
    }
}

static void test_header_beyond_the_bound(void **state)
{
    (void)state;
    /* pages that are never touched cost nothing */
    size_t bytes = (size_t)QN_SAFETENSORS_MAX_HEADER_BYTES + 4096;
    uint8_t *data = qn_alloc_zero(bytes, 1);
    assert_non_null(data);
    uint64_t claim = (uint64_t)QN_SAFETENSORS_MAX_HEADER_BYTES + 1;
    for (size_t k = 0; k < 8; k++)
        data[k] = (uint8_t)(claim >> (8 * k));
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_parse(data, bytes, "f", &file, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "more than the 100000000 that are allowed"));
    qn_free(data);
}

static void test_every_truncation_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *data = make_file("{" T("a", "U8", "[4]", 0, 4) "," T("b", "F16", "[2]", 4, 8) "}", 8, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        uint8_t *part = qn_alloc(cut, 1);
        assert_non_null(part);
        memcpy(part, data, cut);
        qn_safetensors *file = NULL;
        qn_error err;
        assert_int_equal(qn_safetensors_parse(part, cut, "f", &file, &err), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, "fetch"));
        qn_free(part);
    }
    qn_free(data);
}

static const char MODEL[] = "tests/data/oracle/tiny-sparse/model.safetensors";

static void test_opens_a_real_file(void **state)
{
    (void)state;
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open(MODEL, &file, &err), QN_OK);
    const qn_tensor *t = qn_safetensors_find(file, "model.layers.8.eh_proj.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, QN_DTYPE_BF16);
    assert_int_equal(t->dims, 2);
    assert_int_equal(t->shape[0], 96);
    assert_int_equal(t->shape[1], 192);
    assert_int_equal(t->bytes, 2 * 96 * 192);
    qn_safetensors_close(file);
    qn_safetensors_close(NULL);
}

static void test_what_is_no_file(void **state)
{
    (void)state;
    qn_safetensors *file = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open("tests/data/oracle/none", &file, &err), QN_BAD_INPUT);
    assert_int_equal(qn_safetensors_open("tests/data/oracle", &file, &err), QN_BAD_INPUT);
    assert_int_equal(qn_safetensors_open("/dev/null", &file, &err), QN_BAD_INPUT);
    assert_null(file);
}

static void test_each_failing_call(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ};
    for (size_t k = 0; k < 2; k++) {
        qn_status status = QN_RESOURCE;
        long nth = 0;
        while (status != QN_OK) {
            qn_safetensors *file = NULL;
            qn_error err = {.status = QN_OK};
            qn_fault_arm(kinds[k], ++nth);
            status = qn_safetensors_open(MODEL, &file, &err);
            qn_fault_disarm();
            if (status != QN_OK) {
                assert_int_equal(status, QN_RESOURCE);
                assert_int_equal(err.status, QN_RESOURCE);
                assert_null(file);
            }
            qn_safetensors_close(file);
        }
        assert_true(nth > 3); /* something was made to fail */
    }
}

/* What was opened by its header alone tells the same tensors, at the offsets where the mapped file has their bytes. */
static void test_header_alone_places_the_tensors(void **state)
{
    (void)state;
    static const char path[] = "tests/data/oracle/tiny-mtp/model.safetensors";
    qn_safetensors *mapped = NULL, *header = NULL;
    qn_error err;
    assert_int_equal(qn_safetensors_open(path, &mapped, &err), QN_OK);
    assert_int_equal(qn_safetensors_open_header(path, &header, &err), QN_OK);
    assert_true(qn_hash_equal(qn_safetensors_header_hash(mapped), qn_safetensors_header_hash(header)));
    assert_int_equal(qn_safetensors_count(mapped), qn_safetensors_count(header));
    const uint8_t *start = qn_safetensors_at(mapped, 0)->data - qn_safetensors_at(mapped, 0)->offset;
    for (size_t i = 0; i < qn_safetensors_count(mapped); i++) {
        const qn_tensor *a = qn_safetensors_at(mapped, i), *b = qn_safetensors_at(header, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->bytes, b->bytes);
        assert_int_equal(a->offset, b->offset);
        assert_ptr_equal(a->data, start + b->offset);
        assert_null(b->data);
    }
    qn_safetensors_close(header);
    qn_safetensors_close(mapped);
}

static void test_header_alone_survives_each_fault(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ};
    for (size_t k = 0; k < 2; k++) {
        size_t failures = 0;
        for (long nth = 1;; nth++) {
            qn_safetensors *file = NULL;
            qn_error err;
            qn_fault_arm(kinds[k], nth);
            qn_status status = qn_safetensors_open_header("tests/data/oracle/tiny-mtp/model.safetensors", &file, &err);
            bool reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true(status == QN_OK || status == QN_RESOURCE);
            failures += status != QN_OK;
            qn_safetensors_close(file);
            if (!reached)
                break;
        }
        assert_true(failures >= 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_come_in_order_of_data),
        cmocka_unit_test(test_header_alone_places_the_tensors),
        cmocka_unit_test(test_header_alone_survives_each_fault),
        cmocka_unit_test(test_describe),
        cmocka_unit_test(test_refuses_each_bad_file),
        cmocka_unit_test(test_header_length_lies),
        cmocka_unit_test(test_header_beyond_the_bound),
        cmocka_unit_test(test_every_truncation_is_refused),
        cmocka_unit_test(test_opens_a_real_file),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_each_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
