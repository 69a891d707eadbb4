/* Two batches of pieces take turns: while all threads fill the one, one of them writes the other. Writing is the pool's
 * first item, so it starts before any piece, and pieces are small enough that the rest is shared out evenly. */
#include "synth/weights.h"

#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"
#include "checkpoint/safetensors_writer.h"

enum { PIECE_BYTES = 1 << 20, BATCH_BYTES_A_THREAD = 4 << 20, BATCH_PIECES_A_THREAD = 16, ALIGNMENT = 64 };

/* Some rows of a tensor. All of a vector, and of a matrix in MXFP4, whose scales come behind all of its codes. */
typedef struct piece {
    const qn_catalogue_tensor *tensor;
    size_t first_row, rows;
    size_t offset, bytes; /* in the batch's buffer */
} piece;

/* Pieces of one file, in order. */
typedef struct batch {
    size_t file;
    bool opens, ends; /* has the file's first piece, its last */
    piece *pieces;    /* [most_pieces] */
    size_t count, used;
    uint8_t *buffer; /* [buffer_bytes] */
} batch;

typedef struct scratch {
    const qn_catalogue_tensor *columns_of; /* whose scales `columns` holds */
    float *columns, *row;                  /* [most_columns] */
} scratch;

typedef struct job {
    const qn_synth_weights *weights;
    const qn_synth_files *files; /* the weights' */
    scratch *scratch;            /* [threads] */
    size_t most_pieces, buffer_bytes, most_columns;
    batch batches[2], *filling, *writing; /* writing: NULL when there is nothing to */
    /* the next piece */
    size_t file, tensor, row;
    /* of the thread that writes */
    qn_safetensors_writer *writer;
    qn_status status;
    qn_error *err;
} job;

static size_t rows_of(const qn_catalogue_tensor *tensor)
{
    return tensor->dims == 2 ? tensor->shape[0] : 1;
}

static size_t row_bytes_of(const job *j, const qn_catalogue_tensor *tensor)
{
    return (size_t)qn_synth_bytes(j->files, tensor) / rows_of(tensor);
}

static size_t rows_of_piece(const job *j, const qn_catalogue_tensor *tensor)
{
    if (qn_synth_is_mxfp4(j->files, tensor))
        return rows_of(tensor);
    return qn_max_size(1, qn_min_size(rows_of(tensor), PIECE_BYTES / row_bytes_of(j, tensor)));
}

static size_t aligned(size_t bytes)
{
    return qn_ceil_div(bytes, ALIGNMENT) * ALIGNMENT;
}

/* Takes pieces off the front of what is left, up to the buffer's size or the end of a file. */
static void collect(job *j, batch *b)
{
    *b = (batch){.file = j->file,
                 .opens = j->tensor == j->files->first[j->file] && j->row == 0,
                 .pieces = b->pieces,
                 .buffer = b->buffer};
    while (j->tensor < j->files->first[j->file + 1] && b->count < j->most_pieces) {
        const qn_catalogue_tensor *tensor = qn_catalogue_at(j->files->catalogue, j->tensor);
        size_t rows = qn_min_size(rows_of_piece(j, tensor), rows_of(tensor) - j->row);
        size_t bytes = rows * row_bytes_of(j, tensor);
        if (bytes > j->buffer_bytes - b->used)
            return;
        b->pieces[b->count++] = (piece){
            .tensor = tensor, .first_row = j->row, .rows = rows, .offset = b->used, .bytes = bytes};
        b->used += qn_min_size(aligned(bytes), j->buffer_bytes - b->used);
        j->row += rows;
        if (j->row == rows_of(tensor)) {
            j->row = 0;
            j->tensor++;
        }
    }
    if (j->tensor == j->files->first[j->file + 1]) {
        b->ends = true;
        j->file++;
    }
}

