#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "unit/shared_files.h"

static bool is_required(void)
{
    const char *required = getenv("QUERN_REQUIRE_SHARED");
    return required && strcmp(required, "1") == 0;
}

char *shared_file(const char *name)
{
    const char *folder = getenv("QUERN_SHARED");
    char *path = qn_path_join(folder && *folder ? folder : "../shared", name);
    assert_non_null(path);
    if (access(path, R_OK) == 0)
        return path;
    if (is_required())
        fail_msg("%s is absent, and QUERN_REQUIRE_SHARED is 1", path);
    print_message("SKIPPED: %s is absent: name its folder in QUERN_SHARED\n", path);
    qn_free(path);
    return NULL;
}

bool shared_file_read(const char *path, qn_buffer *out)
{
    char *full = shared_file(path), command[8192];
    if (!full)
        return false;
    size_t length = strlen(full);
    bool compressed = length > 3 && strcmp(full + length - 3, ".gz") == 0;
    snprintf(command, sizeof command, "%s -- '%s'", compressed ? "gzip -dc" : "cat", full);
    qn_free(full);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char block[65536];
    size_t read;
    while ((read = fread(block, 1, sizeof block, pipe)) > 0)
        qn_buffer_append(out, block, read);
    assert_int_equal(pclose(pipe), 0);
    assert_false(out->failed);
    return true;
}
