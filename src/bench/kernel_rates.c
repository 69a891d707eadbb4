/* Matrix products take the next matrices of the region each time, so that they find them in memory and not in cache;
 * several products to a loop, as a layer's experts are. The attention core and the indexer work on keys in cache: in
 * the model a step's keys are few bytes beside its weights, and many queries share them. */
#include "bench/kernel_rates.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "kernels/topk.h"
#include "model/packed.h"
#include "model/parallel.h"

enum {
    COLS = 6144,
    MATRIX_ROWS = 2048,
    MAX_ROWS = 512,  /* of activations */
    LEAST_ROWS = 16, /* of a matrix */
    HEADS = 64,
    LATENT = 512,
    ROPE = 64,
    NOPE = 192,
    HEAD_GROUP = 8,
    ITEMS_PER_THREAD = 3, /* as the model cuts attention */
    ROW_BLOCK = 8,
    KEYS = 2048,
    FEW_KEYS = 64,
    INDEX_HEADS = 32,
    INDEX_DIM = 128,
    INDEX_KEYS = 16384,
    INDEX_CALL = 128, /* keys of one call: a block of the cache */
    SCORES = 32768,
    ALIGNMENT = 64,
    MOST_REPEATS = 1 << 20
};

const size_t qn_row_points[QN_ROW_POINTS] = {1, 2, 4, 8, 16, 64, MAX_ROWS};

/* A worker's own; the sizes are multiples of 64 bytes. */
typedef struct worker_rates {
    float *absorbed; /* [ROW_BLOCK, LATENT + ROPE] */
    float *out;      /* [HEAD_GROUP, LATENT] */
    void *scratch;   /* of attend */
    float *scores;   /* [INDEX_CALL] */
} worker_rates;

struct qn_kernel_rates {
    const qn_kernels *kernels;
    qn_pool *pool;
    const qn_region *region;
    size_t at;      /* where the next matrix lies in the region */
    float *x;       /* [MAX_ROWS, COLS] */
    float **x_rows; /* [MAX_ROWS] */
    uint8_t *packed_bytes;
    void **packed_rows;
    qn_packed packed;
    float *y;       /* [MAX_ROWS, MATRIX_ROWS]: all products of a loop together */
    float **y_rows; /* [MAX_ROWS] */
    float *q;       /* [HEADS, LATENT + ROPE] */
    uint8_t *keys;  /* [KEYS, LATENT + ROPE] of kv_dtype; the indexer's [INDEX_KEYS, INDEX_DIM] in the same place */
    const void **key_rows;
    float *scores; /* [SCORES] */
    int32_t *chosen;
    uint32_t *order;
    uint8_t *worker_memory;
    worker_rates *worker; /* [threads] */
    size_t repeats[QN_FIGURES];
    size_t attended_keys, head_group; /* of the sample that runs */
    size_t transposed_rows, transposed_at;
};

static float value_at(size_t i)
{
    return sinf((float)(i % 8191) * 0.37f);
}

static void *take(size_t count, size_t size, qn_status *status, qn_error *err)
{
    void *block = *status == QN_OK ? qn_alloc_aligned(count, size) : NULL;
    if (!block && *status == QN_OK)
        *status = qn_fail_memory(err, "buffers of the kernels' measurement", count * size);
    return block;
}

static size_t aligned_size(size_t bytes)
{
    return qn_ceil_div(bytes, ALIGNMENT) * ALIGNMENT;
}

static void take_workers(qn_kernel_rates *r, qn_status *status, qn_error *err)
{
    size_t threads = qn_pool_threads(r->pool);
    size_t absorbed = sizeof(float) * ROW_BLOCK * (LATENT + ROPE), out = sizeof(float) * HEAD_GROUP * LATENT;
    size_t scratch = aligned_size(r->kernels->attend_scratch_bytes(HEAD_GROUP, LATENT, ROPE));
    size_t scores = sizeof(float) * INDEX_CALL, stride = absorbed + out + scratch + scores;
    r->worker_memory = take(threads, stride, status, err);
    r->worker = take(threads, sizeof *r->worker, status, err);
    if (*status != QN_OK)
        return;
    for (size_t i = 0; i < threads; i++) {
        uint8_t *at = r->worker_memory + i * stride;
        r->worker[i] = (worker_rates){.absorbed = (float *)at,
                                      .out = (float *)(at + absorbed),
                                      .scratch = at + absorbed + out,
                                      .scores = (float *)(at + absorbed + out + scratch)};
    }
}

