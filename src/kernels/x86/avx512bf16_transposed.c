/* The transposed product of BF16 and packed BF16: the chains of avx2_transposed.c, sixteen columns to a register.
 *
 * Weight rows are taken in blocks of 16, and of these 256 columns at a time are widened to float32 in the L1 cache (16
 * KiB), of each 32 the odd ones first. Register tiles of rows of activations times columns go over the block; between
 * blocks the chains rest in y, in that order, and at the end they are put in theirs. With every row that is widened one
 * that comes a block later is prefetched: with one row of activations it is memory that counts.
 *
 * A number of columns that is no multiple of 32 is left to AVX2, and so are other dtypes. */
#include "kernels/x86/avx512bf16_block.h"
#include "kernels/x86/avx512bf16_unpack.h"
#include "kernels/x86/packed_row.h"

enum {
    BLOCK_ROWS = 16,
    PIECE_COLS = 256,
    PAIR_COLS = 2 * QN_LANES, /* that a vector of BF16 holds */
};

/* A block of weights and what it meets: activations rounded to BF16. */
typedef struct transposed_block {
    _Alignas(64) float weights[BLOCK_ROWS][PIECE_COLS];
    _Alignas(64) float x[QN_MATMUL_MAX_ROWS][BLOCK_ROWS];
} transposed_block;

/* Columns [at, at + count) of weight row n; `ahead`: bytes from there to what is prefetched. */
QN_INLINE void widen_bf16(float *out, const qn_matrix *w, size_t n, size_t at, size_t count, size_t ahead)
{
    const uint8_t *data = w->data + (n * w->cols + at) * 2;
    for (size_t c = 0; c < count; c += PAIR_COLS) {
        _mm_prefetch((const char *)data + 2 * c + ahead, _MM_HINT_T1);
        qn_store_vector((uint8_t *)(out + c), qn_load32(data + 2 * c), 1);
    }
}

/* The same; `at` is the start of a group, and a short last group is widened whole. */
QN_INLINE void widen_packed(float *out, const qn_matrix *w, size_t n, size_t at, size_t count, size_t ahead)
{
    const qn_packed_side *side = &w->sides[n];
    const size_t groups = qn_round_up(w->cols) / QN_GROUP;
    const uint8_t *data = w->data + (n * groups + at / QN_GROUP) * QN_PACKED_GROUP_BYTES;
    const __m512i table = qn_exponent_table(side->window);
    for (size_t c = 0; c < count; c += QN_GROUP, data += QN_PACKED_GROUP_BYTES) {
        __m512i values[QN_VECTORS];
        for (size_t line = 0; line < QN_PACKED_GROUP_BYTES; line += 64)
            _mm_prefetch((const char *)data + ahead + line, _MM_HINT_T1);
        qn_unpack_vectors(values, data, table);
        qn_store_group((uint8_t *)(out + c), values, 1);
    }
    const qn_packed_exception *list = qn_packed_exceptions(side);
    for (size_t i = 0; i < side->count; i++) {
        const size_t col = list[i].col - at; /* wraps below */
        if (col < count)
            out[col / PAIR_COLS * PAIR_COLS + (col % 2 == 0 ? QN_LANES : 0) + col % PAIR_COLS / 2] = qn_bf16_to_f32(
                list[i].bits);
    }
}

/* R rows of activations times V vectors of columns from y[..] + c on. */
QN_INLINE void tile(float *const *y, size_t c, const transposed_block *b, size_t r, size_t at, size_t count,
                    const int R, const int V)
{
    __m512 sums[8][8];
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            sums[i][v] = _mm512_loadu_ps(y[r + (size_t)i] + c + 16 * (size_t)v);
    for (size_t n = 0; n < count; n++) {
        __m512 weight[8];
        for (int v = 0; v < V; v++)
            weight[v] = _mm512_load_ps(b->weights[n] + at + 16 * (size_t)v);
        for (int i = 0; i < R; i++) {
            const __m512 x = _mm512_set1_ps(b->x[r + (size_t)i][n]);
            for (int v = 0; v < V; v++)
                sums[i][v] = _mm512_fmadd_ps(x, weight[v], sums[i][v]);
        }
    }
    for (int i = 0; i < R; i++)
        for (int v = 0; v < V; v++)
            _mm512_storeu_ps(y[r + (size_t)i] + c + 16 * (size_t)v, sums[i][v]);
}

