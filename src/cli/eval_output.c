#include "cli/eval_output.h"

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"

/* The same file, by whatever path? Not when one of them is not there. */
static bool same_file(const char *a, const char *b)
{
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

static qn_status fail_input(const char *option, const char *out, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, option, "--%s: %s is an input of this command: name another file", option, out);
}

qn_status qn_check_output(const char *option, const char *out, const char *model_dir, const char *input, qn_error *err)
{
    if (input != NULL && same_file(out, input)) {
        return fail_input(option, out, err);
    }
    DIR *folder = opendir(model_dir);
    if (folder == NULL) {
        return QN_OK;
    }
    qn_status status = QN_OK;
    for (const struct dirent *entry; status == QN_OK && (entry = readdir(folder)) != NULL;) {
        char *path = qn_path_join(model_dir, entry->d_name);
        if (path == NULL) {
            status = qn_fail_memory(err, model_dir, strlen(model_dir) + strlen(entry->d_name) + 2);
        } else if (same_file(out, path)) {
            status = fail_input(option, out, err);
        }
        qn_free(path);
    }
    closedir(folder);
    return status;
}
