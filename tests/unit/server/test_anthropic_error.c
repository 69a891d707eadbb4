#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "server/anthropic_error.h"

static void test_types(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        const char *type;
    } cases[] = {
        {400, "invalid_request_error"}, {401, "authentication_error"},
        {403, "permission_error"},      {404, "not_found_error"},
        {405, "invalid_request_error"}, {413, "request_too_large"},
        {429, "rate_limit_error"},      {500, "api_error"},
        {503, "overloaded_error"},      {504, "timeout_error"},
    };
    qn_error err;
    qn_fail_field(&err, QN_USAGE, "x", "x: a \"reason\"");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_buffer out = {0};
        char wanted[200];
        snprintf(wanted, sizeof wanted,
                 "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"x: a \\\"reason\\\"\"}}", cases[i].type);
        qn_anthropic_error_write(&(qn_api_error){.status = cases[i].status}, &err, &out);
        assert_string_equal(qn_buffer_string(&out), wanted);
        qn_buffer_free(&out);
    }
}

static void test_paths(void **state)
{
    (void)state;
    assert_true(qn_anthropic_path("/v1/messages"));
    assert_true(qn_anthropic_path("/v1/messages/count_tokens"));
    assert_false(qn_anthropic_path("/v1/messagesx"));
    assert_false(qn_anthropic_path("/v1/chat/completions"));
    assert_false(qn_anthropic_path("/v1/message"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_types), cmocka_unit_test(test_paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
