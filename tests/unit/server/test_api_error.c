#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "server/api_error.h"

/* The member of the error that the buffer holds, which is emptied; the caller's. */
static json_t *parse(qn_buffer *out)
{
    json_t *body = json_loadb(qn_buffer_string(out), out->size, 0, NULL);
    assert_non_null(body);
    assert_int_equal(json_object_size(body), 1);
    json_t *error = json_incref(json_object_get(body, "error"));
    assert_int_equal(json_object_size(error), 4);
    json_decref(body);
    qn_buffer_free(out);
    return error;
}

static const char *text_of(const json_t *error, const char *name)
{
    return json_string_value(json_object_get(error, name));
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        qn_status status;
        unsigned http;
    } cases[] = {{QN_USAGE, 400},     {QN_BAD_INPUT, 400}, {QN_RESOURCE, 503},
                 {QN_CANCELLED, 503}, {QN_FAILED, 500},    {QN_INTERNAL, 500}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_error err;
        qn_fail(&err, cases[i].status, "thing: \"reason\"");
        qn_api_error error = qn_api_error_of(&err);
        assert_int_equal(error.status, cases[i].http);
        qn_buffer out = {0};
        qn_api_error_write(&error, &err, &out);
        json_t *body = parse(&out);
        assert_string_equal(text_of(body, "message"), "thing: \"reason\"");
        assert_true(json_is_null(json_object_get(body, "param")));
        assert_string_equal(text_of(body, "type"), cases[i].http >= 500 ? "server_error" : "invalid_request_error");
        json_decref(body);
    }
    qn_error err;
    qn_fail_field(&err, QN_USAGE, "model", "model: unknown");
    qn_buffer out = {0};
    qn_api_error_write(&(qn_api_error){.status = 404, .code = "model_not_found"}, &err, &out);
    json_t *body = parse(&out);
    assert_string_equal(text_of(body, "param"), "model");
    assert_string_equal(text_of(body, "code"), "model_not_found");
    json_decref(body);
}

static void test_time_that_is_over_is_a_504(void **state)
{
    (void)state;
    qn_error err;
    qn_fail_field(&err, QN_CANCELLED, "timeout", "request: its time is over");
    qn_api_error error = qn_api_error_of(&err);
    assert_int_equal(error.status, 504);
    assert_string_equal(error.code, "timeout");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_time_that_is_over_is_a_504)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