static void take_buffers(qn_kernel_rates *r, qn_status *status, qn_error *err)
{
    qn_dtype_set dtypes = 1u << QN_DTYPE_MXFP4 | 1u << QN_DTYPE_BF16;
    size_t pointers, packed = qn_packed_size(r->kernels, MAX_ROWS, COLS, dtypes, &pointers);
    r->x = take((size_t)MAX_ROWS * COLS, sizeof *r->x, status, err);
    r->x_rows = take(MAX_ROWS, sizeof *r->x_rows, status, err);
    r->packed_bytes = take(packed, 1, status, err);
    r->packed_rows = take(pointers, sizeof *r->packed_rows, status, err);
    r->y = take((size_t)MAX_ROWS * MATRIX_ROWS, sizeof *r->y, status, err);
    r->y_rows = take(MAX_ROWS, sizeof *r->y_rows, status, err);
    r->q = take((size_t)HEADS * (LATENT + ROPE), sizeof *r->q, status, err);
    r->keys = take((size_t)INDEX_KEYS * INDEX_DIM, sizeof(float), status, err);
    r->key_rows = take(KEYS, sizeof *r->key_rows, status, err);
    r->scores = take(SCORES, sizeof *r->scores, status, err);
    r->chosen = take(KEYS, sizeof *r->chosen, status, err);
    r->order = take(SCORES, sizeof *r->order, status, err);
    take_workers(r, status, err);
    if (*status == QN_OK)
        r->packed = qn_packed_make(r->kernels, MAX_ROWS, COLS, dtypes, r->packed_bytes, r->packed_rows);
}

_Static_assert(KEYS *(LATENT + ROPE) <= INDEX_KEYS * INDEX_DIM, "both kinds of keys fit the buffer");

static void fill_buffers(qn_kernel_rates *r)
{
    for (size_t row = 0; row < MAX_ROWS; row++) {
        r->x_rows[row] = r->x + row * COLS;
        for (size_t i = 0; i < COLS; i++)
            r->x_rows[row][i] = value_at(row + i);
        qn_packed_put(&r->packed, row, r->x_rows[row]);
    }
    for (size_t i = 0; i < (size_t)HEADS * (LATENT + ROPE); i++)
        r->q[i] = value_at(i);
    for (size_t i = 0; i < SCORES; i++)
        r->scores[i] = value_at(i * 31);
    size_t key_bytes = (LATENT + ROPE) * (qn_dtype_bits(r->kernels->kv_dtype) / 8);
    for (size_t i = 0; i < INDEX_KEYS; i++)
        r->kernels->store_row(r->keys + i * INDEX_DIM * (qn_dtype_bits(r->kernels->kv_dtype) / 8),
                              r->x_rows[i % MAX_ROWS], INDEX_DIM);
    for (size_t i = 0; i < KEYS; i++)
        r->key_rows[i] = r->keys + i * key_bytes;
}

qn_status qn_kernel_rates_new(const qn_kernels *kernels, qn_pool *pool, const qn_region *region, qn_kernel_rates **out,
                              qn_error *err)
{
    qn_kernel_rates *r = qn_alloc_zero(1, sizeof *r);
    if (!r)
        return qn_fail_memory(err, "buffers of the kernels' measurement", sizeof *r);
    *r = (qn_kernel_rates){.kernels = kernels, .pool = pool, .region = region};
    qn_status status = QN_OK;
    take_buffers(r, &status, err);
    if (status != QN_OK) {
        qn_kernel_rates_free(r);
        return status;
    }
    fill_buffers(r);
    *out = r;
    return QN_OK;
}

void qn_kernel_rates_free(qn_kernel_rates *r)
{
    if (!r)
        return;
    void *const blocks[] = {r->x,      r->x_rows, r->packed_bytes,  r->packed_rows, r->y,
                            r->y_rows, r->q,      r->keys,          r->key_rows,    r->scores,
                            r->chosen, r->order,  r->worker_memory, r->worker};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        qn_free(blocks[i]);
    qn_free(r);
}

