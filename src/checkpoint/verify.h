/* Holds a folder against its manifest (manifest.h): every file's size, every header, every tensor, byte by byte.
 *
 * Files are read past the page cache by all threads, the tensors of a file side by side. What differs is told through
 * qn_log as it is found, the first QN_VERIFY_LINES of it, by file and tensor; the folder is not written to. */
#ifndef QN_CHECKPOINT_VERIFY_H
#define QN_CHECKPOINT_VERIFY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "checkpoint/manifest.h"

enum { QN_VERIFY_LINES = 16 };

typedef struct qn_verify_options {
    size_t threads;          /* 0: as many as CPUs */
    FILE *progress_json;     /* NULL: progress for people (base/progress.h) */
    const atomic_bool *stop; /* asked between reads; may be NULL */
} qn_verify_options;

typedef struct qn_verify_result {
    size_t files, tensors; /* that the manifest lists */
    uint64_t bytes;        /* that were read */
    size_t mismatches;     /* files that are missing or differ, or have another size or header; tensors that differ */
    uint64_t us;
} qn_verify_result;

/* QN_OK: all as it was written. QN_FAILED: the error tells the first mismatch and how many there are. QN_BAD_INPUT: no
 * manifest, or no readable one. QN_RESOURCE: a file that cannot be read, memory. QN_CANCELLED: stopped. *out is filled
 * as far as the work went. */
qn_status qn_verify(const char *dir, const qn_verify_options *options, qn_verify_result *out, qn_error *err);

/* One file of weights against its entry, by the caller's thread alone. QN_FAILED: the first mismatch. QN_BAD_INPUT: no
 * safetensors file. `stop` may be NULL. */
qn_status qn_verify_weights(const char *path, const qn_manifest_file *file, const atomic_bool *stop, qn_error *err);

#endif
