/* Files of others that are not in the repository: read from the folder in QUERN_SHARED, by default ../shared. */
#ifndef SHARED_FILES_H
#define SHARED_FILES_H

#include <stdbool.h>

#include "base/buffer.h"

/* The path of such a file, to be released with qn_free. NULL when it is not there, with a line that says so: the test
 * is to end then. Where QUERN_REQUIRE_SHARED is 1, that fails the test instead. */
char *shared_file(const char *name);

/* Reads such a file, uncompressed when its name ends with .gz. False where
 * shared_file gives NULL. */
bool shared_file_read(const char *path, qn_buffer *out);

#endif