/* The next `rows` rows of the region as a matrix. */
static qn_matrix next_matrix(qn_kernel_rates *r, qn_dtype dtype, size_t rows, size_t cols)
{
    qn_matrix w = {.dtype = dtype, .rows = rows, .cols = cols};
    size_t codes = aligned_size(rows * qn_matrix_row_bytes(&w)),
           all = aligned_size(codes + rows * cols / QN_MXFP4_BLOCK);
    if (r->at + all > r->region->bytes)
        r->at = 0;
    w.data = r->region->data + r->at;
    w.scales = dtype == QN_DTYPE_MXFP4 ? w.data + codes : NULL;
    r->at += dtype == QN_DTYPE_MXFP4 ? all : codes;
    return w;
}

/* `amount` blocks of LEAST_ROWS outputs. */
static void run_matmul(qn_kernel_rates *r, qn_dtype dtype, size_t rows, size_t amount)
{
    size_t left = amount * LEAST_ROWS, most = qn_min_size(QN_MAX_PRODUCTS, MAX_ROWS / rows);
    while (left > 0) {
        qn_matrix w[QN_MAX_PRODUCTS];
        qn_product products[QN_MAX_PRODUCTS] = {0};
        size_t count = 0;
        for (; count < most && left > 0; count++) {
            w[count] = next_matrix(r, dtype, qn_min_size(left, MATRIX_ROWS), COLS);
            left -= w[count].rows;
            float **y = r->y_rows + count * rows;
            for (size_t i = 0; i < rows; i++)
                y[i] = r->y + (count * rows + i) * MATRIX_ROWS;
            products[count] = (qn_product){.w = &w[count], .x = qn_packed_rows(&r->packed, &w[count]), .y = y};
        }
        qn_products_run(r->pool, r->kernels, products, count, rows);
    }
}

static void transposed_item(void *context, size_t item, size_t worker)
{
    qn_kernel_rates *r = context;
    const float *x[ROW_BLOCK];
    float *y[ROW_BLOCK];
    for (size_t i = 0; i < r->transposed_rows; i++) {
        x[i] = r->x_rows[i];
        y[i] = r->worker[worker].absorbed + i * (LATENT + ROPE);
    }
    size_t bytes = (size_t)NOPE * LATENT * sizeof(uint16_t), places = r->region->bytes / bytes;
    const uint8_t *data = r->region->data + (r->transposed_at + item) % places * bytes;
    qn_matrix w = {.dtype = QN_DTYPE_BF16, .rows = NOPE, .cols = LATENT, .data = data};
    r->kernels->matmul_transposed(&w, 0, NOPE, x, r->transposed_rows, y);
}

static void attention_item(void *context, size_t item, size_t worker)
{
    qn_kernel_rates *r = context;
    size_t groups = HEADS / r->head_group;
    const float *q = r->q + item % groups * r->head_group * (LATENT + ROPE);
    r->kernels->attend(r->worker[worker].out, q, r->head_group, LATENT, ROPE, 0.0625f, r->key_rows, r->attended_keys,
                       r->worker[worker].scratch);
}

static void indexer_item(void *context, size_t item, size_t worker)
{
    qn_kernel_rates *r = context;
    size_t at = item % (INDEX_KEYS / INDEX_CALL) * INDEX_CALL * INDEX_DIM * (qn_dtype_bits(r->kernels->kv_dtype) / 8);
    r->kernels->index_scores(r->worker[worker].scores, r->q, r->x, INDEX_HEADS, INDEX_DIM, r->keys + at, INDEX_CALL);
}

static void nothing(void *context, size_t item, size_t worker)
{
    (void)context, (void)item, (void)worker;
}

/* Attention of `amount` queries. */
static void run_attention(qn_kernel_rates *r, size_t keys, size_t amount)
{
    size_t threads = qn_pool_threads(r->pool);
    r->attended_keys = keys;
    r->head_group = HEAD_GROUP;
    while (r->head_group > 1 && HEADS / r->head_group < threads * ITEMS_PER_THREAD)
        r->head_group /= 2;
    qn_pool_run(r->pool, amount * (HEADS / r->head_group), attention_item, r);
}

/* Does `amount` units of a figure's work. Returns what one unit counts in the figure's measure: 10^3 of it a
 * microsecond are a unit of GB/s or GFLOP/s. */
