#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "cli/size_list.h"

enum { ROOM = 3, MOST = 100000 };

static void test_lists(void **state)
{
    (void)state;
    size_t out[ROOM], count;
    qn_error err;
    assert_int_equal(qn_size_list_read("x", "7", 0, MOST, ROOM, out, &count, &err), QN_OK);
    assert_true(count == 1 && out[0] == 7);
    assert_int_equal(qn_size_list_read("x", "0,4K,32k", 0, MOST, ROOM, out, &count, &err), QN_OK);
    assert_true(count == 3 && out[0] == 0 && out[1] == 4096 && out[2] == 32000);
}

static void test_bad_lists(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      ",",
                                      "1,",
                                      ",1",
                                      "1,,2",
                                      "1 2",
                                      "-1",
                                      "x",
                                      "1,y",
                                      "1,2,3,4",
                                      "0x10",
                                      "100001",
                                      "1M",
                                      "1,100k1",
                                      "99999999999999999999",
                                      "1111111111111111111111111111111111111"};
    size_t out[ROOM], count;
    qn_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qn_size_list_read("some-list", bad[i], 0, MOST, ROOM, out, &count, &err), QN_USAGE);
        assert_string_equal(err.field, "some-list");
        assert_non_null(strstr(err.message, "give 1 to 3 numbers from 0 to 100000 with commas between"));
    }
    assert_int_equal(qn_size_list_read("x", "1,0", 1, MOST, ROOM, out, &count, &err), QN_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_bad_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
