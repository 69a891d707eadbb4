/* On this machine, whatever CPUs it has and lets the test use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu_binding.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/pool.h"

enum { LIST_BYTES = 16, CPUS_MOST = 1024 };

static char last_line[512];

static void keep_line(void *context, const char *line)
{
    (void)context;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static cpu_set_t cpus_of(pthread_t thread)
{
    cpu_set_t set;
    assert_int_equal(pthread_getaffinity_np(thread, sizeof set, &set), 0);
    return set;
}

static int first_of(const cpu_set_t *set)
{
    int cpu = 0;
    while (cpu < CPUS_MOST - 1 && !CPU_ISSET((size_t)cpu, set))
        cpu++;
    return cpu;
}

static qn_cpu_binding *make_binding(const char *how, size_t threads)
{
    qn_cpu_binding *binding = NULL;
    qn_error err;
    last_line[0] = '\0';
    if (qn_cpu_binding_new(how, threads, &binding, &err) != QN_OK)
        fail_msg("%s", err.message);
    return binding;
}

static void assert_same(const cpu_set_t *a, const cpu_set_t *b)
{
    assert_true(CPU_EQUAL(a, b));
}

/* What each worker of a bound pool may use, and a thread that one of them starts. */
typedef struct view {
    cpu_set_t cpus[CPUS_MOST];
    size_t seen;
    pthread_barrier_t all_there;
} view;

static void look_around(void *context, size_t item, size_t worker)
{
    (void)item;
    view *v = context;
    pthread_barrier_wait(&v->all_there); /* each thread takes one item */
    v->cpus[worker] = cpus_of(pthread_self());
}

static void test_threads_share_a_cpu_or_stray(void **state)
{
    (void)state;
    static view v;
    const cpu_set_t before = cpus_of(pthread_self());
    qn_cpu_binding *binding = make_binding("auto", 0);
    size_t threads = qn_cpu_binding_threads(binding);
    qn_pool *pool = NULL;
    qn_error err;
    assert_in_range(threads, 1, qn_cpu_count());
    assert_non_null(strstr(last_line, "one on each of these CPUs"));
    assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
    qn_pool_bind(pool, binding);
    cpu_set_t now = cpus_of(pthread_self());
    assert_same(&now, &before); /* its own affair */
    assert_true(qn_cpu_binding_bind(binding, 0, pthread_self()));

    pthread_barrier_init(&v.all_there, NULL, (unsigned)threads);
    qn_pool_run(pool, threads, look_around, &v);
    pthread_barrier_destroy(&v.all_there);
    cpu_set_t together;
    CPU_ZERO(&together);
    for (size_t i = 0; threads > 1 && i < threads; i++) {
        assert_int_equal(CPU_COUNT(&v.cpus[i]), 1);
        CPU_OR(&together, &together, &v.cpus[i]);
    }
    assert_int_equal(CPU_COUNT(&together), threads > 1 ? threads : 0);
    CPU_AND(&together, &together, &before);
    assert_int_equal(CPU_COUNT(&together), threads > 1 ? threads : 0);
    now = cpus_of(pthread_self());
    assert_int_equal(CPU_COUNT(&now), 1);

    qn_cpu_binding_release(binding, pthread_self());
    now = cpus_of(pthread_self());
    assert_same(&now, &before);
    qn_pool_free(pool);
    qn_cpu_binding_free(binding);
}

static void test_threads_are_bound_unasked(void **state)
{
    (void)state;
    const cpu_set_t before = cpus_of(pthread_self());
    static const char *const ways[] = {NULL, "none"};
    for (size_t i = 0; i < 2; i++) {
        qn_cpu_binding *binding = make_binding(ways[i], 3);
        assert_int_equal(qn_cpu_binding_threads(binding), 3);
        assert_true(qn_cpu_binding_bind(binding, 2, pthread_self()));
        qn_cpu_binding_release(binding, pthread_self());
        cpu_set_t now = cpus_of(pthread_self());
        assert_same(&now, &before);
        assert_string_equal(last_line, "");
        qn_cpu_binding_free(binding);
    }
    qn_cpu_binding_free(NULL);
}

static void test_more_threads_than_cores_are_bound(void **state)
{
    (void)state;
    const cpu_set_t before = cpus_of(pthread_self());
    size_t threads = qn_cpu_count() + 1;
    qn_cpu_binding *binding = make_binding("auto", threads);
    assert_int_equal(qn_cpu_binding_threads(binding), threads);
    assert_non_null(strstr(last_line, "threads are not bound"));
    assert_true(qn_cpu_binding_bind(binding, threads - 1, pthread_self()));
    cpu_set_t now = cpus_of(pthread_self());
    assert_same(&now, &before);
    qn_cpu_binding_free(binding);
}

