/* Where a view into a checkpoint lies on the disk: file and offset, for those who read weights by other means than the
 * mapping that the view points into. */
#ifndef QN_CHECKPOINT_VIEW_MAP_H
#define QN_CHECKPOINT_VIEW_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/direct_reader.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"

typedef struct qn_mapped_file {
    char *path;
    qn_file_identity identity;  /* when it was mapped */
    const uint8_t *start;       /* where byte 0 of the file is mapped */
    const uint8_t *data, *last; /* the first byte of its tensors, and the one behind them */
} qn_mapped_file;

typedef struct qn_view_map {
    qn_mapped_file *files; /* those that have tensors with data */
    size_t count;
} qn_view_map;

/* The checkpoint need not outlive it. */
qn_status qn_view_map_make(const qn_checkpoint *checkpoint, qn_view_map *out, qn_error *err);
void qn_view_map_free(qn_view_map *map); /* {0} is fine */

/* A reader for each of the files, [count], in *out. One line tells when the file system refuses direct reads, as
 * `what`: why they are read. A file that is another than was mapped, or was written to since, is refused
 * (QN_BAD_INPUT): what was checked is not what would be read. */
qn_status qn_view_map_open_files(const qn_view_map *map, const char *what, qn_direct_reader ***out, qn_error *err);
void qn_view_map_close_files(const qn_view_map *map, qn_direct_reader **files); /* NULL is fine */

/* The place of data[0]; false: it is no byte of the checkpoint's tensors. */
bool qn_view_map_find(const qn_view_map *map, const uint8_t *data, size_t *file, uint64_t *offset);

#endif
