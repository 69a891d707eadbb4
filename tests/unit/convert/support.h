/* Folders for conversions, on a memory file system where there is one, since each step is synced. All functions assert
 * that they succeed. */
#ifndef SUPPORT_H
#define SUPPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "convert/convert.h"
#include "convert/source.h"

enum { SUPPORT_PATH_BYTES = 256 };

/* A new empty folder; removed with all below it by support_remove. */
void support_make(char path[SUPPORT_PATH_BYTES]);
void support_remove(const char *path);

/* "dir/name" in out. Returns out. */
const char *support_path(const char *dir, const char *name, char out[SUPPORT_PATH_BYTES]);

/* The same files with the same bytes. */
void support_assert_same(const char *a, const char *b);

/* Makes a folder with this config.json and an index that deals the tensors of its catalogue out to `files` files of
 * weights, none of which is there. */
void support_make_source(const char *dir, const char *config_path, size_t files);

/* Copies config.json and model.safetensors: sources are read past the page cache, so that a busy disk would slow down
 * whoever reads one again and again. */
void support_copy_source(const char *from, const char *to);

/* Options for a whole conversion with two threads. */
qn_convert_options support_options(const char *source, const char *destination);

#endif
