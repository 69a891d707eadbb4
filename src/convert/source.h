/* What is converted: a checkpoint's config and index, and where each of its tensors lies.
 *
 * Opening reads config.json and the index (or the header of a single model.safetensors) and settles, before any work,
 * that every tensor of the config is there and none that is unknown. The weights' files themselves are opened one by
 * one, when a tensor of theirs is asked for: they may not have arrived yet, or be gone when all of theirs is converted.
 * Only their headers and what is asked for is read, with reads that fail, never through a mapping.
 *
 * A `qn_source_tensor` is a tensor of the catalogue (checkpoint/catalogue.h), in its order, then what a checkpoint may
 * have beside those (the MTP layer's embed_tokens and shared_head.head). Routed experts are one each per expert and
 * projection, also where the checkpoint keeps a layer's experts in one tensor. */
#ifndef QN_CONVERT_SOURCE_H
#define QN_CONVERT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/direct_reader.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/catalogue.h"
#include "checkpoint/safetensors.h"

typedef struct qn_source qn_source;

typedef enum qn_source_layout {
    QN_SOURCE_WHOLE,         /* the tensor of that name */
    QN_SOURCE_FUSED_GATE_UP, /* rows of expert `expert` in prefix.gate_up_proj [E, 2I, H] */
    QN_SOURCE_FUSED_DOWN     /* the same in prefix.down_proj [E, H, I] */
} qn_source_layout;

typedef struct qn_source_tensor {
    const char *name;      /* as released; lives as long as the source */
    const char *stored_as; /* the tensor of the file: `name` but for fused experts */
    size_t file;           /* which holds it: index into the source's files */
    const char *scale;     /* in an FP8 checkpoint: the tensor of its scales, NULL: it has none, ... */
    size_t scale_file;     /* ... and the file that holds that; without scales, `file` */
    qn_source_layout layout;
    qn_tensor_kind kind;
    size_t layer, expert; /* QN_NO_INDEX: none */
    size_t dims, shape[2];
    qn_dtype dtype; /* as the catalogue has it; the file's may be another: qn_slice */
} qn_source_tensor;

/* A tensor's bytes in its file. */
typedef struct qn_slice {
    uint64_t offset, bytes;
    qn_dtype dtype;
    uint64_t scale_offset; /* F8_E4M3 only: of the scales in their file, float32 [ceil(rows / 128), ceil(cols / 128)] */
} qn_slice;

enum { QN_FP8_BLOCK = 128 }; /* rows and columns that share a scale: weight = value * scale */

/* Errors: QN_BAD_INPUT. A quantised checkpoint is refused: MXFP4 since it is converted already, FP8 for being a lossy
 * copy, unless allow_lossy. */
qn_status qn_source_open(const char *dir, bool allow_lossy, qn_source **out, qn_error *err);
void qn_source_close(qn_source *source); /* NULL is fine */

const char *qn_source_dir(const qn_source *source);
const qn_config *qn_source_config(const qn_source *source);
const json_t *qn_source_config_json(const qn_source *source); /* config.json as it stands */
/* XXH3-128 in hex, NUL-terminated: of config.json's bytes, of the index's (of the header's where there is no index). */
const char *qn_source_config_hash(const qn_source *source);
const char *qn_source_index_hash(const qn_source *source);

size_t qn_source_count(const qn_source *source); /* of tensors */
const qn_source_tensor *qn_source_at(const qn_source *source, size_t i);

bool qn_source_has_index(const qn_source *source); /* else it is one model.safetensors */
size_t qn_source_file_count(const qn_source *source);
const char *qn_source_file_name(const qn_source *source, size_t file); /* "model-00001-of-00282.safetensors" */
const char *qn_source_file_path(const qn_source *source, size_t file);

/* The rest may be called by several threads at once. */

/* Where tensor i lies. Opens its file's header if that was not done yet; dtype and shape are checked there. */
qn_status qn_source_locate(qn_source *source, size_t i, qn_slice *out, qn_error *err);

/* Does the file have what the index says of it, and nothing else? */
qn_status qn_source_check_file(qn_source *source, size_t file, qn_error *err);

/* The file for reading; opened for the first that asks, closed with the last release. */
qn_status qn_source_acquire(qn_source *source, size_t file, qn_direct_reader **out, qn_error *err);
void qn_source_release(qn_source *source, size_t file);

#endif
