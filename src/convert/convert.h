/* BF16 checkpoint -> one with MXFP4 routed experts: the whole of `quern convert`.
 *
 * A run works on the files of the plan (shard_plan.h) that it was asked for and that are not done yet; any number of
 * runs may share a destination, on one machine or several, and each may die at any moment and be started again. The
 * state lies in DST/.quern-convert/ (state.h, shard_file.h) until finalize (finalize.h) writes config.json, the last
 * file, and removes it: only then is DST a checkpoint. */
#ifndef QN_CONVERT_CONVERT_H
#define QN_CONVERT_CONVERT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "kernels/kernels.h"

typedef struct qn_convert_options {
    const char *source, *destination; /* folders; the second is made if its parent exists */
    bool layers;                      /* the experts of layers first_layer to last_layer ... */
    size_t first_layer, last_layer;
    bool rest;      /* ... and the files of the rest; neither: everything, then finalize */
    bool finalize;  /* only finalize */
    size_t threads; /* that compute; 0: as many as CPUs */
    uint64_t max_shard_bytes;
    qn_scale_rule rule;
    const char *importance; /* file of input second moments, or NULL */
    bool allow_lossy_source;
    bool watch;                 /* wait for files of the source that are still being downloaded (arrival.h) ... */
    uint64_t watch_interval_us; /* ... and look for them this often; 0: every five seconds */
    bool delete_source_shards;  /* remove a file of the source when all of it is converted (deletion.h) */
    FILE *progress_json;        /* gets progress as JSON lines (base/progress.h); NULL: as people want it */
    const atomic_bool *stop;    /* set by a signal's handler: stop at the next tensor; may be NULL */
} qn_convert_options;

typedef struct qn_convert_result {
    bool complete;                       /* DST is a checkpoint now ... */
    bool already_complete;               /* ... and was before */
    size_t files_done, files_total;      /* of the plan, whoever did them */
    uint64_t source_bytes, output_bytes; /* that this run read and wrote */
    uint64_t us;
} qn_convert_result;

/* QN_FAILED: files of the asked range are being written by another run, or (finalize) are not there yet. QN_CANCELLED:
 * stopped. *out is filled on failure too, as far as the work went. */
qn_status qn_convert(const qn_convert_options *options, qn_convert_result *out, qn_error *err);

#endif
