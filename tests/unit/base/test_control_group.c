/* Quotas of CPU time, read from made-up /proc and /sys trees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/control_group.h"

enum { PATH_BYTES = 512 };

static char root[PATH_BYTES];

static void put(const char *path, const char *text)
{
    char full[PATH_BYTES * 2];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/quern-groups-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[PATH_BYTES * 2];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void test_no_word_is_no_quota(void **state)
{
    (void)state;
    assert_true(qn_cpu_quota(root) == SIZE_MAX);
    put("proc/self/cgroup", "0::/a\nnonsense\n");
    assert_true(qn_cpu_quota(root) == SIZE_MAX);
    put("sys/fs/cgroup/a/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/cpu.max", "garbage\n");
    assert_true(qn_cpu_quota(root) == SIZE_MAX);
    put("sys/fs/cgroup/cpu.max", "400000\n"); /* the period is missing */
    assert_true(qn_cpu_quota(root) == SIZE_MAX);
}

static void test_the_group_above_limits_too(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/outer/inner\n");
    put("sys/fs/cgroup/outer/inner/cpu.max", "800000 100000\n");
    assert_int_equal(qn_cpu_quota(root), 8);
    put("sys/fs/cgroup/outer/cpu.max", "350000 100000\n");
    assert_int_equal(qn_cpu_quota(root), 3); /* a fourth thread would stop all of them every now and then */
    put("sys/fs/cgroup/outer/inner/cpu.max", "20000 100000\n");
    assert_int_equal(qn_cpu_quota(root), 1);
}

static void test_a_container_sees_its_own_group_at_the_mount(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/docker/0123\n");
    put("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(qn_cpu_quota(root), 2);
}

static void test_version_1_has_a_file_each(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:cpuset:/sets\n3:cpu,cpuacct:/jobs\n");
    put("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpu/sets/cpu.cfs_quota_us", "100000\n"); /* no group of ours */
    put("sys/fs/cgroup/cpu/sets/cpu.cfs_period_us", "100000\n");
    assert_true(qn_cpu_quota(root) == SIZE_MAX);
    put("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "600000\n");
    assert_int_equal(qn_cpu_quota(root), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_word_is_no_quota, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_the_group_above_limits_too, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_a_container_sees_its_own_group_at_the_mount, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_version_1_has_a_file_each, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
