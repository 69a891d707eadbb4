/* The scalar table. */
#include "kernels/ref/ref.h"

const qn_kernels qn_kernels_scalar = {
    .name = "scalar",
    .kv_dtype = QN_DTYPE_F32,
    .packed_pays = false,
    .packed_bytes = qn_ref_packed_bytes,
    .pack = qn_ref_pack,
    .matmul = qn_ref_matmul,
    .matmul_f32 = qn_ref_matmul_f32,
    .matmul_transposed = qn_ref_matmul_transposed,
    .store_row = qn_ref_store_row,
    .attend_scratch_bytes = qn_ref_attend_scratch_bytes,
    .attend = qn_ref_attend,
    .index_packed_bytes = qn_ref_index_packed_bytes,
    .index_scratch_bytes = qn_ref_index_scratch_bytes,
    .index_pack = qn_ref_index_pack,
    .index_scores = qn_ref_index_scores,
    .rms_norm = qn_ref_rms_norm,
    .silu_multiply = qn_ref_silu_multiply,
    .axpy = qn_ref_axpy,
    .quantise_mxfp4 = qn_ref_quantise_mxfp4,
};
