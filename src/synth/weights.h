/* Writes the weights' files of a random checkpoint. Internal to this room. */
#ifndef QN_SYNTH_WEIGHTS_H
#define QN_SYNTH_WEIGHTS_H

#include <stdio.h>

#include "base/pool.h"
#include "kernels/kernels.h"
#include "synth/files.h"
#include "synth/values.h"

/* All files, below dir, each synced and whole once it has its name. Progress goes to stderr, or as JSON lines to
 * progress_json. On an error the files that are done stay. */
qn_status qn_synth_weights_write(const qn_synth_files *files, const qn_values *values, const qn_kernels *kernels,
                                 const char *dir, qn_pool *pool, FILE *progress_json, qn_error *err);

#endif
