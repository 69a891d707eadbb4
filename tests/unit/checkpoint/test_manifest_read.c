#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "checkpoint/manifest.h"

#define H "\"0123456789abcdef0123456789abcdef\""
#define HEAD "{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{},\"files\":["
#define FILE_A "{\"name\":\"a\",\"bytes\":1,\"hash\":" H "}"

static void test_every_departure_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", "m: "},
        {"[]", "is no manifest of quern"},
        {"{\"format\":\"quern-manifest\\u0000\"}", "m: "},
        {"{\"format\":\"quern-manifest\"}", "version: is not 1"},
        {"{\"format\":\"quern-manifest\",\"version\":2,\"settings\":{},\"files\":[]}", "version: is not 1"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{}}", "unknown field or lacks one"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{},\"files\":{}}", "unknown field or lacks one"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{},\"files\":[],\"x\":0}", "unknown field"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":[],\"files\":[]}", "settings: is no object"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{\"a\":1},\"files\":[]}", "no short text"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{\"\":\"\"},\"files\":[]}", "no short text"},
        {"{\"format\":\"quern-manifest\",\"version\":1,\"settings\":{\"a\":\"\",\"a\":\"\"},\"files\":[]}", "m: "},
        {HEAD "1]}", "a file's entry is no object with a name"},
        {HEAD "{\"name\":\"a\\u0000b\",\"bytes\":1,\"hash\":" H "}]}", "m: "},
        {HEAD "{\"name\":\"a\",\"bytes\":1}]}", "a: its entry has an unknown field or lacks one"},
        {HEAD "{\"name\":\"a\",\"bytes\":1,\"hash\":" H ",\"date\":1}]}", "a: its entry has an unknown field"},
        {HEAD "{\"name\":\"a\",\"bytes\":-1,\"hash\":" H "}]}", "a: its bytes are not a whole number"},
        {HEAD "{\"name\":\"a\",\"bytes\":1.0,\"hash\":" H "}]}", "a: its bytes are not a whole number"},
        {HEAD "{\"name\":\"a\",\"bytes\":1,\"hash\":\"0123\"}]}", "a: its hash is not 32 hexadecimal digits"},
        {HEAD "{\"name\":\"a\",\"bytes\":1,\"hash\":1}]}", "a: its hash is not 32 hexadecimal digits"},
        {HEAD "{\"name\":\"../a\",\"bytes\":1,\"hash\":" H "}]}", "not a plain file name"},
        {HEAD "{\"name\":\"a.safetensors\",\"bytes\":1,\"hash\":" H "}]}", "without tensors"},
        {HEAD "{\"name\":\"a\",\"bytes\":1,\"header\":" H ",\"tensors\":{}}]}", "is no .safetensors file"},
        {HEAD FILE_A "," FILE_A "]}", "a: is listed twice"},
        {HEAD "{\"name\":\"a.safetensors\",\"bytes\":1,\"header\":" H ",\"tensors\":[]}]}", "are no object"},
        {HEAD "{\"name\":\"a.safetensors\",\"bytes\":1,\"header\":" H ",\"tensors\":{\"t\":\"\"}}]}",
         "a.safetensors: tensor t: its hash is not"},
        {HEAD "{\"name\":\"a.safetensors\",\"bytes\":1,\"header\":" H ",\"tensors\":{\"\":" H "}}]}", "does not print"},
        {HEAD "]} ]", "m: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_error err = {0};
        qn_manifest *m = NULL;
        assert_int_equal(qn_manifest_parse(cases[i].text, strlen(cases[i].text), "m", &m, &err), QN_BAD_INPUT);
        assert_null(m);
        if (strncmp(err.message, "m: ", 3) != 0 || !strstr(err.message, cases[i].expected))
            fail_msg("%s\n  gave: %s", cases[i].text, err.message);
    }
}

static void test_good_ones_are_taken(void **state)
{
    (void)state;
    static const char text[] = HEAD FILE_A ",{\"name\":\"0.safetensors\",\"bytes\":9,\"header\":" H
                                           ",\"tensors\":{\"t\":" H ",\"s\":" H "}}]}";
    qn_error err;
    qn_manifest *m = NULL;
    assert_int_equal(qn_manifest_parse(text, sizeof text - 1, "m", &m, &err), QN_OK);
    assert_string_equal(qn_manifest_at(m, 0)->name, "0.safetensors");
    assert_string_equal(qn_manifest_at(m, 0)->tensors[0].name, "t"); /* the file's order, not the alphabet's */
    assert_int_equal(qn_manifest_entry_parse("{}", 2, "e", m, &err), QN_BAD_INPUT);
    assert_int_equal(qn_manifest_entry_parse("{", 1, "e", m, &err), QN_BAD_INPUT);
    assert_int_equal(qn_manifest_count(m), 2);
    qn_manifest_free(m);
}

static void test_missing_file_is_named(void **state)
{
    (void)state;
    qn_error err;
    qn_manifest *m = NULL;
    assert_int_equal(qn_manifest_read("/nonexistent/quern-manifest.json", &m, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "no such file"));
    assert_int_equal(qn_manifest_entry_read("/nonexistent/x.json", m, &err), QN_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_departure_is_refused_with_its_place),
        cmocka_unit_test(test_good_ones_are_taken),
        cmocka_unit_test(test_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
