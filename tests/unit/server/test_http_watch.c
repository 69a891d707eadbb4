#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_watch.h"

/* Ends when the watch has shut the other socket of the pair. */
static void wait_for_end(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static void test_who_is_late_is_shut(void **state)
{
    (void)state;
    int late[2], never[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, late), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, never), 0);
    qn_watch *watch = NULL;
    qn_error err;
    assert_int_equal(qn_watch_new(1, &watch, &err), QN_OK);
    qn_watched *first = qn_watch_add(watch, never[0]);
    qn_watched *second = qn_watch_add(watch, late[0]);
    qn_watch_no_deadline(first);
    wait_for_end(late[1]); /* a new connection has the patience's time */
    char byte;
    assert_int_equal(recv(never[1], &byte, 1, MSG_DONTWAIT), -1);
    qn_watch_deadline(first, qn_now_us(), (size_t)3600 * QN_WATCH_BYTES_PER_SECOND);
    assert_int_equal(recv(never[1], &byte, 1, MSG_DONTWAIT), -1);
    qn_watch_deadline(first, 0, 0); /* long past */
    wait_for_end(never[1]);
    qn_watch_remove(watch, first);
    qn_watch_remove(watch, second);
    qn_watch_remove(watch, NULL);
    qn_watch_free(watch);
    qn_watch_free(NULL);
    for (size_t i = 0; i < 2; i++) {
        close(late[i]);
        close(never[i]);
    }
}

static void test_connections_come_and_go(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    qn_watch *watch = NULL;
    qn_watched *connections[COUNT];
    qn_error err;
    assert_int_equal(qn_watch_new(1000, &watch, &err), QN_OK);
    for (size_t i = 0; i < COUNT; i++) {
        connections[i] = qn_watch_add(watch, -1);
        assert_non_null(connections[i]);
    }
    for (size_t i = 0; i < COUNT; i++) { /* from the middle, the ends last */
        qn_watch_remove(watch, connections[(i * 37 + 50) % COUNT]);
    }
    qn_watch_free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_who_is_late_is_shut),
                                       cmocka_unit_test(test_connections_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
