#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit/shared_files.h"

static bool is_required(void)
{
    const char *required = getenv("QUERN_REQUIRE_SHARED");
    return required && strcmp(required, "1") == 0;
}

bool shared_file_read(const char *path, qn_buffer *out)
{
    const char *folder = getenv("QUERN_SHARED");
    char full[4096], command[8192];
    struct stat info;
    snprintf(full, sizeof full, "%s/%s", folder && *folder ? folder : "../shared", path);
    if (stat(full, &info) != 0) {
        if (is_required())
            fail_msg("%s is absent, and QUERN_REQUIRE_SHARED is 1", full);
        print_message("SKIPPED: %s is absent: name its folder in QUERN_SHARED\n", full);
        return false;
    }
    size_t length = strlen(full);
    bool compressed = length > 3 && strcmp(full + length - 3, ".gz") == 0;
    snprintf(command, sizeof command, "%s -- '%s'", compressed ? "gzip -dc" : "cat", full);
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