static void test_cpus_are_used_that_are_not_allowed(void **state)
{
    (void)state;
    const cpu_set_t before = cpus_of(pthread_self());
    char list[LIST_BYTES], other[LIST_BYTES];
    int mine = first_of(&before);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)mine, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    snprintf(list, sizeof list, "%d", mine);
    snprintf(other, sizeof other, "%d", mine + 1); /* whether it exists or not */
    qn_cpu_binding *binding = make_binding("auto", 0);
    assert_int_equal(qn_cpu_binding_threads(binding), 1);
    qn_cpu_binding_free(binding);
    binding = make_binding(list, 1);
    qn_cpu_binding_free(binding);
    qn_error err;
    assert_int_equal(qn_cpu_binding_new(other, 0, &binding, &err), QN_USAGE);
    assert_string_equal(err.field, "cpu-binding");
    char says[128];
    snprintf(says, sizeof says, "--cpu-binding: %s: not among the CPUs that this process may use: give some of %s",
             other, list);
    assert_string_equal(err.message, says);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void test_a_refusal_leaves_some_threads_bound(void **state)
{
    (void)state;
    static view v;
    const cpu_set_t before = cpus_of(pthread_self());
    qn_cpu_binding *binding = make_binding("auto", 0);
    size_t threads = qn_cpu_binding_threads(binding);
    qn_pool *pool = NULL;
    qn_error err;
    assert_int_equal(qn_pool_new(threads, &pool, &err), QN_OK);
    if (threads > 1)
        qn_fault_arm(QN_FAULT_ALLOC, (long)threads - 1); /* the last worker's */
    qn_pool_bind(pool, binding);
    qn_fault_disarm();
    assert_true((strstr(last_line, "the system does not bind it") != NULL) == (threads > 1));
    pthread_barrier_init(&v.all_there, NULL, (unsigned)threads);
    qn_pool_run(pool, threads, look_around, &v);
    pthread_barrier_destroy(&v.all_there);
    for (size_t i = 0; threads > 1 && i < threads; i++)
        assert_same(&v.cpus[i], &before);
    qn_pool_free(pool);
    qn_cpu_binding_free(binding);
}

static void test_want_of_memory_is_not_told(void **state)
{
    (void)state;
    const cpu_set_t before = cpus_of(pthread_self());
    qn_cpu_binding *binding = NULL;
    qn_error err;
    for (long nth = 1; nth <= 2; nth++) {
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        assert_int_equal(qn_cpu_binding_new("auto", 0, &binding, &err), QN_RESOURCE);
        qn_fault_disarm();
        assert_null(binding);
    }
    cpu_set_t now = cpus_of(pthread_self());
    assert_same(&now, &before);
}

static void test_a_system_that_binds_nothing_is_not_told(void **state)
{
    (void)state;
    const cpu_set_t before = cpus_of(pthread_self());
    char list[LIST_BYTES];
    snprintf(list, sizeof list, "%d", first_of(&before));
    const char *const ways[] = {"auto", list};
    for (size_t i = 0; i < 2; i++) {
        qn_cpu_binding *binding = NULL;
        qn_error err;
        last_line[0] = '\0';
        qn_fault_arm(QN_FAULT_ALLOC, 3); /* the try's, behind the binding and its plan */
        assert_int_equal(qn_cpu_binding_new(ways[i], 1, &binding, &err), QN_RESOURCE);
        qn_fault_disarm();
        assert_string_equal(err.field, "cpu-binding");
        assert_non_null(strstr(err.message, "the system binds no thread to CPU "));
        assert_string_equal(last_line, "");
        assert_null(binding);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_share_a_cpu_or_stray),
        cmocka_unit_test(test_threads_are_bound_unasked),
        cmocka_unit_test(test_more_threads_than_cores_are_bound),
        cmocka_unit_test(test_cpus_are_used_that_are_not_allowed),
        cmocka_unit_test(test_a_refusal_leaves_some_threads_bound),
        cmocka_unit_test(test_want_of_memory_is_not_told),
        cmocka_unit_test(test_a_system_that_binds_nothing_is_not_told),
    };
    qn_log_set_sink(keep_line, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
