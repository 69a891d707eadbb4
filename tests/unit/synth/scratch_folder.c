#include "scratch_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <xxhash.h>

#include "base/file.h"
#include "base/memory.h"

void scratch_make(char dir[SCRATCH_PATH_BYTES])
{
    const char *parent = getenv("TMPDIR");
    snprintf(dir, SCRATCH_PATH_BYTES, "%.200s/quern-synth-XXXXXX", parent ? parent : "/tmp");
    assert_non_null(mkdtemp(dir));
}

void scratch_path(const char *dir, const char *name, char out[SCRATCH_PATH_BYTES])
{
    assert_true(snprintf(out, SCRATCH_PATH_BYTES, "%s/%s", dir, name) < SCRATCH_PATH_BYTES);
}

/* The next entry but for . and .., its path in `path`. */
static const struct dirent *next_entry(DIR *folder, const char *dir, char path[SCRATCH_PATH_BYTES])
{
    const struct dirent *entry;
    do
        entry = readdir(folder);
    while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    if (entry)
        scratch_path(dir, entry->d_name, path);
    return entry;
}

static void remove_files(const char *dir)
{
    char path[SCRATCH_PATH_BYTES];
    DIR *folder = opendir(dir);
    while (folder && next_entry(folder, dir, path))
        unlink(path);
    if (folder)
        closedir(folder);
}

void scratch_remove(const char *dir)
{
    char path[SCRATCH_PATH_BYTES];
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    while (next_entry(folder, dir, path)) {
        remove_files(path);
        if (rmdir(path) != 0)
            unlink(path);
    }
    closedir(folder);
    assert_int_equal(rmdir(dir), 0);
}

size_t scratch_entries(const char *dir)
{
    char path[SCRATCH_PATH_BYTES];
    size_t count = 0;
    DIR *folder = opendir(dir);
    while (folder && next_entry(folder, dir, path))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

uint64_t scratch_hash(const char *dir)
{
    char path[SCRATCH_PATH_BYTES];
    uint64_t hash = 0;
    DIR *folder = opendir(dir);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = next_entry(folder, dir, path)) != NULL;) {
        char *data = NULL;
        size_t bytes = 0;
        qn_error err;
        assert_int_equal(qn_file_read(path, SIZE_MAX / 2, &data, &bytes, &err), QN_OK);
        hash ^= XXH3_64bits_withSeed(data, bytes, XXH3_64bits(entry->d_name, strlen(entry->d_name)));
        qn_free(data);
    }
    closedir(folder);
    return hash;
}
