/* Machines of several nodes are made up: what /proc and /sys say, and what the system's calls answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <hwloc.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/numa.h"

enum { PATH_BYTES = 256, TEXT_BYTES = 512, MOST_NODES = 8 };

static char root[PATH_BYTES], line[TEXT_BYTES];
static struct {
    int mode, get_code, set_code, sets;
    unsigned long nodes; /* the last mask's */
} fake;
static qn_cpu_binding *binding; /* of nothing: CPUs are those that the test may use */

static void keep_line(void *context, const char *text)
{
    (void)context;
    snprintf(line, sizeof line, "%s", text);
}

static int fake_get(int *mode)
{
    *mode = fake.mode;
    return fake.get_code;
}

static int fake_set(int mode, const unsigned long *node_mask)
{
    fake.sets++;
    if (fake.set_code != 0)
        return fake.set_code;
    fake.mode = mode;
    fake.nodes = node_mask ? node_mask[0] : 0;
    for (size_t i = 1; node_mask && i < QN_NUMA_MASK_WORDS; i++)
        assert_true(node_mask[i] == 0);
    return 0;
}

static const qn_numa_system made_up = {.root = root, .get_policy = fake_get, .set_policy = fake_set};

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

static int remove_machine(void **state)
{
    (void)state;
    char command[PATH_BYTES * 2];
    qn_cpu_binding_free(binding);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return root[0] ? system(command) : 0;
}

/* The list of a node with the first CPU that this test may use; others are far away. */
static const char *own_cpus(void)
{
    static char text[32];
    cpu_set_t set;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    while (!CPU_ISSET((size_t)cpu, &set))
        cpu++;
    snprintf(text, sizeof text, "%d\n", cpu);
    return text;
}

/* allowed: the nodes; own: one digit a node, 1 where it has a CPU of this test, '-' where nothing is told. */
static void make_machine(const char *allowed, const char *own)
{
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "Name:\tquern\nMems_allowed:\t3\n%s%s%sCpus:\n", allowed ? "Mems_allowed_list:\t" : "",
             allowed ? allowed : "", allowed ? "\n" : "");
    put("proc/self/status", text);
    for (size_t i = 0; own[i]; i++) {
        snprintf(text, sizeof text, "sys/devices/system/node/node%zu/cpulist", i);
        if (own[i] != '-')
            put(text, own[i] == '1' ? own_cpus() : own[i] == '0' ? "60000-60003\n" : "\n");
    }
    memset(&fake, 0, sizeof fake);
    line[0] = '\0';
}

static int start(void **state)
{
    (void)state;
    qn_error err;
    snprintf(root, sizeof root, "/tmp/quern-numa-XXXXXX");
    return mkdtemp(root) && qn_cpu_binding_new(NULL, 0, &binding, &err) == QN_OK ? 0 : -1;
}

static qn_numa_policy begin(qn_numa how)
{
    qn_numa_policy policy;
    qn_error err;
    if (qn_numa_begin(how, binding, &made_up, &policy, &err) != QN_OK)
        fail_msg("%s", err.message);
    return policy;
}

static void assert_interleaved(unsigned long nodes, const char *says)
{
    assert_int_equal(fake.mode, MPOL_INTERLEAVE);
    assert_true(fake.nodes == nodes);
    assert_string_equal(line, says);
}

static void assert_left(const char *says)
{
    assert_int_equal(fake.sets, 0);
    assert_string_equal(line, says);
}

static void test_weights_fill_one_of_two_nodes(void **state)
{
    (void)state;
    static const qn_numa ways[] = {QN_NUMA_AUTO, QN_NUMA_INTERLEAVE};
    for (size_t i = 0; i < 2; i++) {
        make_machine("0-1", "11");
        qn_numa_policy policy = begin(ways[i]);
        assert_interleaved(3, "quern: numa: memory is interleaved over nodes 0-1");
        qn_numa_end(&policy);
        assert_int_equal(fake.mode, MPOL_DEFAULT);
        qn_numa_join(&policy); /* another thread */
        assert_int_equal(fake.mode, MPOL_INTERLEAVE);
        assert_true(fake.nodes == 3);
    }
}