/* R rows of activations times all columns of a piece, V vectors at a time and the rest in twos. */
QN_INLINE void tile_rows(float *const *y, size_t c, const transposed_block *b, size_t r, size_t cols, size_t count,
                         const int R, const int V)
{
    size_t at = 0;
    for (; at + 16 * (size_t)V <= cols; at += 16 * (size_t)V)
        tile(y, c + at, b, r, at, count, R, V);
    for (; at < cols; at += PAIR_COLS)
        tile(y, c + at, b, r, at, count, R, 2);
}

QN_INLINE void multiply_piece(float *const *y, size_t c, const transposed_block *b, size_t rows, size_t cols,
                              size_t count)
{
    size_t r = 0;
    for (; r + 8 <= rows; r += 8)
        tile_rows(y, c, b, r, cols, count, 8, 2);
    for (; r + 4 <= rows; r += 4)
        tile_rows(y, c, b, r, cols, count, 4, 4);
    for (; r + 2 <= rows; r += 2)
        tile_rows(y, c, b, r, cols, count, 2, 8);
    for (; r < rows; r++)
        tile_rows(y, c, b, r, cols, count, 1, 8);
}

/* From odd columns first to all in their order. */
static void order_columns(float *y, size_t cols)
{
    const __m512i low = _mm512_setr_epi32(16, 0, 17, 1, 18, 2, 19, 3, 20, 4, 21, 5, 22, 6, 23, 7);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (size_t c = 0; c < cols; c += PAIR_COLS) {
        const __m512 odd = _mm512_loadu_ps(y + c), even = _mm512_loadu_ps(y + c + QN_LANES);
        _mm512_storeu_ps(y + c, _mm512_permutex2var_ps(odd, low, even));
        _mm512_storeu_ps(y + c + QN_LANES, _mm512_permutex2var_ps(odd, high, even));
    }
}

void qn_avx512bf16_matmul_transposed(const qn_matrix *w, size_t first, size_t last, const float *const *x, size_t rows,
                                     float *const *y)
{
    const bool is_packed = w->dtype == QN_DTYPE_PACKED_BF16;
    if ((w->dtype != QN_DTYPE_BF16 && !is_packed) || w->cols % PAIR_COLS != 0) {
        qn_avx2_matmul_transposed(w, first, last, x, rows, y);
        return;
    }
    const size_t row_bytes = qn_matrix_row_bytes(w);
    transposed_block b;
    for (size_t r = 0; r < rows; r++)
        memset(y[r], 0, w->cols * sizeof(float));
    for (size_t n = first; n < last; n += BLOCK_ROWS) {
        const size_t count = qn_min_size(BLOCK_ROWS, last - n), ahead = n + count < last ? BLOCK_ROWS * row_bytes : 0;
        for (size_t r = 0; r < rows; r++)
            qn_round_row(b.x[r], x[r] + (n - first), count, BLOCK_ROWS);
        for (size_t c = 0; c < w->cols; c += PIECE_COLS) {
            const size_t cols = qn_min_size(PIECE_COLS, w->cols - c);
            for (size_t i = 0; i < count; i++) {
                if (is_packed)
                    widen_packed(b.weights[i], w, n + i, c, cols, ahead);
                else
                    widen_bf16(b.weights[i], w, n + i, c, cols, ahead);
            }
            multiply_piece(y, c, &b, rows, cols, count);
        }
    }
    for (size_t r = 0; r < rows; r++)
        order_columns(y[r], w->cols);
}
