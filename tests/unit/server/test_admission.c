#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "server/admission.h"

static void test_bearer(void **state)
{
    (void)state;
    assert_string_equal(qn_bearer_token("Bearer abc"), "abc");
    assert_string_equal(qn_bearer_token("bEARER   abc d"), "abc d");
    assert_string_equal(qn_bearer_token("Bearer "), "");
    assert_null(qn_bearer_token("Bearer"));
    assert_null(qn_bearer_token("Bearerabc"));
    assert_null(qn_bearer_token("Basic abc"));
    assert_null(qn_bearer_token(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bearer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
