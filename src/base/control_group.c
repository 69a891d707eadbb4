/* Files are read into buffers on the stack: a pool is made and memory is counted in places where an allocation that
 * fails is told, and this is not to be one of them. */
#include "base/control_group.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"

enum { TEXT_BYTES = 16 << 10, PATH_BYTES = 4096 };

/* The text of directory/name, as far as it fits; "" when it can't be read: then the system does not tell. */
static void read_text(const char *directory, const char *name, char text[TEXT_BYTES])
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    int file = (size_t)snprintf(path, sizeof path, "%s/%s", directory, name) < sizeof path
                   ? open(path, O_RDONLY | O_CLOEXEC)
                   : -1;
    ssize_t got = file >= 0 ? 1 : 0;
    while (got > 0 && bytes < TEXT_BYTES - 1) {
        got = read(file, text + bytes, TEXT_BYTES - 1 - bytes);
        bytes += got > 0 ? (size_t)got : 0;
    }
    text[bytes] = '\0';
    if (file >= 0) {
        close(file);
    }
}

/* The number that follows `key` at the start of a line, or SIZE_MAX. */
static size_t number_after(const char *text, const char *key)
{
    size_t length = strlen(key);
    while (text != NULL && *text != '\0') {
        if (strncmp(text, key, length) == 0) {
            char *end;
            unsigned long long value = strtoull(text + length, &end, 10);
            return end != text + length ? (size_t)value : SIZE_MAX;
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    return SIZE_MAX;
}

size_t qn_system_number(const char *directory, const char *name, const char *key)
{
    char text[TEXT_BYTES];
    read_text(directory, name, text);
    return number_after(text, key);
}

static void visit_upwards(const char *mount, const char *path, bool second_version, qn_control_group_visitor visit,
                          void *context)
{
    char directory[PATH_BYTES];
    size_t base = strlen(mount);
    if ((size_t)snprintf(directory, sizeof directory, "%s%s", mount, path) >= sizeof directory) {
        return;
    }
    for (;;) {
        visit(context, directory, second_version);
        char *slash = strrchr(directory + base, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* Is it one of the names between commas? */
static bool lists(const char *controllers, const char *controller)
{
    size_t length = strlen(controller);
    for (const char *at = controllers; (at = strstr(at, controller)) != NULL; at += length) {
        bool begins = at == controllers || at[-1] == ',', ends = at[length] == '\0' || at[length] == ',';
        if (begins && ends) {
            return true;
        }
    }
    return false;
}

/* /proc/self/cgroup has lines "0::/path" (v2) and "N:memory,other:/path" (v1). */
void qn_control_groups_visit(const char *root, const char *controller, qn_control_group_visitor visit, void *context)
{
    char mount[PATH_BYTES], lines[TEXT_BYTES], *rest = NULL;
    if ((size_t)snprintf(mount, sizeof mount, "%s/proc/self", root) >= sizeof mount) {
        return;
    }
    read_text(mount, "cgroup", lines);
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        bool second_version = controllers[0] == '\0';
        if (!second_version && !lists(controllers, controller)) {
            continue;
        }
        int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, second_version ? "" : "/",
                              second_version ? "" : controller);
        if (length > 0 && (size_t)length < sizeof mount) {
            visit_upwards(mount, path, second_version, visit, context);
        }
    }
}

/* v2: "QUOTA PERIOD" or "max PERIOD" in one file; v1: a file each, and a quota of -1 for none. */
static void take_smallest_quota(void *context, const char *directory, bool second_version)
{
    size_t *cpus = context;
    unsigned long long quota = 0, period = 0;
    char text[TEXT_BYTES], *end;
    read_text(directory, second_version ? "cpu.max" : "cpu.cfs_quota_us", text);
    if (text[0] >= '0' && text[0] <= '9') {
        quota = strtoull(text, &end, 10);
        period = second_version ? strtoull(end, NULL, 10) : qn_system_number(directory, "cpu.cfs_period_us", "");
    }
    if (quota > 0 && period > 0 && period < SIZE_MAX) {
        *cpus = qn_min_size(*cpus, qn_max_size((size_t)(quota / period), 1));
    }
}

size_t qn_cpu_quota(const char *root)
{
    size_t cpus = SIZE_MAX;
    qn_control_groups_visit(root, "cpu", take_smallest_quota, &cpus);
    return cpus;
}
