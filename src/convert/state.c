/* The settings are entered under a lock of their own, so that of two runs that begin together one writes and the other
 * compares. */
#include "convert/state.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "convert/shard_file.h"

static char *state_path(const char *dst, const char *name, const char *suffix, qn_error *err)
{
    char *path = qn_convert_state_path(dst, name, suffix);
    if (!path)
        qn_fail_memory(err, dst, strlen(dst) + strlen(name));
    return path;
}

qn_status qn_settings_compare(const qn_manifest *mine, const qn_manifest *found, const char *where, qn_error *err)
{
    for (size_t i = 0; i < qn_manifest_setting_count(mine); i++) {
        const char *value, *name = qn_manifest_setting_at(mine, i, &value), *other = qn_manifest_setting(found, name);
        if (!other || strcmp(value, other) != 0)
            return qn_fail(
                err, QN_USAGE,
                "%s: was begun with %s %s, and this run has %s: give the same source and options, or another "
                "folder",
                where, name, other ? other : "unset", value);
    }
    if (qn_manifest_setting_count(mine) != qn_manifest_setting_count(found))
        return qn_fail(err, QN_USAGE,
                       "%s: was begun with settings that this version of quern does not know: go on with the version "
                       "that began it, or take another folder",
                       where);
    return QN_OK;
}