static void fill_vector(const job *j, const piece *p, uint8_t *out)
{
    enum { AT_ONCE = 256 };
    float values[AT_ONCE];
    uint16_t rounded[AT_ONCE];
    for (size_t first = 0; first < p->tensor->shape[0]; first += AT_ONCE) {
        size_t count = qn_min_size(AT_ONCE, p->tensor->shape[0] - first);
        qn_values_vector(j->weights->values, p->tensor, first, count, values);
        if (p->tensor->dtype == QN_DTYPE_F32) {
            memcpy(out + first * sizeof *values, values, count * sizeof *values);
            continue;
        }
        for (size_t i = 0; i < count; i++)
            rounded[i] = qn_f32_to_bf16(values[i]);
        memcpy(out + first * sizeof *rounded, rounded, count * sizeof *rounded);
    }
}

static void fill_rows(const job *j, const piece *p, scratch *s, uint8_t *out)
{
    size_t columns = p->tensor->shape[1];
    uint16_t *to = (uint16_t *)(void *)out; /* pieces are aligned in the buffer */
    for (size_t r = 0; r < p->rows; r++, to += columns) {
        qn_values_row(j->weights->values, p->tensor, p->first_row + r, s->columns, s->row);
        for (size_t i = 0; i < columns; i++)
            to[i] = qn_f32_to_bf16(s->row[i]);
    }
}

static void fill_mxfp4(const job *j, const piece *p, scratch *s, uint8_t *codes)
{
    size_t columns = p->tensor->shape[1], blocks = columns / QN_MXFP4_BLOCK;
    uint8_t *scales = codes + p->rows * columns / 2;
    for (size_t r = 0; r < p->rows; r++, codes += columns / 2, scales += blocks) {
        qn_values_row(j->weights->values, p->tensor, r, s->columns, s->row);
        for (size_t i = 0; i < columns; i++)
            s->row[i] = qn_bf16_to_f32(qn_f32_to_bf16(s->row[i]));
        j->weights->kernels->quantise_mxfp4(codes, scales, s->row, NULL, blocks, QN_SCALE_LEAST_ERROR);
    }
}

static void fill(const job *j, const piece *p, scratch *s)
{
    uint8_t *out = j->filling->buffer + p->offset;
    if (p->tensor->dims == 1) {
        fill_vector(j, p, out);
        return;
    }
    if (s->columns_of != p->tensor) {
        qn_values_columns(j->weights->values, p->tensor, s->columns);
        s->columns_of = p->tensor;
    }
    if (qn_synth_is_mxfp4(j->files, p->tensor))
        fill_mxfp4(j, p, s, out);
    else
        fill_rows(j, p, s, out);
}

static qn_status open_file(job *j, size_t file)
{
    char name[QN_SYNTH_FILE_NAME_BYTES];
    qn_status status = qn_safetensors_writer_new(&j->writer, j->err);
    for (size_t i = j->files->first[file]; i < j->files->first[file + 1] && status == QN_OK; i++) {
        qn_synth_part parts[QN_SYNTH_MAX_PARTS];
        size_t count = qn_synth_parts(j->files, qn_catalogue_at(j->files->catalogue, i), parts);
        for (size_t k = 0; k < count && status == QN_OK; k++)
            status = qn_safetensors_writer_declare(j->writer, parts[k].name, parts[k].dtype, parts[k].dims,
                                                   parts[k].shape, j->err);
    }
    if (status != QN_OK)
        return status;
    char *path = qn_path_join(j->weights->dir, qn_synth_file_name(j->files, file, name));
    status = path ? qn_safetensors_writer_begin(j->writer, path, j->err)
                  : qn_fail_memory(j->err, name, strlen(j->weights->dir));
    qn_free(path);
    return status;
}

static void write_batch(job *j)
{
    const batch *b = j->writing;
    if (b->opens)
        j->status = open_file(j, b->file);
    for (size_t i = 0; i < b->count && j->status == QN_OK; i++)
        j->status = qn_safetensors_writer_append(j->writer, b->buffer + b->pieces[i].offset, b->pieces[i].bytes,
                                                 j->err);
    if (b->ends && j->status == QN_OK)
        j->status = qn_safetensors_writer_finish(j->writer, j->err);
    if (b->ends) {
        qn_safetensors_writer_free(j->writer);
        j->writer = NULL;
    }
}

