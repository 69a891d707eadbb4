#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "server/sse.h"

static void test_events(void **state)
{
    (void)state;
    qn_buffer out = {0};
    qn_sse_data(&out, "{}", 2);
    qn_sse_comment(&out, "working");
    qn_sse_open(&out, "ping");
    qn_buffer_text(&out, "[]");
    qn_sse_close(&out);
    assert_string_equal(qn_buffer_string(&out), "data: {}\n\n: working\n\nevent: ping\ndata: []\n\n");
    qn_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