static qn_status make_folder(const char *path, qn_error *err)
{
    int code = qn_fault_hit(QN_FAULT_WRITE) ? ENOSPC : mkdir(path, 0777) == 0 ? 0 : errno;
    if (code == 0)
        qn_sync_folder_of(path);
    struct stat info;
    if (code == EEXIST && stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return qn_fail(err, QN_USAGE, "%s: is not a folder: name a folder", path);
    if (code == ENOENT)
        return qn_fail(err, QN_USAGE, "%s: the folder that it would lie in does not exist: create it first", path);
    return code == 0 || code == EEXIST ? QN_OK : qn_fail_errno(err, path, "make the folder", code);
}

static qn_status make_folders(const char *dst, qn_error *err)
{
    char *path = qn_path_join(dst, QN_CONVERT_FOLDER);
    if (!path)
        return qn_fail_memory(err, dst, strlen(dst));
    qn_status status = make_folder(dst, err);
    if (status == QN_OK)
        status = make_folder(path, err);
    struct stat info;
    if (status == QN_OK && lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) /* what lies there is written to */
        status = qn_fail(err, QN_USAGE, "%s: is a symbolic link, and no conversion makes one: remove it", path);
    qn_free(path);
    return status;
}

/* *found: there are settings at `path`, and they are the same. */
static qn_status compare_with_file(const char *path, const qn_manifest *settings, bool *found, qn_error *err)
{
    *found = false;
    if (access(path, F_OK) != 0)
        return errno == ENOENT || errno == ENOTDIR ? QN_OK : qn_fail_errno(err, path, "examine", errno);
    qn_manifest *manifest = NULL;
    qn_status status = qn_manifest_read(path, &manifest, err);
    if (status == QN_OK)
        status = qn_settings_compare(settings, manifest, path, err);
    qn_manifest_free(manifest);
    *found = status == QN_OK;
    return status;
}

qn_status qn_state_check(const char *dst, const qn_manifest *settings, qn_error *err)
{
    bool found;
    char *path = state_path(dst, "settings", ".json", err);
    qn_status status = path ? compare_with_file(path, settings, &found, err) : err->status;
    qn_free(path);
    return status;
}

/* Files that were begun by settings which are no longer there: what they hold is not known. */
static qn_status refuse_orphans(const char *dst, qn_error *err)
{
    char *path = qn_path_join(dst, QN_CONVERT_FOLDER);
    if (!path)
        return qn_fail_memory(err, dst, strlen(dst));
    qn_status status = QN_OK;
    DIR *folder = opendir(path);
    for (struct dirent *at = folder ? readdir(folder) : NULL; at && status == QN_OK; at = readdir(folder)) {
        if (fnmatch("model-*.part", at->d_name, 0) == 0 || fnmatch("model-*.json", at->d_name, 0) == 0)
            status = qn_fail(err, QN_BAD_INPUT,
                             "%s: has files of a conversion, and the settings they were made with are gone: remove the "
                             "folder %s to begin anew",
                             path, dst);
    }
    if (folder)
        closedir(folder);
    qn_free(path);
    return status;
}

static qn_status enter_or_compare(const char *dst, const char *path, const qn_manifest *settings, qn_error *err)
{
    bool found;
    qn_status status = compare_with_file(path, settings, &found, err);
    if (status == QN_OK && !found)
        status = refuse_orphans(dst, err);
    return status == QN_OK && !found ? qn_manifest_write(settings, path, err) : status;
}

static qn_status settle_settings(const char *dst, const qn_manifest *settings, const atomic_bool *stop, qn_error *err)
{
    char *path = state_path(dst, "settings", ".json", err);
    char *lock_path = path ? state_path(dst, "settings", ".lock", err) : NULL;
    qn_file_lock *lock = NULL;
    qn_status status = lock_path ? qn_file_lock_wait(lock_path, QN_LOCK_EXCLUSIVE, stop, &lock, err) : err->status;
    if (status == QN_OK)
        status = enter_or_compare(dst, path, settings, err);
    qn_file_lock_release(lock);
    qn_free(lock_path);
    qn_free(path);
    return status;
}

static qn_status lock_session(const char *dst, qn_lock_mode mode, const atomic_bool *stop, qn_file_lock **out,
                              qn_error *err)
{
    char *path = state_path(dst, "session", ".lock", err);
    qn_status status = path ? qn_file_lock_wait(path, mode, stop, out, err) : err->status;
    qn_free(path);
    return status;
}

qn_status qn_state_join(const char *dst, const qn_manifest *settings, const atomic_bool *stop, qn_file_lock **session,
                        qn_error *err)
{
    qn_status status = make_folders(dst, err);
    if (status == QN_OK)
        status = lock_session(dst, QN_LOCK_SHARED, stop, session, err);
    if (status == QN_OK)
        status = settle_settings(dst, settings, stop, err);
    if (status != QN_OK) {
        qn_file_lock_release(*session);
        *session = NULL;
    }
    return status;
}

qn_status qn_state_close_session(const char *dst, const atomic_bool *stop, qn_file_lock **out, qn_error *err)
{
    return lock_session(dst, QN_LOCK_EXCLUSIVE, stop, out, err);
}

qn_status qn_state_lock_file(const char *dst, const char *name, qn_file_lock **out, char holder[QN_LOCK_HOLDER_BYTES],
                             qn_error *err)
{
    char *path = state_path(dst, name, ".lock", err);
    qn_status status = path ? qn_file_lock_try(path, QN_LOCK_EXCLUSIVE, out, holder, err) : err->status;
    qn_free(path);
    return status;
}

bool qn_state_exists(const char *dst)
{
    char *path = qn_path_join(dst, QN_CONVERT_FOLDER);
    bool exists = !path || access(path, F_OK) == 0;
    qn_free(path);
    return exists;
}

/* The folder is flat: whatever else someone put there is not removed, and then neither is the folder. */
static qn_status remove_folder(const char *folder, qn_error *err)
{
    DIR *dir = opendir(folder);
    for (struct dirent *at = dir ? readdir(dir) : NULL; at; at = readdir(dir))
        unlinkat(dirfd(dir), at->d_name, 0);
    if (dir)
        closedir(dir);
    int code = qn_fault_hit(QN_FAULT_WRITE) ? EIO : rmdir(folder) == 0 ? 0 : errno;
    return code == 0 || code == ENOENT ? QN_OK : qn_fail_errno(err, folder, "remove", code);
}

static qn_status move_and_remove(const char *folder, const char *old, qn_error *err)
{
    qn_status status = remove_folder(old, err); /* which an earlier run may have left */
    if (status != QN_OK)
        return status;
    int code = qn_fault_hit(QN_FAULT_WRITE) ? EIO : rename(folder, old) == 0 ? 0 : errno;
    if (code == ENOENT)
        return QN_OK;
    if (code != 0)
        return qn_fail_errno(err, folder, "remove", code);
    status = remove_folder(old, err);
    qn_sync_folder_of(folder);
    return status;
}

qn_status qn_state_remove(const char *dst, qn_error *err)
{
    char *folder = qn_path_join(dst, QN_CONVERT_FOLDER), *old = qn_path_join(dst, QN_CONVERT_FOLDER ".old");
    qn_status status = folder && old ? move_and_remove(folder, old, err) : qn_fail_memory(err, dst, strlen(dst));
    qn_free(old);
    qn_free(folder);
    return status;
}
