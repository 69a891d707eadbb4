/* Quotas of CPU time, read from made-up /proc and /sys trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/control_group.h"
#include "made_up_root.h"

static void test_no_word_is_no_quota(void **state)
{
    (void)state;
    assert_true(qn_cpu_quota(made_up_root) == SIZE_MAX);
    made_up_file("proc/self/cgroup", "0::/a\nnonsense\n");
    assert_true(qn_cpu_quota(made_up_root) == SIZE_MAX);
    made_up_file("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    made_up_file("sys/fs/cgroup/cpu.max", "garbage\n");
    assert_true(qn_cpu_quota(made_up_root) == SIZE_MAX);
    made_up_file("sys/fs/cgroup/cpu.max", "400000\n"); /* the period is missing */
    assert_true(qn_cpu_quota(made_up_root) == SIZE_MAX);
}

static void test_the_group_above_limits_too(void **state)
{
    (void)state;
    made_up_file("proc/self/cgroup", "0::/outer/inner\n");
    made_up_file("sys/fs/cgroup/outer/inner/cpu.max", "800000 100000\n");
    assert_int_equal(qn_cpu_quota(made_up_root), 8);
    made_up_file("sys/fs/cgroup/outer/cpu.max", "350000 100000\n");
    assert_int_equal(qn_cpu_quota(made_up_root), 3); /* a fourth thread would stop all of them every now and then */
    made_up_file("sys/fs/cgroup/outer/inner/cpu.max", "20000 100000\n");
    assert_int_equal(qn_cpu_quota(made_up_root), 1);
}

static void test_a_container_sees_its_own_group_at_the_mount(void **state)
{
    (void)state;
    made_up_file("proc/self/cgroup", "0::/docker/0123\n");
    made_up_file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(qn_cpu_quota(made_up_root), 2);
}

static void test_version_1_has_a_file_each(void **state)
{
    (void)state;
    made_up_file("proc/self/cgroup", "4:cpuset:/sets\n3:cpu,cpuacct:/jobs\n");
    made_up_file("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n");
    made_up_file("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
    made_up_file("sys/fs/cgroup/cpu/sets/cpu.cfs_quota_us", "100000\n"); /* no group of ours */
    made_up_file("sys/fs/cgroup/cpu/sets/cpu.cfs_period_us", "100000\n");
    assert_true(qn_cpu_quota(made_up_root) == SIZE_MAX);
    made_up_file("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "600000\n");
    assert_int_equal(qn_cpu_quota(made_up_root), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_word_is_no_quota, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(test_the_group_above_limits_too, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(test_a_container_sees_its_own_group_at_the_mount, make_up_root,
                                        remove_made_up_root),
        cmocka_unit_test_setup_teardown(test_version_1_has_a_file_each, make_up_root, remove_made_up_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
