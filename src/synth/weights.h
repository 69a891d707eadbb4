/* Writes the weights' files of a random checkpoint. Internal to this room. */
#ifndef QN_SYNTH_WEIGHTS_H
#define QN_SYNTH_WEIGHTS_H

#include <stdatomic.h>
#include <stdio.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "synth/files.h"
#include "synth/values.h"

typedef struct qn_synth_weights {
    const qn_synth_files *files;
    const qn_values *values;
    const qn_kernels *kernels;
    const char *dir;
    FILE *progress_json;     /* progress as JSON lines there, or NULL: on stderr */
    const atomic_bool *stop; /* set: QN_CANCELLED; may be NULL */
} qn_synth_weights;

/* Writes all files below dir, each synced and whole once it has its name. On an error the files that are done stay. */
qn_status qn_synth_weights_write(const qn_synth_weights *weights, qn_pool *pool, qn_error *err);

#endif