static void test_memory_far_from_the_cpus_is_taken(void **state)
{
    (void)state;
    make_machine("0-3", "101e"); /* node 3 has no CPU at all */
    (void)begin(QN_NUMA_AUTO);
    assert_interleaved(5, "quern: numa: memory is interleaved over nodes 0,2");
    make_machine("0-3", "101e");
    (void)begin(QN_NUMA_INTERLEAVE); /* as asked for */
    assert_interleaved(15, "quern: numa: memory is interleaved over nodes 0-3");
    make_machine("0-1", "01");
    (void)begin(QN_NUMA_AUTO);
    assert_left("quern: numa: memory is not interleaved: all CPUs that compute are of node 1");
    make_machine("0-1", "00"); /* of whose memory none is near */
    (void)begin(QN_NUMA_AUTO);
    assert_interleaved(3, "quern: numa: memory is interleaved over nodes 0-1");
}

static void test_nodes_of_others_are_taken(void **state)
{
    (void)state;
    make_machine("1,3", "1111");
    (void)begin(QN_NUMA_AUTO);
    assert_interleaved(10, "quern: numa: memory is interleaved over nodes 1,3");
}

static void test_one_node_is_interleaved(void **state)
{
    (void)state;
    make_machine("0", "1");
    (void)begin(QN_NUMA_AUTO);
    assert_left("");
    make_machine("0", "1");
    (void)begin(QN_NUMA_INTERLEAVE);
    assert_left("quern: numa: there is one node whose memory this process may use, 0: nothing to interleave");
}

static void test_off_asks_the_system(void **state)
{
    (void)state;
    make_machine("0-1", "11");
    qn_numa_policy policy = begin(QN_NUMA_OFF);
    assert_left("");
    qn_numa_join(&policy);
    qn_numa_end(&policy);
    assert_left("");
    qn_numa_end(&(qn_numa_policy){0});
}

static void test_the_policy_of_numactl_is_overridden(void **state)
{
    (void)state;
    static const int modes[] = {MPOL_BIND, MPOL_PREFERRED, MPOL_INTERLEAVE, MPOL_LOCAL};
    for (size_t i = 0; i < 8; i++) {
        make_machine("0-1", "11");
        fake.mode = modes[i / 2];
        qn_numa_policy policy = begin(i % 2 ? QN_NUMA_AUTO : QN_NUMA_INTERLEAVE);
        qn_numa_end(&policy);
        assert_int_equal(fake.mode, modes[i / 2]);
        assert_left("quern: numa: this process was started with a policy of its own (numactl), which is kept");
    }
}

static void test_a_container_that_forbids_it_is_not_told(void **state)
{
    (void)state;
    for (int step = 0; step < 2; step++) {
        qn_numa_policy policy;
        qn_error err;
        make_machine("0-1", "11");
        fake.get_code = step == 0 ? EPERM : 0;
        fake.set_code = EPERM;
        policy = begin(QN_NUMA_AUTO);
        assert_string_equal(line, "quern: numa: memory is not interleaved over nodes 0-1: the system does not let it "
                                  "(Operation not permitted): allow it (docker run --cap-add SYS_NICE), or start under "
                                  "numactl --interleave=all");
        int sets = fake.sets;
        qn_numa_join(&policy);
        assert_int_equal(fake.sets, sets);
        assert_int_equal(qn_numa_begin(QN_NUMA_INTERLEAVE, binding, &made_up, &policy, &err), QN_RESOURCE);
        assert_string_equal(err.field, "numa");
        assert_string_equal(err.message,
                            "--numa: interleave: the system does not let this process place its memory (Operation not "
                            "permitted): allow it (docker run --cap-add SYS_NICE), start it under numactl "
                            "--interleave=all, or leave the option out");
        assert_false(policy.interleaves);
    }
}

static void test_nodes_that_are_not_told_are_guessed(void **state)
{
    (void)state;
    static const char *const lists[] = {NULL, "", "nothing", "0-", "0-1024"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        qn_numa_policy policy;
        qn_error err;
        make_machine(lists[i], "11");
        (void)begin(QN_NUMA_AUTO);
        assert_left("");
        assert_int_equal(qn_numa_begin(QN_NUMA_INTERLEAVE, binding, &made_up, &policy, &err), QN_RESOURCE);
        assert_string_equal(err.message, "--numa: interleave: the system does not tell whose memory this process may "
                                         "use: leave the option out");
    }
}

