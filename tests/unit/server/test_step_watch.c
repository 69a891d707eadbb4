#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "server/step_watch.h"

/* An engine's step as a watch sees it, and the end it makes. */
typedef struct engine {
    _Atomic uint64_t started_us;
    atomic_int looks;
    int ended_fd;
    atomic_int lines;
} engine;

static uint64_t started(void *context)
{
    engine *e = context;
    atomic_fetch_add(&e->looks, 1);
    return atomic_load(&e->started_us);
}

static void overdue(void *context)
{
    engine *e = context;
    eventfd_write(e->ended_fd, 1);
}

static void count_line(void *context, const char *line)
{
    engine *e = context;
    if (strstr(line, "--step-timeout, 0.02 s") != NULL) {
        atomic_fetch_add(&e->lines, 1);
    }
}

static qn_step_watch *start(engine *e, uint64_t limit_us)
{
    qn_step_watch *watch = NULL;
    qn_error err;
    const qn_step_watch_options options = {
        .limit_us = limit_us, .step_started_us = started, .on_overdue = overdue, .context = e};
    assert_int_equal(qn_step_watch_new(&options, &watch, &err), QN_OK);
    return watch;
}

static void test_a_step_that_hangs_is_told_once(void **state)
{
    (void)state;
    engine e = {.ended_fd = eventfd(0, EFD_CLOEXEC)};
    qn_log_set_sink(count_line, &e);
    atomic_store(&e.started_us, qn_now_us());
    qn_step_watch *watch = start(&e, 20000);
    struct pollfd ended = {.fd = e.ended_fd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, -1), 1);
    qn_step_watch_free(watch);
    qn_log_set_sink(NULL, NULL);
    eventfd_t times = 0;
    eventfd_read(e.ended_fd, &times);
    assert_int_equal(times, 1);
    assert_int_equal(atomic_load(&e.lines), 1);
    close(e.ended_fd);
}

static void test_idle_and_new_steps_are_left_alone(void **state)
{
    (void)state;
    engine e = {.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    qn_step_watch *watch = start(&e, 1000); /* idle: no step */
    while (atomic_load(&e.looks) < 5) {
        poll(NULL, 0, 1);
    }
    qn_step_watch_free(watch);
    atomic_store(&e.started_us, qn_now_us() + 3600000000U); /* never overdue, however slow this test is */
    watch = start(&e, 1000);
    while (atomic_load(&e.looks) < 10) {
        poll(NULL, 0, 1);
    }
    qn_step_watch_free(watch);
    eventfd_t times = 0;
    assert_int_equal(eventfd_read(e.ended_fd, &times), -1);
    close(e.ended_fd);
}

static void test_ends_at_once_while_it_sleeps(void **state)
{
    (void)state;
    engine e = {.ended_fd = -1};
    for (int i = 0; i < 100; i++) {
        qn_step_watch_free(start(&e, UINT64_MAX / 2));
    }
    qn_step_watch_free(NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    qn_step_watch *watch = NULL;
    qn_error err;
    const qn_step_watch_options options = {.limit_us = 1};
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_step_watch_new(&options, &watch, &err), QN_RESOURCE);
    qn_fault_disarm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_that_hangs_is_told_once),
        cmocka_unit_test(test_idle_and_new_steps_are_left_alone),
        cmocka_unit_test(test_ends_at_once_while_it_sleeps),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
