/* The AVX-512 table; see avx512bf16.h for what it takes from the AVX2 one. */
#include "kernels/x86/avx512bf16_lanes.h"

const qn_kernels qn_kernels_avx512bf16 = {
    .name = "avx512bf16",
    .kv_dtype = QN_DTYPE_BF16,
    .packed_pays = true,
    .packed_bytes = qn_avx512bf16_packed_bytes,
    .pack = qn_avx512bf16_pack,
    .matmul = qn_avx512bf16_matmul,
    .matmul_f32 = qn_avx2_matmul_f32,
    .matmul_transposed = qn_avx512bf16_matmul_transposed,
    .store_row = qn_avx2_store_row,
    .attend_scratch_bytes = qn_avx512bf16_attend_scratch_bytes,
    .attend = qn_avx512bf16_attend,
    .index_packed_bytes = qn_avx512bf16_index_packed_bytes,
    .index_scratch_bytes = qn_avx512bf16_index_scratch_bytes,
    .index_pack = qn_avx512bf16_index_pack,
    .index_scores = qn_avx512bf16_index_scores,
    .rms_norm = qn_avx2_rms_norm,
    .silu_multiply = qn_avx2_silu_multiply,
    .axpy = qn_avx2_axpy,
    .quantise_mxfp4 = qn_avx2_quantise_mxfp4,
};
