/* The system's calls are made without libnuma, which would be a library for two of them. */
#include "base/numa.h"

#include <errno.h>
#include <hwloc.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

enum {
    PATH_BYTES = 4096,
    FILE_LIMIT_BYTES = 1 << 20,
    LIST_TEXT_BYTES = 128,
    WORD_BITS = 8 * (int)sizeof(unsigned long)
};

static int get_policy(int *mode)
{
    return syscall(SYS_get_mempolicy, mode, NULL, 0ul, NULL, 0ul) == 0 ? 0 : errno;
}

static int set_policy(int mode, const unsigned long *node_mask)
{
    /* the kernel takes one bit less than it is told */
    unsigned long bits = node_mask ? QN_NUMA_MAX_NODES + 1 : 0;
    return syscall(SYS_set_mempolicy, mode, node_mask, bits) == 0 ? 0 : errno;
}

static const qn_numa_system running = {.root = "", .get_policy = get_policy, .set_policy = set_policy};

/* A list such as "0-1,4" behind `key` at the start of a line of a file ("": the first line's) into the set, which stays
 * empty if there is no such file, line or list. False: out of memory. */
static bool read_list(const char *path, const char *key, hwloc_bitmap_t set)
{
    char *text;
    size_t bytes;
    qn_error err;
    hwloc_bitmap_zero(set);
    qn_status status = qn_file_read(path, FILE_LIMIT_BYTES, &text, &bytes, &err);
    if (status != QN_OK)
        return status != QN_RESOURCE;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        line += strlen(key);
        line += strspn(line, " \t");
        if (line[0] == '\0' || hwloc_bitmap_list_sscanf(set, line) != 0)
            hwloc_bitmap_zero(set);
        break;
    }
    qn_free(text);
    return true;
}

/* The nodes whose memory the process may use. */
static bool read_allowed(const qn_numa_system *system, hwloc_bitmap_t nodes)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc/self/status", system->root);
    return read_list(path, "Mems_allowed_list:", nodes);
}

/* Leaves those out that have none of these CPUs, if known; where the system does not tell a node's, it stays. If none
 * has any, all are as far, and stay. */
static bool keep_nodes_with(const qn_numa_system *system, hwloc_const_bitmap_t cpus, hwloc_bitmap_t nodes)
{
    char path[PATH_BYTES];
    hwloc_bitmap_t own = hwloc_bitmap_alloc(), near = hwloc_bitmap_dup(nodes);
    bool room = own && near;
    bool known = !hwloc_bitmap_iszero(cpus);
    for (int node = hwloc_bitmap_first(nodes); known && room && node >= 0; node = hwloc_bitmap_next(nodes, node)) {
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", system->root, node);
        room = read_list(path, "", own);
        if (room && access(path, R_OK) == 0 && !hwloc_bitmap_intersects(own, cpus))
            (void)hwloc_bitmap_clr(near, (unsigned)node);
    }
    if (room && !hwloc_bitmap_iszero(near))
        room = hwloc_bitmap_copy(nodes, near) == 0;
    hwloc_bitmap_free(near);
    hwloc_bitmap_free(own);
    return room;
}

static void tell_nodes(hwloc_const_bitmap_t nodes, char text[LIST_TEXT_BYTES])
{
    (void)hwloc_bitmap_list_snprintf(text, LIST_TEXT_BYTES, nodes);
}

static qn_status refuse(qn_numa how, const char *nodes, int code, qn_error *err)
{
    if (how == QN_NUMA_INTERLEAVE)
        return qn_fail_field(err, QN_RESOURCE, "numa",
                             "--numa: interleave: the system does not let this process place its memory (%s): allow it "
                             "(docker run --cap-add SYS_NICE), start it under numactl --interleave=all, or leave the "
                             "option out",
                             strerror(code));
    qn_log("numa: memory is not interleaved over nodes %s: the system does not let it (%s): allow it (docker run "
           "--cap-add SYS_NICE), or start under numactl --interleave=all",
           nodes, strerror(code));
    return QN_OK;
}

