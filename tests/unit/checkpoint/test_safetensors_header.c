#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/memory.h"
#include "checkpoint/safetensors_header.h"

static uint8_t data_section[64];

typedef struct parsed {
    qn_status status;
    qn_error err;
    qn_arena *names;
    qn_tensor *tensors;
    size_t count;
} parsed;

/* The text is copied to a block of its exact size, so that reading past it is seen by the sanitizer. */
static parsed parse(const char *text, size_t bytes)
{
    char *exact = qn_alloc(bytes, 1);
    assert_non_null(exact);
    memcpy(exact, text, bytes);
    qn_header_text header = {
        .text = exact, .bytes = bytes, .data = data_section, .data_bytes = sizeof data_section, .what = "f"};
    parsed p = {.names = qn_arena_new(1 << 16)};
    assert_non_null(p.names);
    p.status = qn_safetensors_header_parse(&header, p.names, &p.tensors, &p.count, &p.err);
    qn_free(exact);
    return p;
}

static void release(parsed *p)
{
    qn_free(p->tensors);
    qn_arena_free(p->names);
}

static void test_reads_every_dtype_and_shape(void **state)
{
    (void)state;
    static const char text[] =
        " {\"__metadata__\" : {\"format\":\"pt\", \"a\\n\":\"\\u00e9\\ud83d\\ude00\"},\n"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},\t"
        "\"b\":{\"shape\":[],\"data_offsets\":[8,10],\"dtype\":\"BF16\"},\r\n"
        "\"c\\u00e9\\\"\\/\":{\"dtype\":\"F16\",\"shape\":[1,1,1,1,1,1,1,3],\"data_offsets\":[10,16]},"
        "\"d\":{\"dtype\":\"U8\",\"shape\":[7,0,9],\"data_offsets\":[16,16]},"
        "\"e\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[60,64]}}   ";
    parsed p = parse(text, sizeof text - 1);
    assert_int_equal(p.status, QN_OK);
    assert_int_equal(p.count, 5);
    assert_string_equal(p.tensors[0].name, "a");
    assert_int_equal(p.tensors[0].dtype, QN_DTYPE_F32);
    assert_int_equal(p.tensors[0].dims, 2);
    assert_int_equal(p.tensors[0].shape[0], 2);
    assert_int_equal(p.tensors[0].bytes, 8);
    assert_int_equal(p.tensors[1].dims, 0);
    assert_ptr_equal(p.tensors[1].data, data_section + 8);
    assert_string_equal(p.tensors[2].name, "c\xc3\xa9\"/");
    assert_int_equal(p.tensors[2].dims, 8);
    assert_int_equal(p.tensors[3].bytes, 0);
    assert_ptr_equal(p.tensors[4].data, data_section + 60);
    release(&p);

    p = parse("{}", 2);
    assert_int_equal(p.status, QN_OK);
    assert_int_equal(p.count, 0);
    release(&p);
}

static void test_refuses_each_bad_header(void **state)
{
    (void)state;
#define TENSOR(body) "{\"t\":" body "}"
#define OF_DTYPE(dtype) TENSOR("{\"dtype\":\"" dtype "\",\"shape\":[],\"data_offsets\":[0,0]}")
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "damaged at byte 8 (expected '{')"},
        {"[]", "damaged at byte 8 (expected '{')"},
        {"{", "expected a string"},
        {"{\"t\"", "expected ':'"},
        {"{\"t\":", "expected '{'"},
        {"{\"t", "expected the end of a string"},
        {"{\"t\\", "a valid escape"},
        {"{\"t\\x\":", "a valid escape"},
        {"{\"t\\u12", "a valid escape"},
        {"{\"t\\ud800\":", "a valid escape"},
        {"{\"t\\ud800\\u0041\":", "a valid escape"},
        {"{\"t\\udc00\":", "a valid escape"},
        {"{\"t\\u00g0\":", "a valid escape"},
        {"{\"t\n\":", "no raw control byte"},
        {"{\"t\xff\":", "not UTF-8"},
        {"{\"t\\u0000\":{}}", "has control bytes"},
        {"{\"t\\n\":{}}", "has control bytes"},
        {"{\"t\\u007f\":{}}", "has control bytes"},
        {"{\"\":{}}", "tensor name that is empty"},
        {TENSOR("[]"), "expected '{'"},
        {TENSOR("{}"), "expected a string"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4]}"), "tensor t: its header entry lacks"},
        {TENSOR("{\"dtype\":\"U8\",\"dtype\":\"U8\"}"), "tensor t: its header entry has an unknown or repeated key"},
        {TENSOR("{\"kind\":\"U8\"}"), "unknown or repeated key"},
        {TENSOR("{\"dtype\\u0000\":\"U8\"}"), "unknown or repeated key"},
        {TENSOR("{\"dtype\" \"U8\"}"), "expected ':'"},
        {TENSOR("{\"dtype\":8}"), "expected a string"},
        {OF_DTYPE("F8_E4M3"), "tensor t: its dtype is F8_E4M3, and quern reads BF16"},
        {OF_DTYPE("MXFP4"), "its dtype is MXFP4"},
        {OF_DTYPE("u8"), "its dtype is u8"},
        {TENSOR("{\"shape\":4}"), "a list of integers"},
        {TENSOR("{\"shape\":[-1]}"), "a plain non-negative integer"},
        {TENSOR("{\"shape\":[1.0]}"), "a plain non-negative integer"},
        {TENSOR("{\"shape\":[1e3]}"), "a plain non-negative integer"},
        {TENSOR("{\"shape\":[01]}"), "a plain non-negative integer"},
        {TENSOR("{\"shape\":[18446744073709551616]}"), "at most 64 bits"},
        {TENSOR("{\"shape\":[1"), "',' or ']'"},
        {TENSOR("{\"shape\":[1,"), "a plain non-negative integer"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}"), "not a begin and an end"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,8]}"), "not a begin and an end"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,4]}"), "not a begin and an end"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[61,65]}"), "end at byte 65 of the data section, "
                                                                              "which has 64"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]}"), "need 5 bytes, its data_offsets give 4"},
        {TENSOR("{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,4]}"), "need 16 bytes"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}"), "need more than"},
        {TENSOR("{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}"), "need more than"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}"), "more than 8 dimensions"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1] \"x\""), "',' or '}'"},
        {TENSOR("{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}") "x", "nothing but spaces"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]} \"u\"", "',' or '}'"},
        {"{\"__metadata__\":[]}", "an object of strings"},
        {"{\"__metadata__\":{\"a\":1}}", "expected a string"},
        {"{\"__metadata__\":{\"a\" \"b\"}}", "expected ':'"},
        {"{\"__metadata__\":{\"a\":\"b\"", "in __metadata__"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "expected a string"},
    };
