#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "unit/server/http_fixture.h"

static void test_who_reaches_an_address(void **state)
{
    (void)state;
    static const struct {
        const char *host;
        bool loopback;
    } cases[] = {{"0.0.0.0", false}, {"127.5.0.1", true}, {"localhost", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_http_socket socket;
        qn_error err;
        assert_int_equal(qn_http_bind(cases[i].host, 0, &socket, &err), QN_OK);
        assert_int_equal(socket.loopback, cases[i].loopback);
        qn_http_socket_close(&socket);
    }
}

static void test_bind_tells_what_is_wrong(void **state)
{
    http_fixture *f = *state;
    qn_http_socket socket;
    qn_error err;
    assert_int_equal(qn_http_bind("127.0.0.1", f->port, &socket, &err), QN_RESOURCE);
    assert_string_equal(err.field, "port");
    assert_int_equal(socket.fd, -1);
    assert_int_equal(qn_http_bind("no.such.host.invalid", 0, &socket, &err), QN_USAGE);
    assert_string_equal(err.field, "host");
    char lengthy[QN_HTTP_HOST_BYTES + 1];
    memset(lengthy, 'a', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(qn_http_bind(lengthy, 0, &socket, &err), QN_USAGE);
    qn_http_socket_close(&socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_reaches_an_address),
        cmocka_unit_test_setup_teardown(test_bind_tells_what_is_wrong, http_setup, http_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
