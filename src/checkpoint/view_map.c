/* The checkpoint lists its tensors by file and offset, so a file's are neighbours in the list. */
#include "checkpoint/view_map.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

/* The file of tensor i, the first of its file that has data. */
static qn_status add_file(const qn_checkpoint *checkpoint, size_t i, qn_view_map *map, size_t *capacity, qn_error *err)
{
    const char *name;
    const qn_tensor *first = qn_checkpoint_tensor(checkpoint, i, &name);
    if (!qn_reserve(&map->files, capacity, map->count + 1, sizeof *map->files))
        return qn_fail_memory(err, "table of files", (map->count + 1) * sizeof *map->files);
    char *path = qn_path_join(qn_checkpoint_dir(checkpoint), name);
    if (!path)
        return qn_fail_memory(err, name, strlen(name) + 1);
    map->files[map->count++] = (qn_mapped_file){.path = path,
                                                .identity = *qn_checkpoint_identity(checkpoint, i),
                                                .start = first->data - first->offset,
                                                .data = first->data,
                                                .last = first->data};
    return QN_OK;
}

qn_status qn_view_map_make(const qn_checkpoint *checkpoint, qn_view_map *out, qn_error *err)
{
    *out = (qn_view_map){0};
    size_t capacity = 0;
    const char *current = NULL;
    qn_status status = QN_OK;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint) && status == QN_OK; i++) {
        const char *name;
        const qn_tensor *tensor = qn_checkpoint_tensor(checkpoint, i, &name);
        if (tensor->bytes == 0)
            continue;
        if (!current || strcmp(current, name) != 0)
            status = add_file(checkpoint, i, out, &capacity, err);
        current = name;
        if (status == QN_OK)
            out->files[out->count - 1].last = tensor->data + tensor->bytes;
    }
    if (status != QN_OK)
        qn_view_map_free(out);
    return status;
}

void qn_view_map_free(qn_view_map *map)
{
    for (size_t i = 0; i < map->count; i++)
        qn_free(map->files[i].path);
    qn_free(map->files);
    *map = (qn_view_map){0};
}

static qn_status open_file(const qn_mapped_file *mapped, qn_direct_reader **out, qn_error *err)
{
    qn_status status = qn_direct_reader_open(mapped->path, out, err);
    if (status == QN_OK && !qn_file_identity_equal(qn_direct_reader_identity(*out), &mapped->identity))
        status = qn_fail(err, QN_BAD_INPUT,
                         "%s: was exchanged or written to since it was opened: start again, and leave the files of a "
                         "model alone in use",
                         mapped->path);
    return status;
}

qn_status qn_view_map_open_files(const qn_view_map *map, const char *what, qn_direct_reader ***out, qn_error *err)
{
    size_t buffered = 0, example = 0;
    qn_direct_reader **files = qn_alloc_zero(map->count, sizeof *files);
    if (!files)
        return qn_fail_memory(err, "table of files", map->count * sizeof *files);
    for (size_t i = 0; i < map->count; i++) {
        qn_status status = open_file(&map->files[i], &files[i], err);
        if (status != QN_OK) {
            qn_view_map_close_files(map, files);
            return status;
        }
        if (qn_direct_reader_is_buffered(files[i])) {
            example = i;
            buffered++;
        }
    }
    if (buffered > 0)
        qn_log("%s: %s: its file system refuses reads past the page cache (O_DIRECT): %zu of %zu files are read "
               "through it, which is slower",
               what, map->files[example].path, buffered, map->count);
    *out = files;
    return QN_OK;
}

void qn_view_map_close_files(const qn_view_map *map, qn_direct_reader **files)
{
    for (size_t i = 0; files && i < map->count; i++)
        qn_direct_reader_close(files[i]);
    qn_free(files);
}

bool qn_view_map_find(const qn_view_map *map, const uint8_t *data, size_t *file, uint64_t *offset)
{
    uintptr_t at = (uintptr_t)data;
    for (size_t i = 0; i < map->count; i++) {
        const qn_mapped_file *f = &map->files[i];
        if (at < (uintptr_t)f->data || at >= (uintptr_t)f->last)
            continue;
        *file = i;
        *offset = at - (uintptr_t)f->start;
        return true;
    }
    return false;
}
