/* The checkpoint lists its tensors by file and offset, so a file's are neighbours in the list. */
#include "checkpoint/view_map.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"

static qn_status add_file(const qn_checkpoint *checkpoint, const char *name, const qn_tensor *first, qn_view_map *map,
                          size_t *capacity, qn_error *err)
{
    if (!qn_reserve(&map->files, capacity, map->count + 1, sizeof *map->files))
        return qn_fail_memory(err, "table of files", (map->count + 1) * sizeof *map->files);
    char *path = qn_path_join(qn_checkpoint_dir(checkpoint), name);
    if (!path)
        return qn_fail_memory(err, name, strlen(name) + 1);
    map->files[map->count++] = (qn_mapped_file){
        .path = path, .start = first->data - first->offset, .data = first->data, .last = first->data};
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
            status = add_file(checkpoint, name, tensor, out, &capacity, err);
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

/* The mapping is what was checked: a file that has another size by now was exchanged or cut off. */
static qn_status open_file(const qn_mapped_file *mapped, qn_direct_reader **out, qn_error *err)
{
    qn_status status = qn_direct_reader_open(mapped->path, out, err);
    uint64_t bytes = (uint64_t)(mapped->last - mapped->start);
    if (status == QN_OK && qn_direct_reader_bytes(*out) != bytes)
        status = qn_fail(err, QN_BAD_INPUT, "%s: has %llu bytes and had %llu when it was opened: leave it alone in use",
                         mapped->path, (unsigned long long)qn_direct_reader_bytes(*out), (unsigned long long)bytes);
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
