#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "server/request_body.h"

static void assert_refused(const char *body, const char *part)
{
    json_t *out = NULL;
    qn_error err;
    if (qn_request_body_parse(body, strlen(body), &out, &err) != QN_USAGE) {
        fail_msg("not refused: %.100s", body);
    }
    assert_string_equal(err.field, "");
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, part);
    }
}

static void test_bad_bodies(void **state)
{
    (void)state;
    assert_refused("", "empty");
    assert_refused("{oops", "body");
    assert_refused("[]", "send a JSON object");
    assert_refused("{\"model\":\"\xff\"}", "body");
    assert_refused("{\"model\":\"a\",\"model\":\"b\"}", "body");
    qn_buffer deep = {0};
    for (int i = 0; i < 100000; i++) {
        qn_buffer_char(&deep, '[');
    }
    assert_refused(qn_buffer_string(&deep), "body");
    qn_buffer_free(&deep);
    qn_buffer wide = {0};
    qn_buffer_text(&wide, "{\"messages\":[0");
    for (int i = 0; i < 1000000; i++) {
        qn_buffer_text(&wide, ",0");
    }
    qn_buffer_text(&wide, "]}");
    assert_refused(qn_buffer_string(&wide), "JSON values");
    qn_buffer_free(&wide);
}

/* Text with the signs that separate values, in strings, is one value. */
static void test_strings_count_once(void **state)
{
    (void)state;
    qn_buffer body = {0};
    qn_buffer_text(&body, "{\"a\":\"");
    for (int i = 0; i < QN_BODY_MAX_VALUES; i++) {
        qn_buffer_text(&body, ",\\\"");
    }
    qn_buffer_text(&body, "\"}");
    json_t *out = NULL;
    qn_error err;
    assert_int_equal(qn_request_body_parse(body.data, body.size, &out, &err), QN_OK);
    assert_int_equal(json_string_length(json_object_get(out, "a")), 2 * QN_BODY_MAX_VALUES);
    json_decref(out);
    qn_buffer_free(&body);
}

static void test_cost_grows_with_values_and_text(void **state)
{
    (void)state;
    static const char few[] = "{\"a\":\"0.0.0.0.0.0.0.0\"}", many[] = "{\"a\":[0,0,0,0,0,0,0,0]}";
    assert_int_equal(sizeof few, sizeof many);
    size_t text = qn_request_body_cost(few, sizeof few - 1), values = qn_request_body_cost(many, sizeof many - 1);
    assert_true(text >= sizeof few - 1);
    assert_true(values > text + 7 * 100);
    static const char arguments[] = "{\"a\":\"0,0,0,0,0,0,0,0\"}"; /* could be parsed in their turn */
    assert_true(qn_request_body_cost(arguments, sizeof arguments - 1) > text + 7 * 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad_bodies), cmocka_unit_test(test_strings_count_once),
                                       cmocka_unit_test(test_cost_grows_with_values_and_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
