/* What the system tells in /proc and /sys. A file that is not there says nothing, and is no error: the smallest of what
 * is told counts. */
#include "base/system_memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"

enum { FILE_LIMIT_BYTES = 1 << 20, PATH_BYTES = 4096 };

/* The file's text, to be released with qn_free; NULL when it can't be read: then the system does not tell. */
static char *read_text(const char *path)
{
    qn_error err;
    char *text;
    size_t bytes;
    return qn_file_read(path, FILE_LIMIT_BYTES, &text, &bytes, &err) == QN_OK ? text : NULL;
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

static size_t number_in_file(const char *directory, const char *name, const char *key)
{
    char path[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, name) >= sizeof path) {
        return SIZE_MAX;
    }
    char *text = read_text(path);
    size_t value = number_after(text, key);
    qn_free(text);
    return value;
}

/* What one control group leaves, or SIZE_MAX. Pages of files that nobody uses at the moment count as free. */
static size_t group_available(const char *directory, const char *limit_file, const char *usage_file,
                              const char *inactive_key)
{
    size_t limit = number_in_file(directory, limit_file, "");
    size_t usage = number_in_file(directory, usage_file, "");
    if (limit == SIZE_MAX || usage == SIZE_MAX) {
        return SIZE_MAX;
    }
    size_t inactive = number_in_file(directory, "memory.stat", inactive_key);
    usage -= inactive == SIZE_MAX || inactive > usage ? 0 : inactive;
    return limit > usage ? limit - usage : 0;
}

/* The group at `path` below the mount point and all its ancestors: each limits what is below it. Inside a container the
 * path may not exist below the mount; the walk up still reaches the mount point itself. */
static size_t groups_available(const char *mount, const char *path, bool second_version)
{
    char directory[PATH_BYTES];
    size_t available = SIZE_MAX, base = strlen(mount);
    if ((size_t)snprintf(directory, sizeof directory, "%s%s", mount, path) >= sizeof directory) {
        return SIZE_MAX;
    }
    for (;;) {
        available = qn_min_size(available,
                                second_version
                                    ? group_available(directory, "memory.max", "memory.current", "inactive_file ")
                                    : group_available(directory, "memory.limit_in_bytes", "memory.usage_in_bytes",
                                                      "total_inactive_file "));
        char *slash = strrchr(directory + base, '/');
        if (slash == NULL) {
            return available;
        }
        *slash = '\0';
    }
}

/* /proc/self/cgroup has lines "0::/path" (v2) and "N:memory,other:/path" (v1). */
static size_t cgroup_available(const char *root, char *lines)
{
    size_t available = SIZE_MAX;
    char mount[PATH_BYTES], *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        controllers++;
        bool second_version = controllers[0] == '\0';
        if (!second_version && strstr(controllers, "memory") == NULL) {
            continue;
        }
        int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, second_version ? "" : "/memory");
        if (length > 0 && (size_t)length < sizeof mount) {
            available = qn_min_size(available, groups_available(mount, path, second_version));
        }
    }
    return available;
}

size_t qn_memory_available(const char *root)
{
    char path[PATH_BYTES], proc[PATH_BYTES];
    if ((size_t)snprintf(proc, sizeof proc, "%s/proc", root) >= sizeof proc ||
        (size_t)snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= sizeof path) {
        return 0;
    }
    size_t kibibytes = number_in_file(proc, "meminfo", "MemAvailable:");
    size_t available = kibibytes == SIZE_MAX || kibibytes > SIZE_MAX / 1024 ? SIZE_MAX : kibibytes * 1024;
    char *lines = read_text(path);
    if (lines != NULL) {
        available = qn_min_size(available, cgroup_available(root, lines));
        qn_free(lines);
    }
    return available == SIZE_MAX ? 0 : available;
}
