/* NUMA nodes from a made-up /sys, and the space of a disk. */
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

#include "plan/machine.h"

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
    snprintf(root, sizeof root, "/tmp/quern-machine-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[PATH_BYTES * 2];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void a_system_that_tells_nothing(void **state)
{
    (void)state;
    qn_machine m;
    qn_machine_read(root, &m);
    assert_int_equal(m.available_bytes, 0);
    assert_int_equal(m.node_count, 0);
}

static void two_nodes_with_memory_and_one_without(void **state)
{
    (void)state;
    qn_machine m;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  5000 kB\nNode 0 MemFree:  100 kB\n");
    put("sys/devices/system/node/node0/cpulist", "0-3,8,10-11\n");
    put("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  0 kB\nNode 1 MemFree:  0 kB\n");
    put("sys/devices/system/node/node7/meminfo", "Node 7 MemTotal:  6000 kB\nNode 7 MemFree:  200 kB\n");
    put("sys/devices/system/node/node7/cpulist", "\n");
    qn_machine_read(root, &m);
    assert_int_equal(m.available_bytes, 8000 * 1024);
    assert_int_equal(m.node_count, 2);
    assert_int_equal(m.node[0].id, 0);
    assert_int_equal(m.node[0].cpus, 7);
    assert_int_equal(m.node[0].total_bytes, 5000 * 1024);
    assert_int_equal(m.node[0].free_bytes, 100 * 1024);
    assert_int_equal(m.node[1].id, 7);
    assert_int_equal(m.node[1].cpus, 0);
}

static void nonsense_is_no_node(void **state)
{
    (void)state;
    qn_machine m;
    put("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  many kB\n");
    put("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  99999999999999999999999999 kB\n");
    put("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:  5 kB\n");
    put("sys/devices/system/node/node2/cpulist", "5-2,7");
    qn_machine_read(root, &m);
    assert_int_equal(m.node_count, 1);
    assert_int_equal(m.node[0].cpus, 0);
}

static void space_of_a_folder(void **state)
{
    (void)state;
    qn_disk_space space;
    qn_error err;
    assert_int_equal(qn_disk_space_of("tests", &space, &err), QN_OK);
    assert_true(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
    assert_int_equal(qn_disk_space_of("no/such/folder", &space, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "no/such/folder"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_system_that_tells_nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(two_nodes_with_memory_and_one_without, make_root, remove_root),
        cmocka_unit_test_setup_teardown(nonsense_is_no_node, make_root, remove_root),
        cmocka_unit_test(space_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
