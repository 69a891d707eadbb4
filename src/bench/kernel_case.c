/* The unit of work is 16 outputs of a matrix, or one query, or so many as the indexer scores together. */
#include "bench/kernel_case.h"

#include <math.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/packed_bf16.h"
#include "base/size.h"
#include "kernels/topk.h"
#include "model/packed.h"
#include "model/parallel.h"
#include "model/workspace.h"

enum {
    WIDEST = 16384, /* of activations */
    ROW_SHIFT = 64, /* rows of activations begin so many values apart, each a stretch of one array */
    X_VALUES = WIDEST + QN_KERNEL_MAX_ROWS * ROW_SHIFT,
    UNIT_OUTPUTS = 16,
    Y_VALUES = QN_KERNEL_MAX_ROWS * WIDEST, /* of all products in a loop */
    HEADS = 64,
    LATENT = 512,
    ROPE = 64,
    KEY_WIDTH = LATENT + ROPE,
    NOPE = 192,
    MOST_TRANSPOSED = QN_MATMUL_MAX_ROWS,
    KEYS = 2048, /* of attend, and the choice of topk */
    INDEX_HEADS = 32,
    INDEX_DIM = 128,
    INDEX_CALL = 128, /* keys of one call: a block of the cache */
    MOST_QUERIES = QN_INDEX_QUERIES,
    FEW_KEYS = 4096,
    MANY_KEYS = 32768,
    ALIGNMENT = 64,
    MOST_UNITS = 1 << 20,
    WINDOW = 113,           /* with the region's codes weights from 2^-11 to 2 */
    EXCEPTION_EVERY = 7000, /* weights, as Gaussian ones have it */
    EXCEPTION_BITS = 0x3300 /* 2^-25 */
};

static const double LONGEST_MATRIX = 25; /* times what a sample is to take */

_Static_assert(KEYS *KEY_WIDTH <= MANY_KEYS * INDEX_DIM, "both kinds of keys fit the buffer");
_Static_assert(HEADS *KEY_WIDTH <= X_VALUES, "queries are taken from the activations");
_Static_assert((int)HEADS == QN_ATTENTION_HEADS, "the model gives a call all heads of a row");
_Static_assert(HEADS <= MOST_TRANSPOSED, "a worker's output is as large as transposed products want it");

/* A worker's own. */
typedef struct kernel_worker {
    float *out;    /* [MOST_TRANSPOSED, LATENT], [HEADS, LATENT], [MOST_QUERIES, INDEX_CALL] */
    void *scratch; /* of attend and index_scores */
} kernel_worker;

/* Beside the rows of packed weights, a 500th of their bytes: the same for all matrices of a case, hence in cache. */
typedef struct packed_lists {
    qn_packed_side sides[WIDEST];
    qn_packed_exception exceptions[WIDEST];
} packed_lists;

struct qn_kernel_rig {
    qn_pool *pool;
    const qn_region *region;
    float *x; /* [X_VALUES] */
    float **x_rows, **y_rows;
    float *y;
    uint8_t *keys; /* float32 at most */
    const void **key_rows;
    float *scores; /* [MANY_KEYS] */
    uint32_t *order;
    int32_t *chosen;
    float *worker_out;
    uint8_t *worker_scratch;
    kernel_worker *worker;
    uint8_t *packed_bytes; /* as large as any table wants */
    void **packed_rows;
    packed_lists *lists;

    /* of the case in use */
    const qn_kernels *kernels;
    qn_kernel_case which;
    qn_packed packed;
    size_t units, at;
};

const char *qn_kernel_kind_name(qn_kernel_kind kind)
{
    static const char *const names[QN_KERNEL_KINDS] = {"matmul_mxfp4", "matmul_bf16",  "matmul_packed", "transposed",
                                                       "attend",       "index_scores", "topk"};
    return names[kind];
}