static void test_nodes_without_a_list_of_cpus_are_left_out(void **state)
{
    (void)state;
    make_machine("5-6", ""); /* of which nothing is told */
    (void)begin(QN_NUMA_AUTO);
    assert_interleaved(96, "quern: numa: memory is interleaved over nodes 5-6");
}

/* The system that runs this, whatever it lets: memory lies as before in the end. */
static void test_this_thread_keeps_the_policy(void **state)
{
    (void)state;
    static const qn_numa ways[] = {QN_NUMA_AUTO, QN_NUMA_OFF, QN_NUMA_INTERLEAVE};
    for (size_t i = 0; i < 3; i++) {
        qn_numa_policy policy;
        qn_error err;
        qn_status status = qn_numa_begin(ways[i], binding, NULL, &policy, &err);
        assert_true(status == QN_OK || (ways[i] == QN_NUMA_INTERLEAVE && status == QN_RESOURCE));
        int mode = -1;
        qn_numa_join(&policy);
        if (policy.system->get_policy(&mode) == 0 && policy.interleaves)
            assert_int_equal(mode, MPOL_INTERLEAVE);
        qn_numa_end(&policy);
        if (policy.system->get_policy(&mode) == 0 && policy.interleaves)
            assert_int_equal(mode, MPOL_DEFAULT);
    }
}

/* What is made up above must be what the true calls do, where the system lets them: one node is enough for that. */
static void test_the_system_is_asked_in_other_words(void **state)
{
    (void)state;
    qn_numa_policy policy;
    qn_error err;
    assert_int_equal(qn_numa_begin(QN_NUMA_OFF, binding, NULL, &policy, &err), QN_OK);
    const qn_numa_system *system = policy.system;
    int mode = -1;
    if (system->get_policy(&mode) != 0 || mode != MPOL_DEFAULT)
        skip();
    policy.interleaves = true;
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    char text[TEXT_BYTES] = "", *list = NULL;
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (!list && fgets(text, sizeof text, file))
        list = strncmp(text, "Mems_allowed_list:", 18) == 0 ? text + 19 : NULL;
    fclose(file);
    if (list)
        list[strcspn(list, "\n")] = '\0';
    if (!list || hwloc_bitmap_list_sscanf(nodes, list) != 0 || hwloc_bitmap_last(nodes) >= 64) {
        hwloc_bitmap_free(nodes);
        skip();
    }
    policy.node_mask[0] = hwloc_bitmap_to_ulong(nodes);
    hwloc_bitmap_free(nodes);
    if (system->set_policy(MPOL_INTERLEAVE, policy.node_mask) != 0)
        skip();
    assert_int_equal(system->get_policy(&mode), 0);
    assert_int_equal(mode, MPOL_INTERLEAVE);
    qn_numa_end(&policy);
    assert_int_equal(system->get_policy(&mode), 0);
    assert_int_equal(mode, MPOL_DEFAULT);
    qn_numa_join(&policy);
    assert_int_equal(system->get_policy(&mode), 0);
    assert_int_equal(mode, MPOL_INTERLEAVE);
    qn_numa_end(&policy);
}

static void test_want_of_memory_is_not_told(void **state)
{
    (void)state;
    make_machine("0-1", "11");
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_numa_policy policy;
    qn_error err;
    assert_int_equal(qn_numa_begin(QN_NUMA_AUTO, binding, &made_up, &policy, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_false(policy.interleaves);
    assert_int_equal(fake.sets, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_weights_fill_one_of_two_nodes, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_memory_far_from_the_cpus_is_taken, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_nodes_of_others_are_taken, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_one_node_is_interleaved, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_off_asks_the_system, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_the_policy_of_numactl_is_overridden, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_a_container_that_forbids_it_is_not_told, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_nodes_that_are_not_told_are_guessed, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_nodes_without_a_list_of_cpus_are_left_out, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_this_thread_keeps_the_policy, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_the_system_is_asked_in_other_words, start, remove_machine),
        cmocka_unit_test_setup_teardown(test_want_of_memory_is_not_told, start, remove_machine),
    };
    qn_log_set_sink(keep_line, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
