/* A list of what may come along, not of what may not: a release's folder can hold anything, and a converted one should
 * hold nothing that its maker did not mean to hand on. */
#include "convert/carry.h"

#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

static bool ends_in(const char *name, const char *suffix)
{
    size_t bytes = strlen(name), suffix_bytes = strlen(suffix);
    return bytes > suffix_bytes && strcmp(name + bytes - suffix_bytes, suffix) == 0;
}

static bool ends_in_one(const char *name, const char *const *suffixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ends_in(name, suffixes[i]))
            return true;
    }
    return false;
}

/* What the output has of its own, or what would contradict its config.json. */
static bool is_replaced(const char *name)
{
    static const char *const names[] = {"config.json",          "README.md",
                                        QN_MANIFEST_NAME,       "hf_quant_config.json",
                                        "quantize_config.json", "quant_config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcasecmp(name, names[i]) == 0)
            return true;
    }
    return ends_in(name, ".index.json");
}

bool qn_carry_is_licence(const char *name)
{
    static const char *const starts[] = {"LICENSE", "LICENCE", "NOTICE", "COPYING"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (strncasecmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    }
    return false;
}

bool qn_carry_takes(const char *name)
{
    static const char *const suffixes[] = {".json", ".jsonl", ".jinja",    ".txt",  ".md",
                                           ".py",   ".model", ".tiktoken", ".yaml", ".yml"};
    if (is_replaced(name) || qn_manifest_check_file(name, false) != NULL)
        return false;
    return qn_carry_is_licence(name) || ends_in_one(name, suffixes, sizeof suffixes / sizeof *suffixes);
}

/* Files that nobody expects to find in the output, and so need no line. */
static bool is_no_loss(const char *name)
{
    static const char *const suffixes[] = {".safetensors", ".aria2", ".incomplete", ".part", ".lock"};
    return name[0] == '.' || is_replaced(name) || ends_in_one(name, suffixes, sizeof suffixes / sizeof *suffixes);
}

typedef struct name_list {
    char **names;
    size_t count;
} name_list;

static void free_list(name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        qn_free(list->names[i]);
    qn_free(list->names);
}

static int compare_names(const void *a, const void *b)
{
    char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Looks at one file of the source: adds it to the list, or tells that it stays. */
static qn_status consider(const char *source, const char *name, name_list *list, qn_error *err)
{
    char *path = qn_path_join(source, name);
    if (!path)
        return qn_fail_memory(err, source, strlen(source) + strlen(name) + 2);
    struct stat info;
    bool is_there = stat(path, &info) == 0, carried = false;
    if (is_there && S_ISDIR(info.st_mode))
        qn_log("%s: is a folder and is not carried along", path);
    else if (!qn_carry_takes(name))
        qn_log("%s: is not carried along", path);
    else if (!is_there || !S_ISREG(info.st_mode))
        qn_log("%s: is no regular file and is not carried along", path);
    else if (info.st_size > QN_CARRY_LIMIT_BYTES)
        qn_log("%s: has more than %d bytes and is not carried along", path, QN_CARRY_LIMIT_BYTES);
    else
        carried = true;
    qn_free(path);
    if (!carried)
        return QN_OK;
    if (list->count == QN_CARRY_MAX_FILES)
        return qn_fail(err, QN_BAD_INPUT, "%s: has more than %d files beside the weights: name a checkpoint's folder",
                       source, QN_CARRY_MAX_FILES);
    list->names[list->count] = qn_strdup(name);
    if (!list->names[list->count])
        return qn_fail_memory(err, name, strlen(name) + 1);
    list->count++;
    return QN_OK;
}

static qn_status list_files(const char *source, name_list *list, qn_error *err)
{
    list->names = qn_alloc_zero(QN_CARRY_MAX_FILES, sizeof *list->names);
    if (!list->names)
        return qn_fail_memory(err, source, QN_CARRY_MAX_FILES * sizeof *list->names);
    DIR *dir = opendir(source);
    if (!dir)
        return qn_fail(err, QN_BAD_INPUT, "%s: cannot be listed (%s): check the path", source, strerror(errno));
    qn_status status = QN_OK;
    for (struct dirent *at = readdir(dir); at && status == QN_OK; at = readdir(dir)) {
        if (!is_no_loss(at->d_name))
            status = consider(source, at->d_name, list, err);
    }
    closedir(dir);
    if (status == QN_OK && list->count > 0)
        qsort(list->names, list->count, sizeof *list->names, compare_names);
    return status;
}

static qn_status copy(const char *source, const char *destination, const char *name, qn_manifest *manifest,
                      qn_error *err)
{
    char *from = qn_path_join(source, name), *to = qn_path_join(destination, name), *data = NULL;
    size_t bytes = 0;
    qn_status status = from && to ? QN_OK : qn_fail_memory(err, name, strlen(name));
    if (status == QN_OK)
        status = qn_file_read(from, QN_CARRY_LIMIT_BYTES, &data, &bytes, err);
    if (status == QN_OK)
        status = qn_file_write(to, data, bytes, err);
    if (status == QN_OK) {
        const qn_manifest_file file = {.name = name, .bytes = bytes, .hash = qn_hash_bytes(data, bytes)};
        status = qn_manifest_add(manifest, &file, err);
    }
    qn_free(data);
    qn_free(from);
    qn_free(to);
    return status;
}

qn_status qn_carry(const char *source, const char *destination, qn_manifest *manifest, qn_error *err)
{
    name_list list = {0};
    qn_status status = list_files(source, &list, err);
    for (size_t i = 0; i < list.count && status == QN_OK; i++)
        status = copy(source, destination, list.names[i], manifest, err);
    free_list(&list);
    return status;
}