static double run_units(qn_kernel_rates *r, qn_figure figure, size_t amount)
{
    if (figure >= QN_FIGURE_MXFP4_ROWS && figure < QN_FIGURE_TRANSPOSED_1) {
        bool bf16 = figure >= QN_FIGURE_BF16_ROWS;
        size_t rows = qn_row_points[figure - (bf16 ? QN_FIGURE_BF16_ROWS : QN_FIGURE_MXFP4_ROWS)];
        run_matmul(r, bf16 ? QN_DTYPE_BF16 : QN_DTYPE_MXFP4, rows, amount);
        double weights = (double)LEAST_ROWS * COLS;
        return rows > 1 ? 2 * (double)rows * weights : weights * (bf16 ? 2 : 17.0 / 32);
    }
    switch (figure) {
    case QN_FIGURE_TRANSPOSED_1:
    case QN_FIGURE_TRANSPOSED_8:
        r->transposed_rows = figure == QN_FIGURE_TRANSPOSED_1 ? 1 : ROW_BLOCK;
        qn_pool_run(r->pool, amount * HEADS, transposed_item, r);
        r->transposed_at += amount * HEADS;
        return (double)HEADS * NOPE * LATENT * 2 * (figure == QN_FIGURE_TRANSPOSED_1 ? 1 : ROW_BLOCK);
    case QN_FIGURE_ATTENTION_FEW:
    case QN_FIGURE_ATTENTION: {
        size_t keys = figure == QN_FIGURE_ATTENTION ? KEYS : FEW_KEYS;
        run_attention(r, keys, amount);
        return (double)HEADS * 2 * (LATENT + ROPE + LATENT) * (double)keys;
    }
    case QN_FIGURE_INDEXER:
        qn_pool_run(r->pool, amount * (INDEX_KEYS / INDEX_CALL), indexer_item, r);
        return (double)INDEX_KEYS * INDEX_HEADS * INDEX_DIM * 2;
    case QN_FIGURE_TOPK:
        for (size_t i = 0; i < amount; i++)
            qn_topk(r->scores, SCORES, KEYS, r->chosen, r->order, NULL);
        return SCORES * 1e3;
    case QN_FIGURE_ROW_WORK:
        for (size_t i = 0; i < amount; i++)
            qn_packed_put(&r->packed, i % MAX_ROWS, r->x_rows[i % MAX_ROWS]);
        return COLS * 1e3 * 2; /* both forms of a row are packed */
    default:
        for (size_t i = 0; i < amount; i++)
            qn_pool_run(r->pool, qn_pool_threads(r->pool), nothing, NULL);
        return 1;
    }
}

/* Products of many rows are cut into tiles of outputs, and the model's matrices have enough of these for tiles of full
 * size: so must a measured one, though a sample then takes longer than asked for. Samples of a millisecond (tests) are
 * after no true rate. */
static size_t first_amount(qn_figure figure, double milliseconds)
{
    enum { FULL_TILES = 512, MANY_ROWS = 64 };
    bool matmul = figure >= QN_FIGURE_MXFP4_ROWS && figure < QN_FIGURE_TRANSPOSED_1;
    size_t rows = matmul ? qn_row_points[(figure - QN_FIGURE_MXFP4_ROWS) % QN_ROW_POINTS] : 0;
    return rows >= MANY_ROWS && milliseconds >= 5 ? FULL_TILES / LEAST_ROWS : 1;
}

double qn_kernel_rates_sample(qn_kernel_rates *r, qn_figure figure, double milliseconds)
{
    if (r->repeats[figure] == 0)
        r->repeats[figure] = first_amount(figure, milliseconds);
    for (;;) {
        size_t amount = r->repeats[figure];
        uint64_t started = qn_now_us();
        double counted = run_units(r, figure, amount);
        double us = (double)(qn_now_us() - started);
        /* a figure's work only ever grows, and by halves less than asked for is near enough */
        if (us >= milliseconds * 500 || amount >= MOST_REPEATS) {
            us = us > 0 ? us : 1;
            return figure == QN_FIGURE_LOOP ? us / (double)amount : counted * (double)amount / us / 1e3;
        }
        double wanted = us > 0 ? milliseconds * 1e3 / us : 4;
        r->repeats[figure] = qn_min_size((size_t)((double)amount * (wanted < 4 ? wanted : 4)) + 1, MOST_REPEATS);
    }
}
