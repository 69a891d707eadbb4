/* Many blocks of rows want tiles that are large: all activations pass by for each, and those of a long prompt outgrow
 * the caches. Tiles for few rows may be of four outputs, since the kernels then take a weight's rows one by one. */
#include "model/tiles.h"

#include "base/size.h"
#include "kernels/kernels.h"

enum {
    WIDE_PER_THREAD = 8, /* tiles that a thread would take if all were wide, at least */
    FINE_PER_WIDE = 4,
    TILE_STEP = 16, /* as many outputs as fill a cache line */
    FEW_ROWS = 4,   /* of activations: a step is then */
    FINE_STEP = 4,
    STREAM_BYTES = 256 << 10, /* that a tile reads of a weight */
    SHARED_STREAM_BYTES = 4 << 20
};

static size_t row_blocks_of(const qn_tiled *member)
{
    return qn_ceil_div(member->rows, QN_MATMUL_MAX_ROWS);
}

static size_t round_up(size_t value, size_t step)
{
    return qn_ceil_div(qn_max_size(value, 1), step) * step;
}

void qn_cut_begin(qn_cut *cut, size_t threads)
{
    *cut = (qn_cut){.threads = threads};
}

/* Of an output and all rows. */
static double work_of_output(const qn_tiled *member)
{
    return (double)qn_max_size(member->row_bytes, 1) * (double)row_blocks_of(member);
}

void qn_cut_add(qn_cut *cut, const qn_tiled *member)
{
    cut->work += work_of_output(member) * (double)member->outputs;
}

static size_t wide_of(const qn_cut *cut, const qn_tiled *member)
{
    double row_bytes = (double)qn_max_size(member->row_bytes, 1);
    double share = cut->work / (double)(cut->threads * WIDE_PER_THREAD) / row_bytes;
    double stream = member->rows > QN_MATMUL_MAX_ROWS ? SHARED_STREAM_BYTES : STREAM_BYTES;
    double most = stream * (double)member->streams / row_bytes;
    double wide = share < most ? share : most;
    return wide < QN_TILE_OUTPUTS ? round_up((size_t)wide, TILE_STEP) : QN_TILE_OUTPUTS;
}

qn_tiles qn_cut_last(qn_cut *cut, const qn_tiled *member)
{
    size_t step = member->rows <= FEW_ROWS ? FINE_STEP : TILE_STEP, fine_outputs = 0;
    qn_tiles tiles = {.outputs = member->outputs, .wide = wide_of(cut, member), .row_blocks = row_blocks_of(member)};
    tiles.fine = round_up(tiles.wide / FINE_PER_WIDE, step);
    double fine_work = (double)(cut->threads * tiles.wide) * (double)member->row_bytes - cut->behind;
    if (cut->threads > 1 && fine_work > 0) {
        double wanted = fine_work / work_of_output(member);
        fine_outputs = wanted < (double)member->outputs ? (size_t)wanted : member->outputs;
    }
    tiles.wide_count = (member->outputs - fine_outputs) / tiles.wide;
    size_t left = member->outputs - tiles.wide_count * tiles.wide;
    tiles.items = (tiles.wide_count + qn_ceil_div(left, tiles.fine)) * tiles.row_blocks;
    cut->behind += work_of_output(member) * (double)member->outputs;
    return tiles;
}

qn_tile qn_tile_of(const qn_tiles *tiles, size_t item)
{
    size_t tile = item / tiles->row_blocks, first = tile * tiles->wide, outputs = tiles->wide;
    if (tile >= tiles->wide_count) {
        first = tiles->wide_count * tiles->wide + (tile - tiles->wide_count) * tiles->fine;
        outputs = tiles->fine;
    }
    return (qn_tile){.first = first,
                     .last = qn_min_size(first + outputs, tiles->outputs),
                     .row_block = item % tiles->row_blocks};
}
