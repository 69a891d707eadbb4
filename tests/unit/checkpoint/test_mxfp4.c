#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "checkpoint/mxfp4.h"

static void test_scales_are_told_by_name_and_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_dtype dtype;
        bool scales;
    } rows[] = {
        {"a.weight_scale", QN_DTYPE_U8, true},    {"a.down_proj_scales", QN_DTYPE_U8, true},
        {"a.weight_scale", QN_DTYPE_BF16, false}, {"a.weight_packed", QN_DTYPE_U8, false},
        {"a.weight_scale_2", QN_DTYPE_U8, false}, {"scale", QN_DTYPE_U8, false},
        {"a.gate_up_blocks", QN_DTYPE_U8, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_tensor t = {.name = rows[i].name, .dtype = rows[i].dtype};
        assert_int_equal(qn_mxfp4_is_scales(&t), rows[i].scales);
    }
}

static void test_each_byte_at_each_place(void **state)
{
    (void)state;
    uint8_t data[3 * 4];
    qn_tensor t = {.name = "x_scale", .dtype = QN_DTYPE_U8, .dims = 2, .shape = {3, 4}, .data = data, .bytes = 12};
    for (unsigned value = 0; value < 256; value++) {
        for (size_t at = 0; at < sizeof data; at++) {
            memset(data, 120, sizeof data);
            data[at] = (uint8_t)value;
            qn_error err;
            qn_status status = qn_mxfp4_check_scales("f", &t, &err);
            assert_int_equal(status, value > 252 ? QN_BAD_INPUT : QN_OK);
        }
    }
    qn_error err;
    memset(data, 120, sizeof data);
    data[6] = 255;
    data[7] = 253;
    assert_int_equal(qn_mxfp4_check_scales("f", &t, &err), QN_BAD_INPUT);
    assert_string_equal(err.message,
                        "f: tensor x_scale: its scale byte at row 1, block 2 is 255, and with 253 to 255 values are "
                        "not finite: fetch or quantise the checkpoint again");
}

static void test_scales_never_written(void **state)
{
    (void)state;
    uint8_t data[3 * 4] = {0};
    qn_tensor flat = {.name = "x_scale", .dtype = QN_DTYPE_U8, .dims = 2, .shape = {3, 4}, .data = data, .bytes = 12};
    qn_tensor fused = {
        .name = "x_scales", .dtype = QN_DTYPE_U8, .dims = 3, .shape = {3, 2, 2}, .data = data, .bytes = 12};
    qn_error err;
    assert_int_equal(qn_mxfp4_check_scales("f", &flat, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "f: tensor x_scale: the scales are all zero"));
    data[11] = 1; /* zero blocks are fine, as long as not all are */
    assert_int_equal(qn_mxfp4_check_scales("f", &flat, &err), QN_OK);
    data[0] = data[3] = 1;
    assert_int_equal(qn_mxfp4_check_scales("f", &fused, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "the scales of expert 1 are all zero"));
    data[7] = 254;
    assert_int_equal(qn_mxfp4_check_scales("f", &fused, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "at row 3, block 1 is 254"));

    qn_tensor none = {.name = "x_scale", .dtype = QN_DTYPE_U8, .dims = 3, .shape = {SIZE_MAX, 0, 0}};
    assert_int_equal(qn_mxfp4_check_scales("f", &none, &err), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_are_told_by_name_and_dtype),
        cmocka_unit_test(test_each_byte_at_each_place),
        cmocka_unit_test(test_scales_never_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
