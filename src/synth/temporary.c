#include "synth/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"

qn_status qn_synth_temporary(const qn_synth_options *options, char path[QN_TEMPORARY_PATH_BYTES], qn_synth_result *out,
                             qn_error *err)
{
    const char *below = getenv("TMPDIR");
    below = below && *below ? below : "/tmp";
    int length = snprintf(path, QN_TEMPORARY_PATH_BYTES, "%s/quern-bench-XXXXXX", below);
    if (length < 0 || length >= QN_TEMPORARY_PATH_BYTES || !mkdtemp(path)) {
        int code = length < 0 || length >= QN_TEMPORARY_PATH_BYTES ? ENAMETOOLONG : errno;
        path[0] = '\0';
        return qn_fail_errno(err, below, "make a temporary folder below", code);
    }
    qn_synth_options here = *options;
    here.destination = path;
    here.without_text = true;
    qn_status status = qn_synth_write(&here, out, err);
    if (status != QN_OK) {
        qn_synth_temporary_remove(path);
        path[0] = '\0';
    }
    return status;
}

void qn_synth_temporary_remove(const char *path)
{
    DIR *folder = *path ? opendir(path) : NULL;
    if (!folder)
        return;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}
