#include "made_up_root.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

char made_up_root[MADE_UP_ROOT_BYTES];

void made_up_file(const char *path, const char *text)
{
    char full[MADE_UP_ROOT_BYTES * 2];
    snprintf(full, sizeof full, "%s/%s", made_up_root, path);
    for (char *slash = full + strlen(made_up_root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

int make_up_root(void **state)
{
    (void)state;
    snprintf(made_up_root, sizeof made_up_root, "/tmp/quern-root-XXXXXX");
    return mkdtemp(made_up_root) != NULL ? 0 : -1;
}

int remove_made_up_root(void **state)
{
    (void)state;
    char command[MADE_UP_ROOT_BYTES * 2];
    snprintf(command, sizeof command, "rm -rf '%s'", made_up_root);
    return system(command);
}
