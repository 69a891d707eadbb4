/* A file of known bytes, to be read by the readers of files. */
#ifndef READ_FILE_H
#define READ_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/direct_reader.h"

enum { READ_FILE_BYTES = 640 * QN_DIRECT_ALIGNMENT + 1234 };

extern char read_file_path[40];
extern uint8_t read_file_content[READ_FILE_BYTES];

/* Setup and teardown of a group of tests. */
int make_read_file(void **state);
int remove_read_file(void **state);

/* Opens it directly, or as where the file system refuses that. */
qn_direct_reader *open_read_file(bool buffered);

#endif
