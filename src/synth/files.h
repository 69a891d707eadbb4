/* Which tensors of a catalogue lie in which file of the output, and as what. Internal to this room. */
#ifndef QN_SYNTH_FILES_H
#define QN_SYNTH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/safetensors.h"

enum { QN_SYNTH_FILE_NAME_BYTES = 48, QN_SYNTH_MAX_PARTS = 2 };

typedef struct qn_synth_files {
    const qn_catalogue *catalogue; /* borrowed */
    bool mxfp4;                    /* routed experts are */
    size_t count;
    size_t *first;  /* [count + 1]: file i holds the catalogue's tensors first[i] .. first[i + 1] - 1, in that order */
    uint64_t bytes; /* of all tensors */
} qn_synth_files;

/* A tensor as it stands in a file. */
typedef struct qn_synth_part {
    char name[QN_TENSOR_NAME_BYTES];
    qn_dtype dtype;
    size_t dims, shape[2];
} qn_synth_part;

/* Fills files in order, each up to max_bytes. QN_USAGE when there would be more of them than a checkpoint may have, or
 * when mxfp4 is asked for and an expert's inputs are no multiple of 32. */
qn_status qn_synth_files_plan(const qn_catalogue *catalogue, bool mxfp4, uint64_t max_bytes, qn_synth_files *out,
                              qn_error *err);
void qn_synth_files_free(qn_synth_files *files);

/* "model.safetensors", or "model-00001-of-00002.safetensors". Returns out. */
const char *qn_synth_file_name(const qn_synth_files *files, size_t file, char out[QN_SYNTH_FILE_NAME_BYTES]);

bool qn_synth_is_mxfp4(const qn_synth_files *files, const qn_catalogue_tensor *tensor);
uint64_t qn_synth_bytes(const qn_synth_files *files, const qn_catalogue_tensor *tensor);

/* The tensor itself, or its MXFP4 codes and scales; returns how many. */
size_t qn_synth_parts(const qn_synth_files *files, const qn_catalogue_tensor *tensor,
                      qn_synth_part out[QN_SYNTH_MAX_PARTS]);

#endif
