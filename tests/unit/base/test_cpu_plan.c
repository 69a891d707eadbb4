/* Machines here are hwloc's synthetic ones, so that these tests say the same on any. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cpu_plan.h"
#include "base/fault.h"
#include "base/pool.h"

enum { TEXT_BYTES = 256 };

typedef struct machine {
    hwloc_topology_t topology;
    hwloc_bitmap_t allowed;
} machine;

/* allowed: a list; NULL: all. */
static machine make_machine(const char *description, const char *allowed)
{
    machine m = {.allowed = hwloc_bitmap_alloc()};
    assert_int_equal(hwloc_topology_init(&m.topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(m.topology, description), 0);
    assert_int_equal(hwloc_topology_load(m.topology), 0);
    if (allowed)
        assert_int_equal(hwloc_bitmap_list_sscanf(m.allowed, allowed), 0);
    else
        assert_int_equal(hwloc_bitmap_copy(m.allowed, hwloc_topology_get_topology_cpuset(m.topology)), 0);
    return m;
}

static void release_machine(machine *m)
{
    hwloc_bitmap_free(m->allowed);
    hwloc_topology_destroy(m->topology);
}

/* "0 2 4"; "" for a plan that binds nothing. */
static void write_cpus(const qn_cpu_plan *plan, char text[TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; plan->cpu && i < plan->threads; i++)
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%u", i > 0 ? " " : "", plan->cpu[i]);
}

static void assert_cores(const char *description, const char *allowed, size_t quota, size_t threads,
                         size_t wanted_threads, const char *wanted)
{
    machine m = make_machine(description, allowed);
    qn_cpu_plan plan;
    qn_error err;
    char text[TEXT_BYTES];
    assert_int_equal(qn_cpu_plan_cores(m.topology, m.allowed, quota, threads, &plan, &err), QN_OK);
    write_cpus(&plan, text);
    assert_string_equal(text, wanted);
    assert_int_equal(plan.threads, wanted_threads);
    qn_cpu_plan_free(&plan);
    release_machine(&m);
}

static const char smt[] = "package:1 core:4 pu:2(indexes=0,4,1,5,2,6,3,7)"; /* as Linux numbers them often */
static const char two_sockets[] = "package:2 numa:1 core:4 pu:1";
static const char four_nodes[] = "package:2 numa:2 core:2 pu:2";
static const char scattered[] = "numa:2 core:4 pu:1(indexes=0,2,4,6,1,3,5,7)"; /* every other CPU on another node */

static void test_two_threads_share_a_core(void **state)
{
    (void)state;
    assert_cores(smt, NULL, SIZE_MAX, 0, 4, "0 1 2 3");
    assert_cores("core:2 pu:2", NULL, SIZE_MAX, 0, 2, "0 2");
    assert_cores("core:2 pu:2", NULL, SIZE_MAX, 1, 1, "0");
    assert_cores("core:1 pu:1", NULL, SIZE_MAX, 0, 1, "0");
}

static void test_threads_are_strewn_over_nodes(void **state)
{
    (void)state;
    assert_cores(two_sockets, NULL, SIZE_MAX, 0, 8, "0 1 2 3 4 5 6 7");
    assert_cores(two_sockets, NULL, SIZE_MAX, 3, 3, "0 1 2");
    assert_cores(four_nodes, NULL, SIZE_MAX, 0, 8, "0 2 4 6 8 10 12 14");
    assert_cores(four_nodes, NULL, SIZE_MAX, 4, 4, "0 2 4 6");
    assert_cores(scattered, NULL, SIZE_MAX, 0, 8, "0 2 4 6 1 3 5 7");
    assert_cores(scattered, NULL, SIZE_MAX, 4, 4, "0 2 4 6");
}

static void test_threads_run_where_they_may_not(void **state)
{
    (void)state;
    assert_cores(smt, "1,3-4,7", SIZE_MAX, 0, 3, "4 1 3"); /* CPUs 3 and 7 are of one core */
    assert_cores(four_nodes, "5,9-10,15", SIZE_MAX, 0, 4, "5 9 10 15");
    assert_cores(four_nodes, "5", SIZE_MAX, 0, 1, "5");
    assert_cores(scattered, "1-3,200", SIZE_MAX, 0, 3, "2 1 3"); /* a CPU that the description lacks */
}

static void test_more_threads_than_the_quota_pays_for(void **state)
{
    (void)state;
    assert_cores(two_sockets, NULL, 3, 0, 3, "0 1 2");
    assert_cores(two_sockets, NULL, 3, 3, 3, "0 1 2");
    assert_cores(two_sockets, NULL, 3, 4, 4, "");
    assert_cores(two_sockets, NULL, 100, 0, 8, "0 1 2 3 4 5 6 7");
}

static void test_threads_without_a_core_are_bound(void **state)
{
    (void)state;
    assert_cores(two_sockets, NULL, SIZE_MAX, 9, 9, "");
    assert_cores(smt, NULL, SIZE_MAX, 5, 5, "");
    assert_cores(smt, "0,4", SIZE_MAX, 2, 2, "");
}

static void test_cores_that_are_not_told_leave_no_cpu(void **state)
{
    (void)state;
    assert_cores(smt, "100-101,300", SIZE_MAX, 0, 3, "100 101 300");
    assert_cores(smt, "100-101,300", 2, 0, 2, "100 101");
    assert_cores(smt, "100-101", SIZE_MAX, 3, 3, "");
    assert_cores("package:2 pu:3", NULL, SIZE_MAX, 0, 6, "0 1 2 3 4 5");
}

static void test_more_cores_than_a_pool_has_threads(void **state)
{
    (void)state;
    machine m = make_machine("numa:8 core:256 pu:1", NULL);
    qn_cpu_plan plan;
    qn_error err;
    assert_int_equal(qn_cpu_plan_cores(m.topology, m.allowed, SIZE_MAX, 0, &plan, &err), QN_OK);
    assert_int_equal(plan.threads, QN_POOL_MAX_THREADS);
    assert_int_equal(plan.cpu[QN_POOL_MAX_THREADS - 1], QN_POOL_MAX_THREADS - 1);
    qn_cpu_plan_free(&plan);
    release_machine(&m);
}

static void assert_list(const char *list, const char *allowed, size_t quota, size_t threads, const char *wanted)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    qn_cpu_plan plan;
    qn_error err;
    char text[TEXT_BYTES];
    assert_int_equal(hwloc_bitmap_list_sscanf(set, allowed), 0);
    assert_int_equal(qn_cpu_plan_list(list, set, quota, threads, &plan, &err), QN_OK);
    write_cpus(&plan, text);
    assert_string_equal(text, wanted);
    qn_cpu_plan_free(&plan);
    hwloc_bitmap_free(set);
}