static bool is_product(qn_kernel_kind kind)
{
    return kind == QN_KERNEL_MATMUL_MXFP4 || kind == QN_KERNEL_MATMUL_BF16 || kind == QN_KERNEL_MATMUL_PACKED;
}

size_t qn_kernel_cases(const size_t *rows, size_t row_count, qn_kernel_case out[QN_KERNEL_MAX_CASES])
{
    /* experts' gate or up and down; q_a, q_b, o, a dense layer's gate or up */
    static const qn_kernel_case shapes[] = {{.kind = QN_KERNEL_MATMUL_MXFP4, .cols = 6144, .outputs = 2048},
                                            {.kind = QN_KERNEL_MATMUL_MXFP4, .cols = 2048, .outputs = 6144},
                                            {.kind = QN_KERNEL_MATMUL_BF16, .cols = 6144, .outputs = 2048},
                                            {.kind = QN_KERNEL_MATMUL_BF16, .cols = 2048, .outputs = 16384},
                                            {.kind = QN_KERNEL_MATMUL_BF16, .cols = 16384, .outputs = 6144},
                                            {.kind = QN_KERNEL_MATMUL_BF16, .cols = 6144, .outputs = 12288},
                                            {.kind = QN_KERNEL_MATMUL_PACKED, .cols = 6144, .outputs = 2048},
                                            {.kind = QN_KERNEL_MATMUL_PACKED, .cols = 2048, .outputs = 16384},
                                            {.kind = QN_KERNEL_MATMUL_PACKED, .cols = 16384, .outputs = 6144},
                                            {.kind = QN_KERNEL_MATMUL_PACKED, .cols = 6144, .outputs = 12288},
                                            {.kind = QN_KERNEL_TRANSPOSED, .cols = LATENT, .outputs = NOPE}};
    static const qn_kernel_case others[] = {
        {.kind = QN_KERNEL_ATTEND, .cols = KEY_WIDTH, .outputs = HEADS, .rows = 1, .keys = KEYS},
        {.kind = QN_KERNEL_INDEX_SCORES, .cols = INDEX_DIM, .outputs = INDEX_HEADS, .rows = 1, .keys = FEW_KEYS},
        {.kind = QN_KERNEL_INDEX_SCORES, .cols = INDEX_DIM, .outputs = INDEX_HEADS, .rows = 1, .keys = MANY_KEYS},
        {.kind = QN_KERNEL_INDEX_SCORES,
         .cols = INDEX_DIM,
         .outputs = INDEX_HEADS,
         .rows = MOST_QUERIES,
         .keys = MANY_KEYS},
        {.kind = QN_KERNEL_TOPK, .rows = 1, .keys = FEW_KEYS},
        {.kind = QN_KERNEL_TOPK, .rows = 1, .keys = MANY_KEYS}};
    size_t count = 0;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t most = is_product(shapes[s].kind) ? QN_KERNEL_MAX_ROWS : MOST_TRANSPOSED;
        for (size_t r = 0; r < row_count; r++) {
            if (rows[r] > most)
                continue;
            out[count] = shapes[s];
            out[count++].rows = rows[r];
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        out[count++] = others[i];
    return count;
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

static qn_dtype dtype_of(qn_kernel_kind kind)
{
    return kind == QN_KERNEL_MATMUL_MXFP4    ? QN_DTYPE_MXFP4
           : kind == QN_KERNEL_MATMUL_PACKED ? QN_DTYPE_PACKED_BF16
                                             : QN_DTYPE_BF16;
}

/* What the tables want at most: packed rows, their pointers, scratch memory. */
typedef struct table_needs {
    size_t packed, pointers, scratch;
} table_needs;

static size_t packed_query_bytes(const qn_kernels *kernels)
{
    return aligned_size(kernels->index_packed_bytes(INDEX_HEADS, INDEX_DIM));
}

static table_needs needs_of_tables(void)
{
    table_needs needs = {0};
    size_t count;
    const qn_kernels *const *all = qn_kernels_all(&count);
    for (size_t t = 0; t < count; t++) {
        for (qn_kernel_kind k = QN_KERNEL_MATMUL_MXFP4; k <= QN_KERNEL_MATMUL_BF16; k++) {
            size_t pointers, bytes = qn_packed_size(all[t], QN_KERNEL_MAX_ROWS, WIDEST, 1u << dtype_of(k), &pointers);
            needs.packed = qn_max_size(needs.packed, bytes);
            needs.pointers = qn_max_size(needs.pointers, pointers);
        }
        size_t scratch = all[t]->attend_scratch_bytes(HEADS, LATENT, ROPE);
        scratch = qn_max_size(scratch, all[t]->index_scratch_bytes(INDEX_DIM));
        needs.scratch = qn_max_size(needs.scratch, aligned_size(scratch));
        needs.packed = qn_max_size(needs.packed, MOST_QUERIES * packed_query_bytes(all[t]));
    }
    return needs;
}

static void fill(qn_kernel_rig *r, size_t scratch_bytes)
{
    for (size_t i = 0; i < X_VALUES; i++)
        r->x[i] = sinf((float)(i % 8191) * 0.37f);
    for (size_t row = 0; row < QN_KERNEL_MAX_ROWS; row++)
        r->x_rows[row] = r->x + row * ROW_SHIFT;
    for (size_t i = 0; i < MANY_KEYS; i++)
        r->scores[i] = sinf((float)(i * 31 % 8191) * 0.37f);
    for (size_t i = 0; i < qn_pool_threads(r->pool); i++)
        r->worker[i] = (kernel_worker){.out = r->worker_out + i * MOST_TRANSPOSED * LATENT,
                                       .scratch = r->worker_scratch + i * scratch_bytes};
}

qn_status qn_kernel_rig_new(qn_pool *pool, const qn_region *region, qn_kernel_rig **out, qn_error *err)
{
    qn_kernel_rig *r = qn_alloc_zero(1, sizeof *r);
    if (!r)
        return qn_fail_memory(err, "buffers of the kernels' measurement", sizeof *r);
    *r = (qn_kernel_rig){.pool = pool, .region = region};
    const table_needs needs = needs_of_tables();
    qn_status status = QN_OK;
    size_t threads = qn_pool_threads(pool);
    r->x = take(X_VALUES, sizeof *r->x, &status, err);
    r->x_rows = take(QN_KERNEL_MAX_ROWS, sizeof *r->x_rows, &status, err);
    r->packed_bytes = take(needs.packed, 1, &status, err);
    r->packed_rows = take(needs.pointers, sizeof *r->packed_rows, &status, err);
    r->y = take(Y_VALUES, sizeof *r->y, &status, err);
    r->y_rows = take((size_t)QN_MAX_PRODUCTS * QN_KERNEL_MAX_ROWS, sizeof *r->y_rows, &status, err);
    r->keys = take((size_t)MANY_KEYS * INDEX_DIM, sizeof(float), &status, err);
    r->key_rows = take(KEYS, sizeof *r->key_rows, &status, err);
    r->scores = take(MANY_KEYS, sizeof *r->scores, &status, err);
    r->order = take(MANY_KEYS, sizeof *r->order, &status, err);
    r->chosen = take(KEYS, sizeof *r->chosen, &status, err);
    r->worker_out = take(threads * MOST_TRANSPOSED * LATENT, sizeof *r->worker_out, &status, err);
    r->worker_scratch = take(threads, needs.scratch, &status, err);
    r->worker = take(threads, sizeof *r->worker, &status, err);
    r->lists = take(1, sizeof *r->lists, &status, err);
    if (status != QN_OK) {
        qn_kernel_rig_free(r);
        return status;
    }
    fill(r, needs.scratch);
    *out = r;
    return QN_OK;
}

void qn_kernel_rig_free(qn_kernel_rig *r)
{
    if (!r)
        return;
    void *const blocks[] = {r->x,      r->x_rows,     r->packed_bytes, r->packed_rows,    r->y,
                            r->y_rows, r->keys,       r->key_rows,     r->scores,         r->order,
                            r->chosen, r->worker_out, r->worker,       r->worker_scratch, r->lists};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        qn_free(blocks[i]);
    qn_free(r);
}

/* The next `outputs` rows of the region as a matrix, or as many as the region has. */
static qn_matrix next_matrix(qn_kernel_rig *r, size_t outputs)
{
    qn_dtype dtype = dtype_of(r->which.kind);
    qn_matrix w = {.dtype = dtype, .cols = r->which.cols};
    size_t scales = dtype == QN_DTYPE_MXFP4 ? w.cols / QN_MXFP4_BLOCK : 0, row = qn_matrix_row_bytes(&w) + scales;
    size_t fit = (r->region->bytes - (size_t)2 * ALIGNMENT) / row / UNIT_OUTPUTS * UNIT_OUTPUTS;
    w.rows = qn_min_size(outputs, fit);
    size_t codes = aligned_size(w.rows * qn_matrix_row_bytes(&w)), all = codes + aligned_size(w.rows * scales);
    r->at = aligned_size(r->at); /* transposed products count their own places */
    if (r->at + all > r->region->bytes)
        r->at = 0;
    w.data = r->region->data + r->at;
    w.scales = scales > 0 ? w.data + codes : NULL;
    w.sides = dtype == QN_DTYPE_PACKED_BF16 ? r->lists->sides : NULL;
    r->at += all;
    return w;
}

/* Several matrices to a loop, as a layer's experts are. */
static void run_products(qn_kernel_rig *r, size_t units)
{
    const qn_kernel_case *c = &r->which;
    size_t left = units * UNIT_OUTPUTS, most = qn_min_size(QN_MAX_PRODUCTS, Y_VALUES / (c->rows * c->outputs));
    while (left > 0) {
        qn_matrix w[QN_MAX_PRODUCTS];
        qn_product products[QN_MAX_PRODUCTS] = {0};
        size_t count = 0;
        for (; count < most && left > 0; count++) {
            w[count] = next_matrix(r, qn_min_size(left, c->outputs));
            left -= w[count].rows;
            float **y = r->y_rows + count * c->rows;
            for (size_t i = 0; i < c->rows; i++)
                y[i] = r->y + (count * c->rows + i) * c->outputs;
            products[count] = (qn_product){.w = &w[count], .x = qn_packed_rows(&r->packed, &w[count]), .y = y};
        }
        qn_products_run(r->pool, r->kernels, products, count, c->rows);
    }
}

static void transposed_item(void *context, size_t item, size_t worker)
{
    qn_kernel_rig *r = context;
    const float *x[MOST_TRANSPOSED];
    float *y[MOST_TRANSPOSED];
    for (size_t i = 0; i < r->which.rows; i++) {
        x[i] = r->x_rows[i];
        y[i] = r->worker[worker].out + i * LATENT;
    }
    size_t bytes = (size_t)NOPE * LATENT * sizeof(uint16_t), places = r->region->bytes / bytes;
    const uint8_t *data = r->region->data + (r->at + item) % places * bytes;
    qn_matrix w = {.dtype = QN_DTYPE_BF16, .rows = NOPE, .cols = LATENT, .data = data};
    r->kernels->matmul_transposed(&w, 0, NOPE, x, r->which.rows, y);
}

static void attend_item(void *context, size_t item, size_t worker)
{
    (void)item;
    qn_kernel_rig *r = context;
    r->kernels->attend(r->worker[worker].out, r->x, HEADS, LATENT, ROPE, 0.0625f, r->key_rows, r->which.keys,
                       r->worker[worker].scratch);
}

static void index_item(void *context, size_t item, size_t worker)
{
    qn_kernel_rig *r = context;
    size_t key_bytes = INDEX_DIM * (qn_dtype_bits(r->kernels->kv_dtype) / 8);
    size_t at = item % (r->which.keys / INDEX_CALL) * INDEX_CALL * key_bytes;
    kernel_worker *mine = &r->worker[worker];
    const void *q[MOST_QUERIES];
    const float *weights[MOST_QUERIES];
    float *scores[MOST_QUERIES];
    for (size_t i = 0; i < r->which.rows; i++) {
        q[i] = r->packed_bytes + i * packed_query_bytes(r->kernels);
        weights[i] = r->x_rows[i + 1];
        scores[i] = mine->out + i * INDEX_CALL;
    }
    r->kernels->index_scores(scores, q, weights, r->which.rows, INDEX_HEADS, INDEX_DIM, r->keys + at, INDEX_CALL,
                             mine->scratch);
}

static void run_units(qn_kernel_rig *r, size_t units)
{
    switch (r->which.kind) {
    case QN_KERNEL_TRANSPOSED:
        qn_pool_run(r->pool, units * HEADS, transposed_item, r);
        r->at += units * HEADS;
        return;
    case QN_KERNEL_ATTEND:
        qn_pool_run(r->pool, units, attend_item, r);
        return;
    case QN_KERNEL_INDEX_SCORES:
        qn_pool_run(r->pool, units * (r->which.keys / INDEX_CALL), index_item, r);
        return;
    case QN_KERNEL_TOPK:
        for (size_t i = 0; i < units; i++)
            qn_topk(r->scores, r->which.keys, KEYS, r->chosen, r->order, NULL);
        return;
    default:
        run_products(r, units);
    }
}

/* What one unit counts. */
static qn_kernel_sample unit_of(const qn_kernel_case *c)
{
    double outputs = (double)c->outputs, cols = (double)c->cols, keys = (double)c->keys, rows = (double)c->rows;
    switch (c->kind) {
    case QN_KERNEL_MATMUL_MXFP4:
        return (qn_kernel_sample){.flops = 2 * rows * UNIT_OUTPUTS * cols, .bytes = UNIT_OUTPUTS * cols * 17 / 32};
    case QN_KERNEL_MATMUL_BF16:
        return (qn_kernel_sample){.flops = 2 * rows * UNIT_OUTPUTS * cols, .bytes = UNIT_OUTPUTS * cols * 2};
    case QN_KERNEL_MATMUL_PACKED:
        return (qn_kernel_sample){.flops = 2 * rows * UNIT_OUTPUTS * cols,
                                  .bytes = UNIT_OUTPUTS *
                                           (double)(qn_packed_row_bytes(c->cols) + sizeof(qn_packed_side))};
    case QN_KERNEL_TRANSPOSED:
        return (qn_kernel_sample){.flops = 2 * rows * HEADS * outputs * cols, .bytes = HEADS * outputs * cols * 2};
    case QN_KERNEL_ATTEND:
        return (qn_kernel_sample){.flops = 2 * keys * outputs * (cols + LATENT)};
    case QN_KERNEL_INDEX_SCORES:
        return (qn_kernel_sample){.flops = 2 * rows * keys * outputs * cols};
    default:
        return (qn_kernel_sample){.keys = keys};
    }
}

static double timed(qn_kernel_rig *r, size_t units)
{
    uint64_t began = qn_now_ns();
    run_units(r, units);
    uint64_t ns = qn_now_ns() - began;
    return (double)(ns > 0 ? ns : 1) / 1e9;
}

/* Doubles what is done until it can be timed, and goes by that. */
static size_t find_units(qn_kernel_rig *r, double wanted_s)
{
    size_t units = 1;
    double seconds = timed(r, units);
    while (seconds < wanted_s / 4 && units < MOST_UNITS) {
        units *= 2;
        seconds = timed(r, units);
    }
    double unit_s = seconds / (double)units, most = is_product(r->which.kind) ? LONGEST_MATRIX * wanted_s : wanted_s;
    size_t whole = is_product(r->which.kind) ? r->which.outputs / UNIT_OUTPUTS : 1;
    if ((double)whole * unit_s > most)
        whole = qn_max_size(1, (size_t)(most / unit_s));
    double times = ceil(wanted_s / ((double)whole * unit_s));
    return whole * (times > 1 ? qn_min_size((size_t)times, MOST_UNITS / whole) : 1);
}

static void prepare_attend(qn_kernel_rig *r)
{
    size_t bytes = KEY_WIDTH * (qn_dtype_bits(r->kernels->kv_dtype) / 8);
    for (size_t i = 0; i < r->which.keys; i++) {
        r->kernels->store_row(r->keys + i * bytes, r->x_rows[i % QN_KERNEL_MAX_ROWS] + i, KEY_WIDTH);
        r->key_rows[i] = r->keys + i * bytes;
    }
}

static void prepare_index(qn_kernel_rig *r)
{
    for (size_t i = 0; i < r->which.rows; i++)
        r->kernels->index_pack(r->packed_bytes + i * packed_query_bytes(r->kernels), r->x_rows[i], INDEX_HEADS,
                               INDEX_DIM);
    size_t bytes = INDEX_DIM * (qn_dtype_bits(r->kernels->kv_dtype) / 8);
    for (size_t i = 0; i < r->which.keys; i++)
        r->kernels->store_row(r->keys + i * bytes, r->x + i % (X_VALUES - INDEX_DIM), INDEX_DIM);
}

static void prepare_lists(qn_kernel_rig *r)
{
    const size_t cols = r->which.cols;
    size_t used = 0, next = EXCEPTION_EVERY / 2;
    for (size_t n = 0; n < r->which.outputs; n++) {
        qn_packed_side *side = &r->lists->sides[n];
        qn_packed_exception *first = r->lists->exceptions + used;
        for (; next < (n + 1) * cols && used < WIDEST; used++) {
            r->lists->exceptions[used] = (qn_packed_exception){.col = (uint16_t)(next - n * cols),
                                                               .bits = EXCEPTION_BITS};
            next += EXCEPTION_EVERY / 2 + used * 2654435761u % EXCEPTION_EVERY;
        }
        *side = (qn_packed_side){.distance = (uint32_t)(first - (qn_packed_exception *)side),
                                 .count = (uint16_t)(r->lists->exceptions + used - first),
                                 .window = WINDOW};
    }
}

static void prepare_product(qn_kernel_rig *r)
{
    const qn_dtype_set dtypes = 1u << qn_activations_for(dtype_of(r->which.kind));
    r->packed = qn_packed_make(r->kernels, r->which.rows, r->which.cols, dtypes, r->packed_bytes, r->packed_rows);
    if (r->which.kind == QN_KERNEL_MATMUL_PACKED)
        prepare_lists(r);
    for (size_t i = 0; i < r->which.rows; i++)
        qn_packed_put(&r->packed, i, r->x_rows[i]);
}

void qn_kernel_rig_use(qn_kernel_rig *r, const qn_kernels *kernels, const qn_kernel_case *which, double milliseconds,
                       size_t *units)
{
    r->kernels = kernels;
    r->which = *which;
    if (is_product(which->kind))
        prepare_product(r);
    else if (which->kind == QN_KERNEL_ATTEND)
        prepare_attend(r);
    else if (which->kind == QN_KERNEL_INDEX_SCORES)
        prepare_index(r);
    if (*units == 0)
        *units = find_units(r, milliseconds / 1e3);
    r->units = *units;
}

qn_kernel_sample qn_kernel_rig_sample(qn_kernel_rig *r)
{
    qn_kernel_sample s = unit_of(&r->which);
    s.seconds = timed(r, r->units);
    s.flops *= (double)r->units;
    s.bytes *= (double)r->units;
    s.keys *= (double)r->units;
    return s;
}
