/* The last step: from finished files of weights to a checkpoint. Internal to this room. */
#ifndef QN_CONVERT_FINALIZE_H
#define QN_CONVERT_FINALIZE_H

#include <stdbool.h>

#include "base/error.h"
#include "convert/job.h"

/* Is the destination finished already? Then its settings must be the job's (QN_USAGE), and what an end in between left
 * of the state is removed. A config.json that no conversion wrote, and files of weights that are not of the plan, are
 * QN_USAGE. A destination that does not exist is not finished. */
qn_status qn_finalize_is_complete(const qn_job *job, bool *complete, qn_error *err);

/* All files of the plan done: writes what stands around them, config.json last (export.h), and removes the state. Else
 * QN_FAILED, with what is missing. The run has left the session before; others are waited for. */
qn_status qn_finalize(qn_job *job, qn_error *err);

#endif