static void test_a_list_is_not_followed(void **state)
{
    (void)state;
    assert_list("0-3", "0-7", SIZE_MAX, 0, "0 1 2 3");
    assert_list("7", "0-7", SIZE_MAX, 0, "7");
    assert_list("6,0-1,3", "0-7", SIZE_MAX, 0, "0 1 3 6");
    assert_list("2,2,1-3", "0-7", SIZE_MAX, 0, "1 2 3");
    assert_list("0-7", "0-7", SIZE_MAX, 3, "0 1 2");
    assert_list("0-7", "0-7", 2, 0, "0 1");
    assert_list("0-3", "0-7", 2, 4, "0 1 2 3");
    assert_list("70000", "69999-70001", SIZE_MAX, 0, "70000");
}

static void assert_refused(const char *list, const char *allowed, size_t threads, const char *says)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    qn_cpu_plan plan;
    qn_error err;
    assert_int_equal(hwloc_bitmap_list_sscanf(set, allowed), 0);
    assert_int_equal(qn_cpu_plan_list(list, set, SIZE_MAX, threads, &plan, &err), QN_USAGE);
    assert_string_equal(err.field, "cpu-binding");
    assert_string_equal(err.message, says);
    assert_null(plan.cpu);
    hwloc_bitmap_free(set);
}

static void test_cpus_that_may_not_be_used_are_taken(void **state)
{
    (void)state;
    assert_refused("2-5,9", "0-3", 0,
                   "--cpu-binding: 4-5,9: not among the CPUs that this process may use: give some of 0-3");
    assert_refused("0", "1,4-6", 0,
                   "--cpu-binding: 0: not among the CPUs that this process may use: give some of 1,4-6");
}

static void test_threads_are_left_without_a_cpu(void **state)
{
    (void)state;
    assert_refused("0-1", "0-3", 3, "--cpu-binding: CPUs named: 2, threads: 3: name one for each, 1024 at most");
    assert_refused("0-1024", "0-4000", 0,
                   "--cpu-binding: CPUs named: 1025, threads: 0: name one for each, 1024 at most");
}

static void test_what_is_no_list_is_taken_for_one(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "x",    "-",       "-1",          "1-",         "3-1",     "0-3x",
                                        "0,",  ",0",   "0,,1",    "0 1",         " 0",         "0x3",     "0-1-2",
                                        "1.5", "AUTO", "0-3|4-7", "99999999999", "0-99999999", "2000000", "+1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char says[TEXT_BYTES];
        snprintf(says, sizeof says, "--cpu-binding: %s: no list of CPUs: give auto, none, or CPUs such as 0-3,8",
                 wrong[i]);
        assert_refused(wrong[i], "0-7", 0, says);
    }
}

static void test_want_of_memory_is_not_told(void **state)
{
    (void)state;
    machine m = make_machine(smt, NULL);
    qn_cpu_plan plan;
    qn_error err;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_cpu_plan_cores(m.topology, m.allowed, SIZE_MAX, 0, &plan, &err), QN_RESOURCE);
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_cpu_plan_list("0-1", m.allowed, SIZE_MAX, 0, &plan, &err), QN_RESOURCE);
    qn_fault_disarm();
    release_machine(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_threads_share_a_core),
        cmocka_unit_test(test_threads_are_strewn_over_nodes),
        cmocka_unit_test(test_threads_run_where_they_may_not),
        cmocka_unit_test(test_more_threads_than_the_quota_pays_for),
        cmocka_unit_test(test_threads_without_a_core_are_bound),
        cmocka_unit_test(test_cores_that_are_not_told_leave_no_cpu),
        cmocka_unit_test(test_more_cores_than_a_pool_has_threads),
        cmocka_unit_test(test_a_list_is_not_followed),
        cmocka_unit_test(test_cpus_that_may_not_be_used_are_taken),
        cmocka_unit_test(test_threads_are_left_without_a_cpu),
        cmocka_unit_test(test_what_is_no_list_is_taken_for_one),
        cmocka_unit_test(test_want_of_memory_is_not_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
