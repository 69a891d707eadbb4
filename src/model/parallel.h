/* Work of a step spread over the pool: loops over rows, and matrix products cut into tiles (model/tiles.h). */
#ifndef QN_MODEL_PARALLEL_H
#define QN_MODEL_PARALLEL_H

#include <stddef.h>

#include "base/pool.h"
#include "base/size.h"
#include "kernels/kernels.h"

/* body(context, row, worker) for every row. A handful of rows run on the caller: waking others would take longer. */
void qn_for_rows(qn_pool *pool, size_t rows, qn_pool_body body, void *context);

enum { QN_MAX_PRODUCTS = 6 };

/* y[r][0 .. w->rows) = w x[r] for r < rows. */
typedef struct qn_product {
    const qn_matrix *w;
    const void *const *x;      /* rows packed for w->dtype, or */
    const float *const *x_f32; /* rows [w->cols] of which none is to be rounded; x is then NULL */
    float *const *y;
} qn_product;

/* Up to QN_MAX_PRODUCTS products of the same number of rows in one loop, each weight read once per 64 rows. */
void qn_products_run(qn_pool *pool, const qn_kernels *kernels, const qn_product *products, size_t count, size_t rows);

#endif
