/* One tensor from the source into a file of the output: read, quantised or copied, hashed, written.
 *
 * A tensor goes through in pieces, so that an encoder's memory does not depend on its size, and a piece in runs of a
 * row, so that float32 values never leave the first cache. An encoder belongs to one thread. */
#ifndef QN_CONVERT_ENCODER_H
#define QN_CONVERT_ENCODER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "checkpoint/importance.h"
#include "convert/shard_file.h"
#include "convert/source.h"
#include "kernels/kernels.h"

/* What all encoders of a run share. */
typedef struct qn_encoding {
    qn_source *source;
    const qn_kernels *kernels;
    qn_scale_rule rule;
    const qn_importance *importance; /* NULL: all errors count alike */
    size_t piece_bytes;              /* of the source; a multiple of QN_DIRECT_ALIGNMENT */
    const atomic_bool *stop;         /* asked between pieces; never NULL */
} qn_encoding;

/* The tensors that the source's tensor i becomes: codes and scales of a routed expert, or itself, as stored. Names are
 * put together in `names`. Opens the header of its file. */
enum { QN_MAX_OUTPUTS = 2 };
size_t qn_encoding_outputs(const qn_source_tensor *tensor); /* how many */
qn_status qn_encoding_declare(qn_source *source, size_t i, qn_arena *names, qn_tensor_declaration *out, qn_error *err);

typedef struct qn_encoder qn_encoder;

/* The bytes that an encoder takes. */
size_t qn_encoder_bytes(size_t piece_bytes);
qn_status qn_encoder_new(const qn_encoding *shared, qn_encoder **out, qn_error *err);
void qn_encoder_free(qn_encoder *encoder); /* NULL is fine */

/* Writes and commits the source's tensor i as tensors first, first + 1 of the file. A value that is NaN or infinite is
 * QN_BAD_INPUT and named by row and column, and so are experts that are all zero, which nothing that reads MXFP4 takes
 * for written. QN_CANCELLED when *stop is set. */
qn_status qn_encoder_run(qn_encoder *encoder, size_t i, qn_shard_file *file, size_t first, qn_error *err);

/* Does the file still have, as journalled, what the source's tensor i becomes? */
qn_status qn_encoder_check(qn_encoder *encoder, size_t i, qn_shard_file *file, size_t first, bool *same, qn_error *err);

#endif
