/* What memory there is, read from made-up /proc and /sys trees, and how it is told. */
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

#include "base/system_memory.h"

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
    snprintf(root, sizeof root, "/tmp/quern-memory-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[PATH_BYTES * 2];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void without_a_word_from_the_system(void **state)
{
    (void)state;
    assert_int_equal(qn_memory_available(root), 0);
    put("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable: nonsense\n");
    assert_int_equal(qn_memory_available(root), 0);
}

static void from_meminfo(void **state)
{
    (void)state;
    put("proc/meminfo", "MemTotal:       9000 kB\nMemFree:  1 kB\nMemAvailable:    8000 kB\n");
    assert_int_equal(qn_memory_available(root), 8000 * 1024);
}

static void from_a_control_group_of_version_2(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("proc/self/cgroup", "0::/outer/inner\n");
    put("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    put("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
    assert_int_equal(qn_memory_available(root), 8000 * 1024);
    put("sys/fs/cgroup/outer/memory.max", "500000\n");
    put("sys/fs/cgroup/outer/memory.current", "300000\n");
    assert_int_equal(qn_memory_available(root), 200000);
    put("sys/fs/cgroup/outer/memory.stat", "anon 7\nfile 12\ninactive_file 250000\nactive_file 9\n");
    assert_int_equal(qn_memory_available(root), 450000);
    put("sys/fs/cgroup/outer/inner/memory.max", "1500\n");
    assert_int_equal(qn_memory_available(root), 500);
    put("sys/fs/cgroup/outer/inner/memory.current", "2000\n");
    assert_int_equal(qn_memory_available(root), 0);
}

/* In a container the group's own path is not below the mount; the mount's root is the group. */
static void from_the_root_of_a_container(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("proc/self/cgroup", "0::/../../docker/abc\n");
    put("sys/fs/cgroup/memory.max", "100000\n");
    put("sys/fs/cgroup/memory.current", "40000\n");
    assert_int_equal(qn_memory_available(root), 60000);
}

static void from_a_control_group_of_version_1(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
    put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
    put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000\n");
    put("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 100000\n");
    assert_int_equal(qn_memory_available(root), 700000);
}

static void this_machine_has_some(void **state)
{
    (void)state;
    assert_true(qn_memory_available("") > (size_t)16 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_word_from_the_system, make_root, remove_root),
        cmocka_unit_test_setup_teardown(from_meminfo, make_root, remove_root),
        cmocka_unit_test_setup_teardown(from_a_control_group_of_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(from_the_root_of_a_container, make_root, remove_root),
        cmocka_unit_test_setup_teardown(from_a_control_group_of_version_1, make_root, remove_root),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
