/* How a loop over the outputs of weights is cut into tiles, so that its threads end together.
 *
 * An item of such a loop is a tile: some outputs (rows of a weight) that one thread computes for a block of rows of
 * activations. Wide tiles stream best: each begins with a wait for memory, and ends with weights fetched ahead that
 * another thread takes. But a loop ends when its last item does, and until then the other threads wait. So a loop
 * begins with wide tiles, and the last of its work, one wide tile for each thread, is cut finer.
 *
 * No result depends on the cut (the kernels' one order of summation), so tiles are sized for speed alone. */
#ifndef QN_MODEL_TILES_H
#define QN_MODEL_TILES_H

#include <stddef.h>

enum { QN_TILE_OUTPUTS = 256 };

/* What one loop has to do, a member for each weight, or for several whose tiles are taken together (gate and up). */
typedef struct qn_tiled {
    size_t outputs;
    size_t row_bytes; /* of weights that are read for an output */
    size_t streams;   /* weights that these bytes belong to, 1 or more */
    size_t rows;      /* of activations; a tile meets them in blocks of QN_MATMUL_MAX_ROWS, an item each */
} qn_tiled;

/* The tiles of one member: the first wide_count of them have `wide` outputs, those behind them `fine`, a multiple of 4
 * or 16 that is at most QN_TILE_OUTPUTS; the last one may be short. */
typedef struct qn_tiles {
    size_t outputs, wide, wide_count, fine;
    size_t row_blocks;
    size_t items; /* tiles times row_blocks */
} qn_tiles;

typedef struct qn_tile {
    size_t first, last; /* outputs */
    size_t row_block;
} qn_tile;

/* A loop that is being cut: first the sum of its work, then the tiles of its members, from the last to the first. */
typedef struct qn_cut {
    size_t threads;
    double work, behind; /* bytes, counted again for each block of rows; behind: of the members that have their tiles */
} qn_cut;

void qn_cut_begin(qn_cut *cut, size_t threads);
void qn_cut_add(qn_cut *cut, const qn_tiled *member);
qn_tiles qn_cut_last(qn_cut *cut, const qn_tiled *member);

/* Item 0 .. items - 1: outputs ascending, a tile's blocks of rows one after the other, so that the weights that one
 * thread has just read are in the cache that the next block finds. */
qn_tile qn_tile_of(const qn_tiles *tiles, size_t item);

#endif
