/* NUMA nodes as the kernel shows them in /sys/devices/system/node: nodeN/meminfo and nodeN/cpulist. */
#include "plan/machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/system_memory.h"

enum { PATH_BYTES = 512, FILE_LIMIT_BYTES = 1 << 20, HIGHEST_NODE = 1023 };

static char *read_node_file(const char *root, unsigned node, const char *name)
{
    char path[PATH_BYTES], *text;
    size_t bytes;
    qn_error err;
    int length = snprintf(path, sizeof path, "%s/sys/devices/system/node/node%u/%s", root, node, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return NULL;
    return qn_file_read(path, FILE_LIMIT_BYTES, &text, &bytes, &err) == QN_OK ? text : NULL;
}

/* "Node 0 MemTotal:       24689012 kB" */
static uint64_t kibibytes_of(const char *text, const char *key)
{
    const char *at = text ? strstr(text, key) : NULL;
    unsigned long long value = at ? strtoull(at + strlen(key), NULL, 10) : 0;
    return value < UINT64_MAX / 1024 ? value * 1024 : 0;
}

/* CPUs of a list like "0-3,8,10-11". */
static size_t count_cpus(const char *list)
{
    size_t count = 0;
    while (list && *list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        if (last < first || last - first > 65536)
            break;
        count += last - first + 1;
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

void qn_machine_read(const char *root, qn_machine *out)
{
    *out = (qn_machine){.available_bytes = qn_memory_available(root)};
    for (unsigned id = 0; id <= HIGHEST_NODE && out->node_count < QN_PLAN_MAX_NODES; id++) {
        char *memory = read_node_file(root, id, "meminfo"), *cpus = memory ? read_node_file(root, id, "cpulist") : NULL;
        qn_numa_node node = {.id = id,
                             .cpus = count_cpus(cpus),
                             .total_bytes = kibibytes_of(memory, "MemTotal:"),
                             .free_bytes = kibibytes_of(memory, "MemFree:")};
        if (node.total_bytes > 0)
            out->node[out->node_count++] = node;
        qn_free(memory);
        qn_free(cpus);
    }
}

qn_status qn_disk_space_of(const char *folder, qn_disk_space *out, qn_error *err)
{
    struct statvfs info;
    if (statvfs(folder, &info) != 0)
        return qn_fail(err, QN_BAD_INPUT, "%s: %s: name a folder that is there", folder, strerror(errno));
    *out = (qn_disk_space){.total_bytes = (uint64_t)info.f_blocks * info.f_frsize,
                           .free_bytes = (uint64_t)info.f_bavail * info.f_frsize};
    return QN_OK;
}