/* Of two nodes or more. */
static qn_status interleave(qn_numa how, hwloc_const_bitmap_t nodes, qn_numa_policy *policy, qn_error *err)
{
    char text[LIST_TEXT_BYTES];
    int mode = MPOL_DEFAULT;
    tell_nodes(nodes, text);
    int code = policy->system->get_policy(&mode);
    if (code == 0 && mode != MPOL_DEFAULT) {
        qn_log("numa: this process was started with a policy of its own (numactl), which is kept");
        return QN_OK;
    }
    for (int node = hwloc_bitmap_first(nodes); node >= 0; node = hwloc_bitmap_next(nodes, node))
        policy->node_mask[node / WORD_BITS] |= 1ul << (node % WORD_BITS);
    if (code == 0)
        code = policy->system->set_policy(MPOL_INTERLEAVE, policy->node_mask);
    if (code != 0)
        return refuse(how, text, code, err);
    policy->interleaves = true;
    qn_log("numa: memory is interleaved over nodes %s", text);
    return QN_OK;
}

/* Nodes that have CPUs that compute: memory without (slower, behind a bus) is not for what every step reads. */
static qn_status keep_computing(const qn_numa_system *system, const qn_cpu_binding *binding, hwloc_bitmap_t nodes,
                                qn_error *err)
{
    hwloc_bitmap_t cpus = hwloc_bitmap_alloc();
    qn_status status = cpus ? qn_cpu_binding_cpus(binding, cpus, err) : qn_fail_memory(err, "set of CPUs", sizeof cpus);
    if (status == QN_OK && !keep_nodes_with(system, cpus, nodes))
        status = qn_fail_memory(err, "list of NUMA nodes", FILE_LIMIT_BYTES);
    hwloc_bitmap_free(cpus);
    return status;
}

static qn_status choose(qn_numa how, const qn_cpu_binding *binding, hwloc_bitmap_t nodes, qn_numa_policy *policy,
                        qn_error *err)
{
    char text[LIST_TEXT_BYTES];
    qn_status status = QN_OK;
    if (!read_allowed(policy->system, nodes))
        return qn_fail_memory(err, "list of NUMA nodes", FILE_LIMIT_BYTES);
    int last = hwloc_bitmap_last(nodes); /* -1: none, or a list without an end */
    if (last < 0 || last >= QN_NUMA_MAX_NODES)
        return how == QN_NUMA_AUTO
                   ? QN_OK
                   : qn_fail_field(err, QN_RESOURCE, "numa",
                                   "--numa: interleave: the system does not tell whose memory this process may use: "
                                   "leave the option out");
    bool several = hwloc_bitmap_weight(nodes) > 1;
    if (several && how == QN_NUMA_AUTO)
        status = keep_computing(policy->system, binding, nodes, err);
    if (status == QN_OK && hwloc_bitmap_weight(nodes) > 1)
        return interleave(how, nodes, policy, err);
    tell_nodes(nodes, text);
    if (status == QN_OK && several)
        qn_log("numa: memory is not interleaved: all CPUs that compute are of node %s", text);
    else if (status == QN_OK && how == QN_NUMA_INTERLEAVE)
        qn_log("numa: there is one node whose memory this process may use, %s: nothing to interleave", text);
    return status;
}

qn_status qn_numa_begin(qn_numa how, const qn_cpu_binding *binding, const qn_numa_system *system, qn_numa_policy *out,
                        qn_error *err)
{
    *out = (qn_numa_policy){.system = system ? system : &running};
    if (how == QN_NUMA_OFF)
        return QN_OK;
    hwloc_bitmap_t nodes = hwloc_bitmap_alloc();
    if (!nodes)
        return qn_fail_memory(err, "list of NUMA nodes", sizeof nodes);
    qn_status status = choose(how, binding, nodes, out, err);
    hwloc_bitmap_free(nodes);
    return status;
}

void qn_numa_join(const qn_numa_policy *policy)
{
    if (policy->interleaves)
        (void)policy->system->set_policy(MPOL_INTERLEAVE, policy->node_mask);
}

void qn_numa_end(const qn_numa_policy *policy)
{
    if (policy->interleaves)
        (void)policy->system->set_policy(MPOL_DEFAULT, NULL);
}
