#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/config.h"
#include "checkpoint/config_rewrite.h"

static void rewrite(const char *text, qn_buffer *out)
{
    qn_error err = {0};
    if (qn_config_rewrite(text, strlen(text), "c", out, &err) != QN_OK)
        fail_msg("%s: %s", text, err.message);
}

/* The result without its new field: what came from the source. */
static void assert_kept(const char *text, const char *before, const char *after)
{
    qn_buffer out = {0};
    rewrite(text, &out);
    const char *field = strstr(out.data, "\"quantization_config\": {");
    assert_non_null(field);
    assert_null(strstr(field + 3, "quantization_config"));
    assert_int_equal(field - out.data, strlen(before));
    assert_memory_equal(out.data, before, strlen(before));
    assert_string_equal(out.data + out.size - strlen(after), after);
    qn_buffer_free(&out);
}

static void test_every_other_byte_stays(void **state)
{
    (void)state;
    assert_kept("{\n  \"rms_norm_eps\": 1e-05,\n  \"theta\": 8000000\n}\n",
                "{\n  \"rms_norm_eps\": 1e-05,\n  \"theta\": 8000000,\n  ", "\n  }\n}\n");
    assert_kept("{\"a\":123456789012345678901234567890, \"b\" : [1,{\"c\":\"},{\\\"\"}]}",
                "{\"a\":123456789012345678901234567890, \"b\" : [1,{\"c\":\"},{\\\"\"}],\n  ", "\n  }\n}\n");
    assert_kept(" { } ", "{\n  ", "\n  }\n}\n");
    assert_kept("{\"a\" : \"\\u00e4\\\\\"\r\n}", "{\"a\" : \"\\u00e4\\\\\",\n  ", "\n  }\r\n}\n");
}

static void test_an_old_quantization_is_replaced_wherever_it_stands(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\n  \"quantization_config\": {\"x\": \"}\"},\n  \"a\": 1,\n  \"b\": 2\n}",
        "{\n  \"a\": 1,\n  \"quantization_config\": [],\n  \"b\": 2\n}",
        "{\n  \"a\": 1,\n  \"b\": 2,\n  \"quantization_config\": null\n}",
        "{\n  \"a\": 1,\n  \"b\": 2,\n  \"quanti\\u007aation_config\": 1\n}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_kept(texts[i], "{\n  \"a\": 1,\n  \"b\": 2,\n  ", "\n  }\n}\n");
    assert_kept("{\n    \"quantization_config\": 1\n}", "{\n    ", "\n    }\n}\n");
    assert_kept("{\"x\": {\"quantization_conf\": 1}}", "{\"x\": {\"quantization_conf\": 1},\n  ", "\n  }\n}\n");
}

static void test_quern_reads_the_result_as_compressed_tensors(void **state)
{
    (void)state;
    qn_error err = {0};
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qn_file_read("tests/data/oracle/tiny-sparse/config.json", 1 << 20, &text, &bytes, &err), QN_OK);
    qn_buffer out = {0}, again = {0};
    rewrite(text, &out);
    static qn_config config;
    assert_int_equal(qn_config_parse(out.data, out.size, "config.json", &config, &err), QN_OK);
    assert_int_equal(config.expert_format, QN_EXPERTS_COMPRESSED_TENSORS);
    rewrite(out.data, &again); /* of a converted one: the same */
    assert_string_equal(out.data, again.data);
    qn_buffer_free(&out);
    qn_buffer_free(&again);
    qn_free(text);
}

static void test_what_is_no_object_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "[]", "1", "{\"a\":}", "{\"a\":1,}", "{} {}", "\"{\"", "{\"a\":1,\"a\":2}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        qn_error err = {0};
        qn_buffer out = {0};
        assert_int_equal(qn_config_rewrite(texts[i], strlen(texts[i]), "c", &out, &err), QN_BAD_INPUT);
        assert_int_equal(strncmp(err.message, "c: ", 3), 0);
        qn_buffer_free(&out);
    }
}

static void test_no_memory_is_told(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": 1, \"quantization_config\": {}}";
    long seen = 1;
    for (long n = 1; seen >= n; n++) {
        qn_error err = {0};
        qn_buffer out = {0};
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_config_rewrite(text, sizeof text - 1, "c", &out, &err);
        seen = qn_fault_seen(QN_FAULT_ALLOC);
        qn_fault_disarm();
        assert_true(status == QN_OK || (seen >= n && status == QN_RESOURCE && err.status == status));
        qn_buffer_free(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_other_byte_stays),
        cmocka_unit_test(test_an_old_quantization_is_replaced_wherever_it_stands),
        cmocka_unit_test(test_quern_reads_the_result_as_compressed_tensors),
        cmocka_unit_test(test_what_is_no_object_is_refused),
        cmocka_unit_test(test_no_memory_is_told),
    };
    qn_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
