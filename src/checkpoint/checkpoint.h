/* A checkpoint directory: config.json and safetensors (single, or sharded with an index), every tensor accounted for.
 *
 * The model takes what it needs by released names; each take checks dtype and shape and marks the tensor. When all is
 * taken, qn_checkpoint_finish refuses a file with tensors that nobody asked for. So a missing, misshapen or unknown
 * tensor is an error that names file, tensor and what was expected, never skipped. Views point into the mappings and
 * live until qn_checkpoint_close. Opening, taking and finishing happen on one thread; the views may be read by any. */
#ifndef QN_CHECKPOINT_CHECKPOINT_H
#define QN_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/matrix.h"
#include "checkpoint/config.h"
#include "checkpoint/safetensors.h"

typedef struct qn_checkpoint qn_checkpoint;

/* Is `dir` a folder for a checkpoint? QN_BAD_INPUT when there is none, with a word on where models come from, when it
 * is a file, or a folder of the Hugging Face cache above its snapshots. */
qn_status qn_checkpoint_check_folder(const char *dir, qn_error *err);

/* Checks config, headers, index and every MXFP4 scale byte (253..255, and a tensor whose scales are all zero, are
 * refused), with a progress bar on a terminal. What a folder holds beside the weights is left alone; a
 * model*.safetensors that belongs to no index gets a line. */
qn_status qn_checkpoint_open(const char *dir, qn_checkpoint **out, qn_error *err);
void qn_checkpoint_close(qn_checkpoint *checkpoint); /* NULL is fine */

const qn_config *qn_checkpoint_config(const qn_checkpoint *checkpoint);
const char *qn_checkpoint_dir(const qn_checkpoint *checkpoint);

/* All tensors, in order of file and offset, for inspect. */
size_t qn_checkpoint_tensor_count(const qn_checkpoint *checkpoint);
const qn_tensor *qn_checkpoint_tensor(const qn_checkpoint *checkpoint, size_t i, const char **file_name);

/* Of the file of tensor i, when it was opened. */
const qn_file_identity *qn_checkpoint_identity(const qn_checkpoint *checkpoint, size_t i);

bool qn_checkpoint_has(const qn_checkpoint *checkpoint, const char *name);

/* A [rows, cols] matrix of BF16, F16 or F32. A quantised linear outside of the routed experts is an error. */
qn_status qn_checkpoint_take_matrix(qn_checkpoint *checkpoint, const char *name, size_t rows, size_t cols,
                                    qn_matrix *out, qn_error *err);

/* A vector of `count` values as float32, to be released with qn_free. NaN and infinities are refused. */
qn_status qn_checkpoint_take_vector(qn_checkpoint *checkpoint, const char *name, size_t count, float **out,
                                    qn_error *err);

/* The routed experts under `prefix` ("model.layers.3.mlp.experts"), whatever of the layouts on disk: arrays of
 * n_routed_experts views, gate and up [moe_intermediate_size, hidden_size], down [hidden_size, moe_intermediate_size].
 * The three arrays are the caller's. All have one dtype: BF16, F16, F32 or MXFP4. */
qn_status qn_checkpoint_take_experts(qn_checkpoint *checkpoint, const char *prefix, qn_matrix *gate, qn_matrix *up,
                                     qn_matrix *down, qn_error *err);

/* Every tensor of the files has been taken, or an error names the first that was not and how many there are. */
qn_status qn_checkpoint_finish(qn_checkpoint *checkpoint, qn_error *err);

#endif
