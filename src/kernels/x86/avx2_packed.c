/* Rows of packed BF16 as BF16 in memory, for products that meet a weight more than once or want it in its natural
 * order. */
#include "kernels/x86/avx2_weights.h"

void qn_avx2_packed_to_bf16(const qn_matrix *w, size_t n, size_t at, size_t count, uint16_t *out)
{
    const qn_packed_side *side = &w->sides[n];
    const size_t groups = qn_round_up(w->cols) / QN_GROUP;
    const uint8_t *data = w->data + (n * groups + at / QN_GROUP) * QN_PACKED_GROUP_BYTES;
    const __m256i window = qn_window_words(side->window);
    for (size_t i = 0; i < count; i += QN_GROUP, data += QN_PACKED_GROUP_BYTES)
        qn_unpack_group(out + i, data, window);
    qn_packed_put_exceptions(side, at, count, out);
}
