#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "base/finite.h"

static void finds_each_kind_at_each_place(void **state)
{
    (void)state;
    enum { MOST = 70 };
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    float values[MOST] = {0};
    for (size_t n = 0; n <= MOST; n++) {
        for (size_t i = 0; i < n; i++) {
            values[i] = i % 3 == 0 ? FLT_MAX : i % 3 == 1 ? -FLT_MAX : 1e-45F;
        }
        assert_true(qn_all_finite(values, n));
        for (size_t i = 0; i < n; i++) {
            float good = values[i];
            values[i] = bad[(i + n) % 3];
            assert_false(qn_all_finite(values, n));
            values[i] = good;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_each_kind_at_each_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
