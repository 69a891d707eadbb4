/* A folder for what a test writes, and a look at it. All functions assert that they succeed. */
#ifndef SCRATCH_FOLDER_H
#define SCRATCH_FOLDER_H

#include <stddef.h>
#include <stdint.h>

enum { SCRATCH_PATH_BYTES = 512 };

void scratch_make(char dir[SCRATCH_PATH_BYTES]);
void scratch_remove(const char *dir); /* with all that is in it, two levels deep */
void scratch_path(const char *dir, const char *name, char out[SCRATCH_PATH_BYTES]);
size_t scratch_entries(const char *dir); /* 0 when there is no such folder */

/* A hash of all files' names and bytes. */
uint64_t scratch_hash(const char *dir);

#endif
