/* The figures that are kernels on shapes of the model are cases of bench/kernel_case.h; the others, packing and the
 * loop itself, are timed here. */
#include "bench/kernel_rates.h"

#include <math.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "bench/kernel_case.h"
#include "model/packed.h"

enum {
    COLS = 6144,
    OUTPUTS = 2048,
    LATENT = 512,
    NOPE = 192,
    KEY_WIDTH = 576,
    HEADS = 64,
    INDEX_DIM = 128,
    INDEX_HEADS = 32,
    PACKED_ROWS = 64,
    MOST_REPEATS = 1 << 20
};

const size_t qn_row_points[QN_ROW_POINTS] = {1, 2, 4, 8, 16, 64, 512};

struct qn_kernel_rates {
    const qn_kernels *kernels;
    qn_pool *pool;
    qn_kernel_rig *rig;
    size_t units[QN_FIGURES]; /* of a sample; 0: not known yet */
    float *x;                 /* [COLS] */
    uint8_t *packed_bytes;
    void **packed_rows;
    qn_packed packed;
};

static qn_status take_rows(qn_kernel_rates *r, qn_error *err)
{
    qn_dtype_set dtypes = 1u << QN_DTYPE_MXFP4 | 1u << QN_DTYPE_BF16;
    size_t pointers, bytes = qn_packed_size(r->kernels, PACKED_ROWS, COLS, dtypes, &pointers);
    r->x = qn_alloc_aligned(COLS, sizeof *r->x);
    r->packed_bytes = qn_alloc_aligned(bytes, 1);
    r->packed_rows = qn_alloc_aligned(pointers, sizeof *r->packed_rows);
    if (!r->x || !r->packed_bytes || !r->packed_rows)
        return qn_fail_memory(err, "buffers of the kernels' measurement", bytes);
    r->packed = qn_packed_make(r->kernels, PACKED_ROWS, COLS, dtypes, r->packed_bytes, r->packed_rows);
    for (size_t i = 0; i < COLS; i++)
        r->x[i] = sinf((float)i * 0.37f);
    return QN_OK;
}

qn_status qn_kernel_rates_new(const qn_kernels *kernels, qn_pool *pool, const qn_region *region, qn_kernel_rates **out,
                              qn_error *err)
{
    qn_kernel_rates *r = qn_alloc_zero(1, sizeof *r);
    if (!r)
        return qn_fail_memory(err, "buffers of the kernels' measurement", sizeof *r);
    *r = (qn_kernel_rates){.kernels = kernels, .pool = pool};
    qn_status status = qn_kernel_rig_new(pool, region, &r->rig, err);
    if (status == QN_OK)
        status = take_rows(r, err);
    if (status != QN_OK) {
        qn_kernel_rates_free(r);
        return status;
    }
    *out = r;
    return QN_OK;
}

void qn_kernel_rates_free(qn_kernel_rates *r)
{
    if (!r)
        return;
    qn_kernel_rig_free(r->rig);
    qn_free(r->x);
    qn_free(r->packed_bytes);
    qn_free(r->packed_rows);
    qn_free(r);
}

static qn_kernel_case case_of(qn_figure figure)
{
    switch (figure) {
    case QN_FIGURE_TRANSPOSED_1:
    case QN_FIGURE_TRANSPOSED_8:
        return (qn_kernel_case){.kind = QN_KERNEL_TRANSPOSED,
                                .cols = LATENT,
                                .outputs = NOPE,
                                .rows = figure == QN_FIGURE_TRANSPOSED_1 ? 1 : 8};
    case QN_FIGURE_ATTENTION_FEW:
    case QN_FIGURE_ATTENTION:
        return (qn_kernel_case){.kind = QN_KERNEL_ATTEND,
                                .cols = KEY_WIDTH,
                                .outputs = HEADS,
                                .rows = 1,
                                .keys = figure == QN_FIGURE_ATTENTION ? 2048 : 64};
    case QN_FIGURE_INDEXER:
        return (qn_kernel_case){
            .kind = QN_KERNEL_INDEX_SCORES, .cols = INDEX_DIM, .outputs = INDEX_HEADS, .rows = 1, .keys = 16384};
    case QN_FIGURE_TOPK:
        return (qn_kernel_case){.kind = QN_KERNEL_TOPK, .rows = 1, .keys = 32768};
    default: {
        bool bf16 = figure >= QN_FIGURE_BF16_ROWS;
        size_t point = figure - (size_t)(bf16 ? QN_FIGURE_BF16_ROWS : QN_FIGURE_MXFP4_ROWS);
        return (qn_kernel_case){.kind = bf16 ? QN_KERNEL_MATMUL_BF16 : QN_KERNEL_MATMUL_MXFP4,
                                .cols = COLS,
                                .outputs = OUTPUTS,
                                .rows = qn_row_points[point]};
    }
    }
}

static void nothing(void *context, size_t item, size_t worker)
{
    (void)context, (void)item, (void)worker;
}

/* Seconds of so many repeats of what is no case. */
static double run_other(qn_kernel_rates *r, qn_figure figure, size_t repeats)
{
    uint64_t began = qn_now_ns();
    for (size_t i = 0; i < repeats; i++) {
        if (figure == QN_FIGURE_ROW_WORK)
            qn_packed_put(&r->packed, i % PACKED_ROWS, r->x);
        else
            qn_pool_run(r->pool, qn_pool_threads(r->pool), nothing, NULL);
    }
    uint64_t ns = qn_now_ns() - began;
    return (double)(ns > 0 ? ns : 1) / 1e9;
}

static double sample_other(qn_kernel_rates *r, qn_figure figure, double wanted_s)
{
    size_t repeats = r->units[figure] > 0 ? r->units[figure] : 1;
    double seconds = run_other(r, figure, repeats);
    while (seconds < wanted_s / 2 && repeats < MOST_REPEATS) {
        repeats *= 2;
        seconds = run_other(r, figure, repeats);
    }
    r->units[figure] = repeats;
    double values = 2.0 * COLS * (double)repeats; /* both forms of a row are packed */
    return figure == QN_FIGURE_ROW_WORK ? values / seconds / 1e6 : seconds * 1e6 / (double)repeats;
}

double qn_kernel_rates_sample(qn_kernel_rates *r, qn_figure figure, double milliseconds)
{
    if (figure == QN_FIGURE_ROW_WORK || figure == QN_FIGURE_LOOP)
        return sample_other(r, figure, milliseconds / 1e3);
    const qn_kernel_case which = case_of(figure);
    qn_kernel_rig_use(r->rig, r->kernels, &which, milliseconds, &r->units[figure]);
    const qn_kernel_sample s = qn_kernel_rig_sample(r->rig);
    if (s.keys > 0)
        return s.keys / s.seconds / 1e6;
    bool reads = s.bytes > 0 && which.rows == 1;
    return (reads ? s.bytes : s.flops) / s.seconds / 1e9;
}