#undef TENSOR
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        parsed p = parse(rows[i].text, strlen(rows[i].text));
        if (p.status != QN_BAD_INPUT || !strstr(p.err.message, rows[i].message))
            fail_msg("%s: %s, not \"%s\"", rows[i].text, p.status == QN_OK ? "accepted" : p.err.message,
                     rows[i].message);
        assert_int_equal(strncmp(p.err.message, "f: ", 3), 0);
        release(&p);
    }
}

static void test_refuses_long_names(void **state)
{
    (void)state;
    for (int length = QN_TENSOR_NAME_BYTES - 1; length <= QN_TENSOR_NAME_BYTES + 1; length++) {
        char text[QN_TENSOR_NAME_BYTES + 128];
        int bytes = snprintf(text, sizeof text, "{\"%0*d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                             length, 7);
        parsed p = parse(text, (size_t)bytes);
        assert_int_equal(p.status, length <= QN_TENSOR_NAME_BYTES ? QN_OK : QN_BAD_INPUT);
        release(&p);
    }
}

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    static const char text[] =
        "{\"__metadata__\":{\"f\":\"\\u00e9\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],"
        "\"data_offsets\":[0,8]},\"b\":{\"shape\":[],\"data_offsets\":[8,10],\"dtype\":\"F16\"}}";
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        parsed p = parse(text, bytes);
        assert_int_equal(p.status, QN_BAD_INPUT);
        release(&p);
    }
}

static qn_status keep_last(void *context, const qn_header_entry *entry, qn_error *err)
{
    if (strcmp(entry->name, "stop") == 0)
        return qn_fail(err, QN_CANCELLED, "stopped");
    qn_header_entry *last = context;
    *last = *entry;
    last->name = strcmp(entry->name, "far") == 0 ? "far" : "other";
    last->dtype = strcmp(entry->dtype, "F8_E5M2") == 0 ? "F8_E5M2" : "other";
    return QN_OK;
}

static qn_status walk(const char *text, qn_header_entry *last, qn_error *err)
{
    qn_header_text header = {.text = text, .bytes = strlen(text), .what = "f"};
    return qn_safetensors_header_walk(&header, keep_last, last, err);
}

static void test_walk_hands_out_what_parsing_refuses(void **state)
{
    (void)state;
    qn_error err;
    qn_header_entry last = {0};
    assert_int_equal(
        walk("{\"far\":{\"dtype\":\"F8_E5M2\",\"shape\":[3,7],\"data_offsets\":[9,8000000000]}}", &last, &err), QN_OK);
    assert_string_equal(last.name, "far");
    assert_string_equal(last.dtype, "F8_E5M2");
    assert_int_equal(last.dims, 2);
    assert_int_equal(last.shape[1], 7);
    assert_int_equal(last.offsets[1], 8000000000);
    assert_int_equal(walk("{\"a\":{\"dtype\":\"\",\"shape\":[1,2,3,4,5,6,7,8,9,10],\"data_offsets\":[1,2,3,4]}}", &last,
                          &err),
                     QN_OK);
    assert_int_equal(last.dims, QN_TENSOR_MAX_DIMS + 1);
    assert_int_equal(last.offset_count, 3);
    assert_int_equal(walk("{\"stop\":{\"dtype\":\"\",\"shape\":[],\"data_offsets\":[]},", &last, &err), QN_CANCELLED);
    assert_int_equal(walk("{\"a\":{\"dtype\":\"BF16\",\"shape\":[]}}", &last, &err), QN_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_every_dtype_and_shape),
        cmocka_unit_test(test_refuses_each_bad_header),
        cmocka_unit_test(test_refuses_long_names),
        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_walk_hands_out_what_parsing_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
