/* `quern synth`: a random checkpoint of a config, whole or cut.
 *
 * The destination gets config.json (the source's, cut), the weights (model.safetensors, or several files and their
 * index) and, when the source is a folder and the vocabulary is whole, its tokenizer, chat template and generation
 * config. It loads and runs: the values (values.h) keep every activation finite. The same options give the same bytes,
 * whatever the threads and the machine. */
#ifndef QN_SYNTH_SYNTH_H
#define QN_SYNTH_SYNTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "synth/cut.h"

#define QN_SYNTH_DEFAULT_SHARD_BYTES UINT64_C(5000000000) /* as transformers' */

typedef enum qn_synth_format {
    QN_SYNTH_AS_CONFIG, /* MXFP4 if quantization_config is compressed-tensors', BF16 if there is none */
    QN_SYNTH_BF16,
    QN_SYNTH_MXFP4 /* routed experts in MXFP4 (compressed-tensors): the BF16 values as `quern convert` quantises them */
} qn_synth_format;

typedef struct qn_synth_options {
    const char *source;      /* a config.json, or a folder that has one */
    const char *destination; /* a folder: new, its parent there, or empty */
    qn_synth_cut cut;
    qn_synth_format format;
    bool without_text; /* no tokenizer, chat template or generation config is copied, and none is missed */
    uint64_t seed;
    uint64_t max_shard_bytes; /* of tensors in a file, unless a single one is larger */
    size_t threads;           /* 0: as many as CPUs */
    FILE *progress_json;      /* NULL: progress is for people (base/progress.h) */
    const atomic_bool *stop;  /* set by a signal's handler: stop soon; may be NULL */
} qn_synth_options;

typedef struct qn_synth_result {
    qn_synth_format format;  /* not AS_CONFIG */
    uint64_t weights, bytes; /* bytes: of all tensors */
    size_t tensors, files;   /* in the files: MXFP4 codes and scales are a tensor each */
    uint64_t us;
} qn_synth_result;

/* Memory: some 8 pieces a thread, a piece being 1 MiB, or a row if that is larger.
 * QN_USAGE for cuts that cannot be and a destination that is not empty, QN_BAD_INPUT for the source, QN_RESOURCE when
 * the disk has too little room, which is asked before the first byte, QN_CANCELLED when stopped. After a failure
 * nothing is left that was not there; config.json is written last. */
qn_status qn_synth_write(const qn_synth_options *options, qn_synth_result *out, qn_error *err);

#endif
