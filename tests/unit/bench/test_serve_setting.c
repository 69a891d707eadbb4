/* The flags of a bench's own server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "bench/serve_setting.h"

static void address_flags_are_refused(void **state)
{
    (void)state;
    static const char *const flags[] = {"--port", "--port=1", "--host", "--host=x"};
    const qn_serve_setting setting = {QN_SETTING_DEFAULT, QN_SETTING_DEFAULT};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        qn_serve_process process;
        qn_error err;
        assert_int_equal(qn_serve_setting_start(&setting, "dir", &flags[i], 1, NULL, &process, &err), QN_USAGE);
        assert_non_null(strstr(err.message, flags[i]));
    }
}

static void too_many_flags_are_refused(void **state)
{
    (void)state;
    const char *flags[QN_SERVE_MAX_FLAGS];
    const qn_serve_setting setting = {1, 2};
    for (size_t i = 0; i < QN_SERVE_MAX_FLAGS; i++)
        flags[i] = "--flag";
    qn_serve_process process;
    qn_error err;
    assert_int_equal(qn_serve_setting_start(&setting, "dir", flags, QN_SERVE_MAX_FLAGS, NULL, &process, &err),
                     QN_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(address_flags_are_refused),
        cmocka_unit_test(too_many_flags_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
