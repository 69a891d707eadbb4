#include "model/parallel.h"

#include <assert.h>

#include "model/tiles.h"

enum { FEW_ROWS = 4 };

void qn_for_rows(qn_pool *pool, size_t rows, qn_pool_body body, void *context)
{
    if (rows > FEW_ROWS) {
        qn_pool_run(pool, rows, body, context);
        return;
    }
    for (size_t row = 0; row < rows; row++)
        body(context, row, 0);
}

typedef struct products {
    const qn_kernels *kernels;
    const qn_product *product;
    size_t rows;
    qn_tiles tiles[QN_MAX_PRODUCTS];
} products;

static void run_tile(void *context, size_t item, size_t worker)
{
    (void)worker;
    const products *all = context;
    size_t i = 0;
    for (; item >= all->tiles[i].items; i++)
        item -= all->tiles[i].items;
    const qn_product *p = &all->product[i];
    const qn_tile tile = qn_tile_of(&all->tiles[i], item);
    size_t row = tile.row_block * QN_MATMUL_MAX_ROWS, rows = qn_min_size(all->rows - row, QN_MATMUL_MAX_ROWS);

    float *y[QN_MATMUL_MAX_ROWS];
    for (size_t r = 0; r < rows; r++)
        y[r] = p->y[row + r] + tile.first;
    if (p->x)
        all->kernels->matmul(p->w, tile.first, tile.last, p->x + row, rows, y);
    else
        all->kernels->matmul_f32(p->w, tile.first, tile.last, p->x_f32 + row, rows, y);
}

static qn_tiled tiled_product(const qn_product *product, size_t rows)
{
    return (qn_tiled){
        .outputs = product->w->rows, .row_bytes = qn_matrix_row_bytes(product->w), .streams = 1, .rows = rows};
}

void qn_products_run(qn_pool *pool, const qn_kernels *kernels, const qn_product *product, size_t count, size_t rows)
{
    assert(count >= 1 && count <= QN_MAX_PRODUCTS);
    products all = {.kernels = kernels, .product = product, .rows = rows};
    qn_cut cut;
    size_t items = 0;
    qn_cut_begin(&cut, qn_pool_threads(pool));
    for (size_t i = 0; i < count; i++) {
        const qn_tiled member = tiled_product(&product[i], rows);
        qn_cut_add(&cut, &member);
    }
    for (size_t i = count; i-- > 0;) {
        const qn_tiled member = tiled_product(&product[i], rows);
        all.tiles[i] = qn_cut_last(&cut, &member);
        items += all.tiles[i].items;
    }
    qn_pool_run(pool, items, run_tile, &all);
}
