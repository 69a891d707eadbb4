#include "bench/expert_disk.h"

#include "base/async_reader.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "checkpoint/view_map.h"
#include "model/expert_cache.h"

enum { EXPERTS = 8, PIECES = EXPERTS * QN_EXPERT_PARTS };

static const uint64_t PATIENCE_US = 30000000;

struct qn_expert_disk {
    qn_view_map map;
    qn_direct_reader **files; /* [map.count] */
    qn_async_reader *reader;
    uint64_t drawn, all_bytes;
    uint8_t *memory;
    size_t memory_bytes;
    qn_async_read pieces[PIECES];
    size_t wanted[PIECES]; /* bytes */
    size_t piece_count;
};

/* Memory for the pieces, in the order in which an expert has its parts. */
static qn_status make_pieces(qn_expert_disk *disk, const size_t part_bytes[QN_EXPERT_PARTS], qn_error *err)
{
    for (size_t i = 0; i < PIECES; i++) {
        size_t bytes = part_bytes[i % QN_EXPERT_PARTS];
        if (bytes == 0)
            continue;
        disk->wanted[disk->piece_count++] = bytes;
        disk->memory_bytes += qn_direct_buffer_bytes(bytes);
    }
    disk->memory = qn_direct_buffer_new(disk->memory_bytes);
    if (!disk->memory)
        return qn_fail_memory(err, "pieces of the disk", disk->memory_bytes);
    uint8_t *at = disk->memory;
    for (size_t i = 0; i < disk->piece_count; i++) {
        disk->pieces[i].buffer = at;
        at += qn_direct_buffer_bytes(disk->wanted[i]);
    }
    return QN_OK;
}

static qn_status make(qn_expert_disk *disk, const qn_checkpoint *checkpoint, const size_t part_bytes[QN_EXPERT_PARTS],
                      qn_error *err)
{
    qn_status status = qn_view_map_make(checkpoint, &disk->map, err);
    if (status == QN_OK)
        status = qn_view_map_open_files(&disk->map, "bench", &disk->files, err);
    if (status == QN_OK)
        status = qn_async_reader_new(QN_EXPERT_READS, PATIENCE_US, &disk->reader, err);
    if (status != QN_OK)
        return status;
    for (size_t i = 0; i < disk->map.count; i++)
        disk->all_bytes += qn_direct_reader_bytes(disk->files[i]);
    return make_pieces(disk, part_bytes, err);
}

qn_status qn_expert_disk_open(const qn_checkpoint *checkpoint, const size_t part_bytes[QN_EXPERT_PARTS], uint64_t seed,
                              qn_expert_disk **out, qn_error *err)
{
    qn_expert_disk *disk = qn_alloc_zero(1, sizeof *disk);
    if (!disk)
        return qn_fail_memory(err, "disk", sizeof *disk);
    disk->drawn = seed;
    qn_status status = make(disk, checkpoint, part_bytes, err);
    if (status != QN_OK) {
        qn_expert_disk_close(disk);
        return status;
    }
    *out = disk;
    return QN_OK;
}

void qn_expert_disk_close(qn_expert_disk *disk)
{
    if (!disk)
        return;
    if (qn_async_reader_free(disk->reader)) /* else the system may yet write there */
        qn_direct_buffer_free(disk->memory, disk->memory_bytes);
    qn_view_map_close_files(&disk->map, disk->files);
    qn_view_map_free(&disk->map);
    qn_free(disk);
}

static uint64_t draw(qn_expert_disk *disk, uint64_t below)
{
    disk->drawn = disk->drawn * 6364136223846793005u + 1442695040888963407u;
    return (disk->drawn >> 24) % below;
}

/* Each byte of the files is as likely, but for those at the end of one. */
static void place(qn_expert_disk *disk, qn_async_read *piece, size_t wanted)
{
    uint64_t at = draw(disk, disk->all_bytes);
    size_t file = 0;
    while (file + 1 < disk->map.count && at >= qn_direct_reader_bytes(disk->files[file]))
        at -= qn_direct_reader_bytes(disk->files[file++]);
    uint64_t bytes = qn_direct_reader_bytes(disk->files[file]);
    piece->file = disk->files[file];
    piece->bytes = qn_min_size(wanted, (size_t)bytes);
    piece->offset = at < bytes - piece->bytes ? at : bytes - piece->bytes;
}

qn_status qn_expert_disk_sample(qn_expert_disk *disk, double *gbps, qn_error *err)
{
    uint64_t started = qn_now_ns(), before = qn_async_reader_bytes(disk->reader);
    for (size_t i = 0; i < disk->piece_count; i++) {
        place(disk, &disk->pieces[i], disk->wanted[i]);
        qn_async_reader_start(disk->reader, &disk->pieces[i], true);
    }
    for (size_t i = 0; i < disk->piece_count; i++) {
        qn_status status = qn_async_reader_wait(disk->reader, &disk->pieces[i], err);
        if (status != QN_OK)
            return status;
    }
    uint64_t ns = qn_now_ns() - started;
    *gbps = (double)(qn_async_reader_bytes(disk->reader) - before) / (double)(ns > 0 ? ns : 1);
    return QN_OK;
}
