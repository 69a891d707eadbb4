/* What memory there is, read from made-up /proc and /sys trees, and how it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/system_memory.h"
#include "made_up_root.h"

static void without_a_word_from_the_system(void **state)
{
    (void)state;
    assert_int_equal(qn_memory_available(made_up_root), 0);
    made_up_file("proc/meminfo", "MemTotal:       1000 kB\nMemAvailable: nonsense\n");
    assert_int_equal(qn_memory_available(made_up_root), 0);
}

static void from_meminfo(void **state)
{
    (void)state;
    made_up_file("proc/meminfo", "MemTotal:       9000 kB\nMemFree:  1 kB\nMemAvailable:    8000 kB\n");
    assert_int_equal(qn_memory_available(made_up_root), 8000 * 1024);
}

static void from_a_control_group_of_version_2(void **state)
{
    (void)state;
    made_up_file("proc/meminfo", "MemAvailable:    8000 kB\n");
    made_up_file("proc/self/cgroup", "0::/outer/inner\n");
    made_up_file("sys/fs/cgroup/outer/inner/memory.max", "max\n");
    made_up_file("sys/fs/cgroup/outer/inner/memory.current", "1000\n");
    assert_int_equal(qn_memory_available(made_up_root), 8000 * 1024);
    made_up_file("sys/fs/cgroup/outer/memory.max", "500000\n");
    made_up_file("sys/fs/cgroup/outer/memory.current", "300000\n");
    assert_int_equal(qn_memory_available(made_up_root), 200000);
    made_up_file("sys/fs/cgroup/outer/memory.stat",
                 "anon 7\nfile 12\nshmem 5\ninactive_file 200000\nactive_file 50000\n");
    assert_int_equal(qn_memory_available(made_up_root), 450000);
    made_up_file("sys/fs/cgroup/outer/memory.stat", "inactive_file 290000\nactive_file 20000\n"); /* counted later */
    assert_int_equal(qn_memory_available(made_up_root), 500000);
    made_up_file("sys/fs/cgroup/outer/inner/memory.max", "1500\n");
    assert_int_equal(qn_memory_available(made_up_root), 500);
    made_up_file("sys/fs/cgroup/outer/inner/memory.current", "2000\n");
    assert_int_equal(qn_memory_available(made_up_root), 0);
}

/* In a container the group's own path is not below the mount; the mount's root is the group. */
static void from_the_root_of_a_container(void **state)
{
    (void)state;
    made_up_file("proc/meminfo", "MemAvailable:    8000 kB\n");
    made_up_file("proc/self/cgroup", "0::/../../docker/abc\n");
    made_up_file("sys/fs/cgroup/memory.max", "100000\n");
    made_up_file("sys/fs/cgroup/memory.current", "40000\n");
    assert_int_equal(qn_memory_available(made_up_root), 60000);
}

static void from_a_control_group_of_version_1(void **state)
{
    (void)state;
    made_up_file("proc/meminfo", "MemAvailable:    8000 kB\n");
    made_up_file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n");
    made_up_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    made_up_file("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
    made_up_file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
    made_up_file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "400000\n");
    made_up_file("sys/fs/cgroup/memory/job/memory.stat",
                 "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 50000\n");
    assert_int_equal(qn_memory_available(made_up_root), 750000);
}

static void this_machine_has_some(void **state)
{
    (void)state;
    assert_true(qn_memory_available("") > (size_t)16 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_word_from_the_system, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(from_meminfo, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(from_a_control_group_of_version_2, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(from_the_root_of_a_container, make_up_root, remove_made_up_root),
        cmocka_unit_test_setup_teardown(from_a_control_group_of_version_1, make_up_root, remove_made_up_root),
        cmocka_unit_test(this_machine_has_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
