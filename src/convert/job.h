/* A run of the converter: what convert.c, workers.c, finalize.c and their helpers share. Internal to this room. */
#ifndef QN_CONVERT_JOB_H
#define QN_CONVERT_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_lock.h"
#include "base/progress.h"
#include "checkpoint/importance.h"
#include "checkpoint/manifest.h"
#include "convert/convert.h"
#include "convert/encoder.h"
#include "convert/shard_plan.h"
#include "convert/source.h"

typedef enum qn_shard_state {
    QN_SHARD_OPEN, /* to do, as far as is known */
    QN_SHARD_DONE, /* in its place */
    QN_SHARD_BUSY  /* another run has its lock */
} qn_shard_state;

typedef struct qn_job {
    const qn_convert_options *options;
    qn_source *source;
    qn_shard_plan *plan;
    qn_manifest *settings; /* what decides the output's bytes, and no files */
    qn_importance *importance;
    qn_encoding encoding;
    size_t workers;
    bool *selected;                    /* [files of the plan] this run is asked for them */
    qn_shard_state *state;             /* [files of the plan] */
    char holder[QN_LOCK_HOLDER_BYTES]; /* of the last busy file that was met */
    qn_progress progress;              /* in bytes of the source */
    atomic_bool never;                 /* stands in for options->stop when there is none */
    _Atomic uint64_t read_bytes, written_bytes;
} qn_job;

/* How many files of the plan are in this state, as far as this run knows. */
size_t qn_job_count(const qn_job *job, qn_shard_state state);

/* Looks whether a file of the plan is in its place: DONE, else OPEN. And the same for all of them. Fails as
 * qn_shard_file_done does. */
qn_status qn_job_look(qn_job *job, size_t shard, qn_error *err);
qn_status qn_job_look_at_all(qn_job *job, qn_error *err);

#endif
