/* What the buffers of a step take, before there are weights: the model's own measure (model/workspace.h) on matrices
 * that have dtypes and no data, and the few of the engine. */
#ifndef QN_PLAN_STEP_BUFFERS_H
#define QN_PLAN_STEP_BUFFERS_H

#include "base/error.h"
#include "checkpoint/config.h"
#include "kernels/kernels.h"
#include "model/workspace.h"
#include "plan/sizes.h"

/* sizes.max_context_tokens is the context of one sequence; drafts: tokens that the MTP layer drafts a step. */
qn_status qn_plan_step_bytes(const qn_config *config, const qn_kernels *kernels, qn_plan_form form,
                             qn_workspace_sizes sizes, size_t drafts, size_t *bytes, qn_error *err);

#endif
