/* Tiles are handed out outputs first, blocks of rows within: the tile of weights that one thread has just read is in
 * the cache that the next block of rows finds. Many blocks of rows want tiles that are large: all activations pass by
 * for each, and those of a long prompt outgrow the caches. */
#include "model/parallel.h"

#include <assert.h>

enum { FEW_ROWS = 4, TILES_PER_THREAD = 8, TILE_STEP = 16, TILE_BYTES = 256 << 10, SHARED_TILE_BYTES = 4 << 20 };

void qn_for_rows(qn_pool *pool, size_t rows, qn_pool_body body, void *context)
{
    if (rows > FEW_ROWS) {
        qn_pool_run(pool, rows, body, context);
        return;
    }
    for (size_t row = 0; row < rows; row++)
        body(context, row, 0);
}

size_t qn_tile_outputs(const qn_pool *pool, size_t outputs, size_t row_bytes, size_t rows)
{
    size_t bytes = rows > QN_MATMUL_MAX_ROWS ? SHARED_TILE_BYTES : TILE_BYTES;
    size_t tile = qn_ceil_div(outputs, qn_pool_threads(pool) * TILES_PER_THREAD);
    tile = qn_min_size(tile, bytes / (row_bytes > 0 ? row_bytes : 1));
    tile = qn_ceil_div(tile > 0 ? tile : 1, TILE_STEP) * TILE_STEP;
    return qn_min_size(tile, QN_TILE_OUTPUTS);
}

typedef struct products {
    const qn_kernels *kernels;
    const qn_product *product;
    size_t rows, row_blocks;
    size_t tile[QN_MAX_PRODUCTS];
    size_t end[QN_MAX_PRODUCTS]; /* items of the products so far */
} products;

static void run_tile(void *context, size_t item, size_t worker)
{
    (void)worker;
    const products *all = context;
    size_t i = 0;
    while (item >= all->end[i])
        i++;
    const qn_product *p = &all->product[i];
    item -= i > 0 ? all->end[i - 1] : 0;
    size_t first = item / all->row_blocks * all->tile[i], last = qn_min_size(first + all->tile[i], p->w->rows);
    size_t row = item % all->row_blocks * QN_MATMUL_MAX_ROWS, rows = qn_min_size(all->rows - row, QN_MATMUL_MAX_ROWS);

    float *y[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        y[r] = p->y[row + r] + first;
    if (p->x)
        all->kernels->matmul(p->w, first, last, p->x + row, rows, y);
    else
        all->kernels->matmul_f32(p->w, first, last, p->x_f32 + row, rows, y);
}

void qn_products_run(qn_pool *pool, const qn_kernels *kernels, const qn_product *product, size_t count, size_t rows)
{
    assert(count >= 1 && count <= QN_MAX_PRODUCTS);
    products all = {
        .kernels = kernels, .product = product, .rows = rows, .row_blocks = qn_ceil_div(rows, QN_MATMUL_MAX_ROWS)};
    size_t items = 0, outputs = 0;
    for (size_t i = 0; i < count; i++)
        outputs += product[i].w->rows * all.row_blocks;
    for (size_t i = 0; i < count; i++) {
        const qn_matrix *w = product[i].w;
        all.tile[i] = qn_tile_outputs(pool, outputs, qn_matrix_row_bytes(w), rows);
        items += qn_ceil_div(w->rows, all.tile[i]) * all.row_blocks;
        all.end[i] = items;
    }
    qn_pool_run(pool, items, run_tile, &all);
}
