#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "server/cors.h"

static qn_cors open_cors(const char *origins, const char *methods, const char *headers)
{
    qn_cors cors;
    qn_error err;
    assert_int_equal(qn_cors_open(origins, methods, headers, false, &cors, &err), QN_OK);
    return cors;
}

static void test_all(void **state)
{
    (void)state;
    qn_cors cors = open_cors("[\"*\"]", NULL, NULL);
    assert_string_equal(qn_cors_origin(&cors, "https://a.example"), "*");
    assert_string_equal(qn_cors_origin(&cors, "null"), "*");
    assert_true(qn_cors_allows_method(&cors, "PATCH"));
    assert_true(qn_cors_allows_headers(&cors, "authorization, x-anything"));
    assert_string_equal(cors.method_list, "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
    qn_cors_close(&cors);
}

static void test_lists(void **state)
{
    (void)state;
    qn_cors cors = open_cors("[\"https://a.example\", \"http://b:3000\"]", "[\"GET\",\"POST\"]", "[\"Authorization\"]");
    assert_string_equal(qn_cors_origin(&cors, "https://a.example"), "https://a.example");
    assert_string_equal(qn_cors_origin(&cors, "http://b:3000"), "http://b:3000");
    static const char *const strangers[] = {
        "", "null", "*", "http://a.example", "http", "https://a.example.evil", "http://b", "https://a.example/"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        assert_null(qn_cors_origin(&cors, strangers[i]));
    }
    assert_true(qn_cors_allows_method(&cors, "POST"));
    assert_false(qn_cors_allows_method(&cors, "DELETE"));
    assert_false(qn_cors_allows_method(&cors, "*"));
    assert_true(qn_cors_allows_headers(&cors, NULL));
    assert_true(qn_cors_allows_headers(&cors, ""));
    assert_true(qn_cors_allows_headers(&cors, "content-type,AUTHORIZATION"));
    assert_false(qn_cors_allows_headers(&cors, "content-type, x-api-key"));
    assert_false(qn_cors_allows_headers(&cors, "authorizatio"));
    assert_string_equal(cors.method_list, "GET, POST");
    assert_string_equal(cors.header_list, "Accept, Accept-Language, Content-Language, Content-Type, Authorization");
    qn_cors_close(&cors);
}

static void test_errors_name_the_flag(void **state)
{
    (void)state;
    static const char fine[] = "[\"*\"]";
    static const struct {
        const char *origins, *methods, *headers;
        bool credentials;
        const char *message;
    } cases[] = {
        {"*", NULL, NULL, false, "--allowed-origins"},
        {"\"*\"", NULL, NULL, false, "--allowed-origins: not a list"},
        {"[]", NULL, NULL, false, "--allowed-origins: not a list"},
        {"[1]", NULL, NULL, false, "--allowed-origins[0]"},
        {"[\"*\", \"a\\r\\nb\"]", NULL, NULL, false, "--allowed-origins[1]"},
        {"[\"a.example\"]", NULL, NULL, false, "--allowed-origins[0]: 'a.example'"},
        {"[\"https://\"]", NULL, NULL, false, "--allowed-origins[0]"},
        {"[\"https://a.example/\"]", NULL, NULL, false, "--allowed-origins[0]"},
        {"[\"https://*.example\"]", NULL, NULL, false, "--allowed-origins[0]"},
        {fine, "[\"GET, POST\"]", NULL, false, "--allowed-methods[0]"},
        {fine, "{}", NULL, false, "--allowed-methods: not a list"},
        {fine, NULL, "[\"a:\\u0000\"]", false, "--allowed-headers[0]"},
        {fine, NULL, "[\"\"]", false, "--allowed-headers[0]"},
        {fine, NULL, NULL, true, "--allow-credentials: not for every origin"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_cors cors;
        qn_error err;
        assert_int_equal(qn_cors_open(cases[i].origins, cases[i].methods, cases[i].headers, cases[i].credentials, &cors,
                                      &err),
                         QN_USAGE);
        assert_ptr_equal(strstr(err.message, cases[i].message), err.message);
    }
}

static void test_short_memory(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        qn_cors cors;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_status status = qn_cors_open("[\"http://a\"]", "[\"GET\"]", "[\"x\"]", true, &cors, &err);
        bool failed = qn_fault_seen(QN_FAULT_ALLOC) >= nth;
        qn_fault_disarm();
        assert_int_equal(status, failed ? QN_RESOURCE : QN_OK);
        if (!failed) {
            qn_cors_close(&cors);
            assert_true(nth > 5);
            return;
        }
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_errors_name_the_flag),
        cmocka_unit_test(test_short_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