/* Item 0 writes, the others fill. */
static void work(void *context, size_t item, size_t worker)
{
    job *j = context;
    if (item > 0)
        fill(j, &j->filling->pieces[item - 1], &j->scratch[worker]);
    else if (j->writing)
        write_batch(j);
}

static uint64_t bytes_of(const batch *b)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < b->count; i++)
        bytes += b->pieces[i].bytes;
    return bytes;
}

static bool is_stopped(const job *j)
{
    return j->weights->stop && atomic_load_explicit(j->weights->stop, memory_order_relaxed);
}

static void run(job *j, qn_pool *pool)
{
    qn_progress progress;
    qn_progress_begin(&progress, &(qn_progress_setup){.label = "synthesising",
                                                      .unit = "bytes",
                                                      .total = j->files->bytes,
                                                      .json = j->weights->progress_json});
    for (size_t turn = 0; j->status == QN_OK && (j->file < j->files->count || j->writing); turn++) {
        j->filling = &j->batches[turn % 2];
        if (j->file < j->files->count)
            collect(j, j->filling);
        else
            j->filling->count = 0;
        qn_pool_run(pool, 1 + j->filling->count, work, j);
        if (j->writing)
            qn_progress_add(&progress, bytes_of(j->writing));
        j->writing = j->filling->count > 0 ? j->filling : NULL;
        if (j->status == QN_OK && is_stopped(j))
            j->status = qn_fail(j->err, QN_CANCELLED, "synth: stopped: what was written is removed");
    }
    qn_progress_finish(&progress);
}

/* Sizes of buffers, from the largest piece and row there are. */
static void measure(job *j, size_t threads)
{
    size_t largest = 0;
    for (size_t i = 0; i < qn_catalogue_count(j->files->catalogue); i++) {
        const qn_catalogue_tensor *tensor = qn_catalogue_at(j->files->catalogue, i);
        largest = qn_max_size(largest, rows_of_piece(j, tensor) * row_bytes_of(j, tensor));
        if (tensor->dims == 2)
            j->most_columns = qn_max_size(j->most_columns, tensor->shape[1]);
    }
    j->most_pieces = threads * BATCH_PIECES_A_THREAD;
    j->buffer_bytes = threads * qn_max_size(BATCH_BYTES_A_THREAD, 2 * aligned(largest));
}

static qn_status allocate(job *j, size_t threads)
{
    bool whole = true;
    for (size_t i = 0; i < 2; i++) {
        j->batches[i].pieces = qn_alloc(j->most_pieces, sizeof(piece));
        j->batches[i].buffer = qn_alloc_aligned(j->buffer_bytes, 1);
        whole = whole && j->batches[i].pieces && j->batches[i].buffer;
    }
    j->scratch = qn_alloc_zero(threads, sizeof *j->scratch);
    for (size_t i = 0; i < threads && j->scratch; i++) {
        j->scratch[i].columns = qn_alloc_aligned(j->most_columns, sizeof(float));
        j->scratch[i].row = qn_alloc_aligned(j->most_columns, sizeof(float));
        whole = whole && j->scratch[i].columns && j->scratch[i].row;
    }
    return whole && j->scratch ? QN_OK : qn_fail_memory(j->err, "buffers of random weights", 2 * j->buffer_bytes);
}

static void release(job *j, size_t threads)
{
    for (size_t i = 0; i < threads && j->scratch; i++) {
        qn_free(j->scratch[i].columns);
        qn_free(j->scratch[i].row);
    }
    qn_free(j->scratch);
    for (size_t i = 0; i < 2; i++) {
        qn_free(j->batches[i].pieces);
        qn_free(j->batches[i].buffer);
    }
    qn_safetensors_writer_free(j->writer);
}

qn_status qn_synth_weights_write(const qn_synth_weights *weights, qn_pool *pool, qn_error *err)
{
    size_t threads = qn_pool_threads(pool);
    job j = {.weights = weights, .files = weights->files, .err = err};
    measure(&j, threads);
    j.status = allocate(&j, threads);
    if (j.status == QN_OK)
        run(&j, pool);
    release(&j, threads);
    return j.status;
}
