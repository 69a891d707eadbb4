/* Files of others that are not in the repository: read from the folder in QUERN_SHARED, by default ../shared. */
#ifndef SHARED_FILES_H
#define SHARED_FILES_H

#include <stdbool.h>

#include "base/buffer.h"

/* Reads such a file, uncompressed when its name ends with .gz. False when the folder is not there, with a line that
 * says so: the test is to end then. Where QUERN_REQUIRE_SHARED is 1, that fails the test instead. */
bool shared_file_read(const char *path, qn_buffer *out);

#endif
