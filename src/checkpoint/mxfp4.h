/* Checks of MXFP4 tensors, and the pair of tensors that most layouts keep one in. Internal to this room. */
#ifndef QN_CHECKPOINT_MXFP4_H
#define QN_CHECKPOINT_MXFP4_H

#include <stdbool.h>

#include "checkpoint/layout.h"

/* A U8 tensor whose name says that it holds E8M0 scales: "..._scale" or "..._scales". */
bool qn_mxfp4_is_scales(const qn_tensor *tensor);

/* Refuses scale bytes 253 to 255 (with them a value would not be a finite BF16 number) and scales that are all zero, as
 * in a tensor that was never written; of a tensor with three dimensions each first index by itself. */
qn_status qn_mxfp4_check_scales(const char *file_name, const qn_tensor *scales, qn_error *err);

/* A matrix from `codes_name` U8 [rows, cols / 2] and `scales_name` U8 [rows, cols / 32]. */
qn_status qn_mxfp4_take_pair(qn_checkpoint *checkpoint, const char *codes_name, const char *scales_name, size_t rows,
                             size_t cols, qn_matrix *out, qn_error *err);

/* The inputs of a quantised weight come in blocks of 32. */
qn_status qn_mxfp4_check_cols(const qn_checkpoint *checkpoint, const char *name, size_t cols, qn_error *err);

#endif
