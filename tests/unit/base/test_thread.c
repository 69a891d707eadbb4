#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/fault.h"
#include "base/thread.h"

typedef struct seen {
    sigset_t blocked;
} seen;

static void *look(void *context)
{
    seen *s = context;
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    return NULL;
}

static void test_signals_are_for_others_but_not_its_own_faults(void **state)
{
    (void)state;
    seen s;
    sigset_t before, after;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(qn_thread_start(&thread, "a-name-that-is-too-long", look, &s), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&s.blocked, SIGTERM), 1);
    assert_int_equal(sigismember(&s.blocked, SIGINT), 1);
    assert_int_equal(sigismember(&s.blocked, SIGWINCH), 1);
    assert_int_equal(sigismember(&s.blocked, SIGBUS), 0);
    assert_int_equal(sigismember(&s.blocked, SIGSEGV), 0);
    assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static void test_failure_is_told(void **state)
{
    (void)state;
    pthread_t thread;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_thread_start(&thread, "x", look, NULL), EAGAIN);
    qn_fault_disarm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_are_for_others_but_not_its_own_faults),
        cmocka_unit_test(test_failure_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
