/* A matrix counts the requests that it still waits for; the thread that takes the last one away has seen, through that
 * counter, all that the others wrote. */
#include "model/residence_packing.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/huge_memory.h"
#include "base/memory.h"
#include "base/packed_bf16.h"
#include "base/size.h"

typedef struct job {
    const qn_load_packing *plan;
    qn_bf16_packing packing;
    atomic_size_t requests_left;
    qn_matrix result;      /* once there are none left */
    size_t packed_bytes;   /* 0: it is not packed */
    qn_huge_memory memory; /* of a matrix that is not packed */
} job;

struct qn_load_packer {
    const qn_load_plan *plan;
    qn_direct_reader *const *readers;
    uint8_t *memory;
    job *jobs; /* [plan->packing_count] */
    void **buffers;
    size_t threads, buffer_bytes;
};

qn_status qn_load_packer_new(const qn_load_plan *plan, qn_direct_reader *const *readers, uint8_t *memory,
                             size_t threads, qn_load_packer **out, qn_error *err)
{
    qn_load_packer *p = qn_alloc_zero(1, sizeof *p);
    if (!p)
        return qn_fail_memory(err, "packing of weights", sizeof *p);
    *p = (qn_load_packer){.plan = plan,
                          .readers = readers,
                          .memory = memory,
                          .jobs = qn_alloc_zero(plan->packing_count, sizeof *p->jobs),
                          .buffers = qn_alloc_zero(threads, sizeof *p->buffers),
                          .threads = threads,
                          .buffer_bytes = qn_direct_buffer_bytes(plan->piece_bytes)};
    bool complete = p->jobs && p->buffers;
    for (size_t i = 0; i < threads && complete; i++) {
        p->buffers[i] = qn_direct_buffer_new(p->buffer_bytes);
        complete = p->buffers[i] != NULL;
    }
    if (!complete) {
        qn_load_packer_free(p);
        return qn_fail_memory(err, "packing of weights", threads * qn_direct_buffer_bytes(plan->piece_bytes));
    }
    for (size_t i = 0; i < plan->packing_count; i++) {
        job *j = &p->jobs[i];
        j->plan = &plan->packings[i];
        atomic_init(&j->requests_left, j->plan->request_count);
        qn_bf16_packing_start(&j->packing, j->plan->from.rows, j->plan->from.cols, memory + j->plan->at);
    }
    *out = p;
    return QN_OK;
}

void qn_load_packer_free_buffers(qn_load_packer *p)
{
    for (size_t i = 0; p->buffers && i < p->threads; i++)
        qn_direct_buffer_free(p->buffers[i], p->buffer_bytes);
    qn_free(p->buffers);
    p->buffers = NULL;
}

void qn_load_packer_free(qn_load_packer *p)
{
    if (!p)
        return;
    qn_load_packer_free_buffers(p);
    for (size_t i = 0; p->jobs && i < p->plan->packing_count; i++)
        qn_huge_memory_free(&p->jobs[i].memory);
    qn_free(p->jobs);
    qn_free(p);
}

/* From the block of the first byte on, so that every piece begins at one and stays where it is read. */
static qn_status read_unpacked(const qn_load_packer *p, job *j, size_t file, uint64_t offset, qn_error *err)
{
    const size_t before = qn_direct_bytes_before(offset), bytes = before + qn_matrix_data_bytes(&j->plan->from);
    const size_t piece = qn_ceil_div(p->plan->piece_bytes, QN_DIRECT_ALIGNMENT) * QN_DIRECT_ALIGNMENT;
    for (size_t done = 0; done < bytes; done += piece) {
        const uint8_t *data;
        qn_status status = qn_direct_read(p->readers[file], offset - before + done, qn_min_size(piece, bytes - done),
                                          j->memory.data + done, &data, err);
        if (status != QN_OK)
            return status;
    }
    j->result.data = j->memory.data + before;
    return QN_OK;
}

static qn_status give_up(const qn_load_packer *p, job *j, const qn_load_request *request, qn_error *err)
{
    const qn_matrix *from = &j->plan->from;
    uint64_t offset = request->offset - (uint64_t)request->first_row * qn_matrix_row_bytes(from);
    qn_error no_memory;
    j->result = *from;
    /* multiples of the alignment: the block's own pages */
    (void)madvise(p->memory + j->plan->at,
                  qn_ceil_div(qn_packed_bf16_most_bytes(from->rows, from->cols), QN_DIRECT_ALIGNMENT) *
                      QN_DIRECT_ALIGNMENT,
                  MADV_DONTNEED);
    if (qn_huge_memory_new(qn_direct_widened(offset, qn_matrix_data_bytes(from)), true, "a matrix that is not packed",
                           &j->memory, &no_memory) != QN_OK)
        return QN_OK;
    return read_unpacked(p, j, request->file, offset, err);
}

qn_status qn_load_packer_do(qn_load_packer *p, const qn_load_request *request, size_t thread, qn_error *err)
{
    job *j = &p->jobs[request->packing];
    if (qn_bf16_packing_pays(&j->packing)) {
        const uint8_t *data;
        qn_status status = qn_direct_read(p->readers[request->file], request->offset, request->bytes,
                                          p->buffers[thread], &data, err);
        if (status != QN_OK)
            return status;
        (void)qn_bf16_packing_rows(&j->packing, request->first_row, request->row_end, data);
    }
    if (atomic_fetch_sub(&j->requests_left, 1) > 1)
        return QN_OK;
    return qn_bf16_packing_finish(&j->packing, &j->result, &j->packed_bytes) ? QN_OK : give_up(p, j, request, err);
}

const qn_matrix *qn_load_packer_result(const qn_load_packer *p, size_t packing)
{
    return &p->jobs[packing].result;
}

qn_load_packer_figures qn_load_packer_get_figures(const qn_load_packer *p)
{
    qn_load_packer_figures sum = {0};
    for (size_t i = 0; i < p->plan->packing_count; i++) {
        const job *j = &p->jobs[i];
        const qn_matrix *from = &j->plan->from;
        if (!j->result.data || atomic_load(&j->requests_left) > 0)
            continue;
        if (j->packed_bytes > 0) {
            sum.packed++;
            sum.from_bytes += qn_matrix_data_bytes(from);
            sum.bytes += j->packed_bytes;
        } else {
            sum.unpacked++;
            sum.unpacked_bytes += qn_matrix_data_bytes(from);
            sum.mapped_bytes += j->result.data == from->data ? qn_matrix_data_bytes(from) : 0;
        }
    }
    return sum;
}
