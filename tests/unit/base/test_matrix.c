#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/matrix.h"
#include "base/memory.h"

/* The reference's vectors, opened by hand: this room is below the safetensors reader. */
typedef struct vectors {
    char *file;
    json_t *header;
    const uint8_t *data;
} vectors;

static int open_vectors(void **state)
{
    static vectors v;
    qn_error err;
    size_t bytes = 0;
    assert_int_equal(qn_file_read("tests/data/oracle/mxfp4-vectors.safetensors", 1 << 20, &v.file, &bytes, &err),
                     QN_OK);
    uint64_t header_bytes;
    memcpy(&header_bytes, v.file, sizeof header_bytes);
    assert_true(header_bytes < bytes - 8);
    assert_int_equal(qn_json_parse(v.file + 8, (size_t)header_bytes, "vectors", &v.header, &err), QN_OK);
    v.data = (const uint8_t *)v.file + 8 + header_bytes;
    *state = &v;
    return 0;
}

static int close_vectors(void **state)
{
    vectors *v = *state;
    json_decref(v->header);
    qn_free(v->file);
    return 0;
}

static const uint8_t *tensor(const vectors *v, const char *name, const char *dtype, size_t rows, size_t cols)
{
    json_t *entry = json_object_get(v->header, name);
    assert_non_null(entry);
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), dtype);
    json_t *shape = json_object_get(entry, "shape");
    assert_int_equal(json_integer_value(json_array_get(shape, 0)), rows);
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), cols);
    return v->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
}

static void test_mxfp4_vectors_decode_exactly(void **state)
{
    const vectors *v = *state;
    enum { ROWS = 22, COLS = 32 };
    qn_matrix m = {.dtype = QN_DTYPE_MXFP4,
                   .rows = ROWS,
                   .cols = COLS,
                   .data = tensor(v, "packed", "U8", ROWS, COLS / 2),
                   .scales = tensor(v, "scale", "U8", ROWS, 1)};
    qn_matrix expected = {
        .dtype = QN_DTYPE_BF16, .rows = ROWS, .cols = COLS, .data = tensor(v, "dequantised", "BF16", ROWS, COLS)};
    for (size_t row = 0; row < ROWS; row++) {
        float out[COLS], exact[COLS];
        qn_matrix_row_to_f32(&m, row, out);
        qn_matrix_row_to_f32(&expected, row, exact);
        assert_memory_equal(out, exact, sizeof out); /* bits: the sign of zeros too */
    }
}

static void test_every_code_and_scale(void **state)
{
    (void)state;
    uint8_t codes[16], scale;
    for (size_t i = 0; i < sizeof codes; i++)
        codes[i] = (uint8_t)(2 * i % 16 | (2 * i + 1) % 16 << 4);
    qn_matrix m = {.dtype = QN_DTYPE_MXFP4, .rows = 1, .cols = 32, .data = codes, .scales = &scale};
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (unsigned s = 0; s <= 252; s++) {
        scale = (uint8_t)s;
        float out[32];
        qn_matrix_row_to_f32(&m, 0, out);
        for (unsigned i = 0; i < 32; i++) {
            double exact = ldexp(values[i % 8], (int)s - 127) * (i % 16 < 8 ? 1 : -1);
            assert_true((double)out[i] == exact);
            assert_int_equal(signbit(out[i]) != 0, i % 16 >= 8);
        }
    }
}

static void test_rows_and_sizes(void **state)
{
    (void)state;
    uint8_t data[4 * 64] = {0}, scales[4 * 4];
    for (size_t i = 0; i < sizeof scales; i++)
        scales[i] = (uint8_t)(120 + i);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)i;
    qn_matrix m = {.dtype = QN_DTYPE_MXFP4, .rows = 4, .cols = 128, .data = data, .scales = scales};
    assert_int_equal(qn_matrix_row_bytes(&m), 64);
    assert_int_equal(qn_matrix_bytes(&m), 4 * (64 + 4));
    qn_matrix part = qn_matrix_rows(&m, 1, 2);
    assert_int_equal(part.rows, 2);
    assert_ptr_equal(part.data, data + 64);
    assert_ptr_equal(part.scales, scales + 4);
    float whole[128], cut[128];
    qn_matrix_row_to_f32(&m, 2, whole);
    qn_matrix_row_to_f32(&part, 1, cut);
    assert_memory_equal(whole, cut, sizeof whole);

    qn_matrix none = qn_matrix_rows(&m, 4, 0);
    assert_int_equal(none.rows, 0);
    assert_int_equal(qn_matrix_bytes(&none), 0);

    qn_matrix bf16 = {.dtype = QN_DTYPE_BF16, .rows = 3, .cols = 5, .data = data};
    assert_int_equal(qn_matrix_row_bytes(&bf16), 10);
    assert_int_equal(qn_matrix_bytes(&bf16), 30);
    assert_null(qn_matrix_rows(&bf16, 1, 1).scales);
}

static void test_plain_rows_unaligned(void **state)
{
    (void)state;
    uint8_t bytes[1 + 2 * 4 * 3];
    const float values[3] = {1.5f, -0.25f, 1024.0f};
    memcpy(bytes + 1 + sizeof values, values, sizeof values);
    qn_matrix m = {.dtype = QN_DTYPE_F32, .rows = 2, .cols = 3, .data = bytes + 1};
    float out[3];
    qn_matrix_row_to_f32(&m, 1, out);
    assert_memory_equal(out, values, sizeof values);

    const uint16_t bf16[3] = {0x3FC0, 0xBE80, 0x4480}, f16[3] = {0x3E00, 0xB400, 0x6400};
    memcpy(bytes + 1, bf16, sizeof bf16);
    m = (qn_matrix){.dtype = QN_DTYPE_BF16, .rows = 1, .cols = 3, .data = bytes + 1};
    qn_matrix_row_to_f32(&m, 0, out);
    assert_memory_equal(out, values, sizeof values);
    memcpy(bytes + 1, f16, sizeof f16);
    m.dtype = QN_DTYPE_F16;
    qn_matrix_row_to_f32(&m, 0, out);
    assert_memory_equal(out, values, sizeof values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mxfp4_vectors_decode_exactly, open_vectors, close_vectors),
        cmocka_unit_test(test_every_code_and_scale),
        cmocka_unit_test(test_rows_and_sizes),
        cmocka_unit_test(test_plain_rows_unaligned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
