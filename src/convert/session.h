/* A run's work on the files of the plan: which are left, whether there is room for them, and their turn, as the
 * source's files are there or arrive. Internal to this room. */
#ifndef QN_CONVERT_SESSION_H
#define QN_CONVERT_SESSION_H

#include "base/error.h"
#include "convert/job.h"

/* Does every selected file of the plan that is not done. The run has joined the session (state.h). QN_FAILED when
 * another run still has some of them; QN_RESOURCE before anything is written when the disk has no room; QN_CANCELLED
 * when it was stopped. */
qn_status qn_session_run(qn_job *job, qn_error *err);

#endif
