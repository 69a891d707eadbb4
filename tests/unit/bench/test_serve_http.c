/* The server's address and what it says when it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "bench/serve_client.h"
#include "bench/serve_http.h"

static void addresses_lose_what_is_added(void **state)
{
    (void)state;
    static const char *const same[] = {"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/", "http://h:1//"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        qn_serve_target target;
        qn_error err;
        assert_int_equal(qn_serve_target_open(same[i], "m", 1, &target, &err), QN_OK);
        assert_string_equal(target.url, "http://h:1/v1");
        assert_string_equal(target.model, "m");
    }
}

static void bad_addresses_and_names_are_usage(void **state)
{
    (void)state;
    static char long_url[2 * QN_SERVE_URL_BYTES] = "http://", long_model[2 * QN_SERVE_MODEL_BYTES];
    memset(long_url + 7, 'x', sizeof long_url - 8);
    memset(long_model, 'x', sizeof long_model - 1);
    const char *const cases[][2] = {
        {"", "m"},        {"h:1", "m"},        {"file:///etc/passwd", "m"}, {long_url, "m"}, {"http://h", long_model},
        {"http://h", ""}, {"http://h", "\xff"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_serve_target target;
        qn_error err;
        assert_int_equal(qn_serve_target_open(cases[i][0], cases[i][1], 1, &target, &err), QN_USAGE);
    }
}

static void server_that_is_not_there_is_told(void **state)
{
    (void)state;
    qn_serve_target target;
    qn_error err;
    assert_int_equal(qn_serve_target_open("http://127.0.0.1:1", NULL, 1, &target, &err), QN_RESOURCE);
    assert_non_null(strstr(err.message, "http://127.0.0.1:1/v1/models"));
}

static void refusals_tell_their_message(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"{\"error\":{\"message\":\"why\"}}", "server: HTTP 400: why"},
                                           {"<html>", "server: HTTP 400: <html>"},
                                           {"{\"error\":7}", "server: HTTP 400: {\"error\":7}"},
                                           {"", "server: HTTP 400: "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qn_buffer body = {0};
        qn_error err;
        qn_buffer_text(&body, cases[i][0]);
        assert_int_equal(qn_serve_http_error(400, &body, &err), QN_FAILED);
        assert_string_equal(err.message, cases[i][1]);
        qn_buffer_free(&body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_lose_what_is_added),
        cmocka_unit_test(bad_addresses_and_names_are_usage),
        cmocka_unit_test(server_that_is_not_there_is_told),
        cmocka_unit_test(refusals_tell_their_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
