/* What runs on one destination share: the folder of the state, its settings, and who is at work.
 *
 *   DST/.quern-convert/settings.json  what decides the output's bytes; made by the first run, compared by the others
 *   DST/.quern-convert/session.lock   shared by every run; whoever finalizes has it alone
 *   DST/.quern-convert/NAME.lock      held by the run that writes the file NAME
 *
 * Beside them lie the files of shard_file.h. The settings become the manifest's in the end, so that a finished folder
 * can be told from one that was made otherwise. Locks are the kernel's (base/file_lock.h): death releases them. */
#ifndef QN_CONVERT_STATE_H
#define QN_CONVERT_STATE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "checkpoint/manifest.h"

/* The settings `mine` against those in force, found in `where`: QN_USAGE names the first that differs. */
qn_status qn_settings_compare(const qn_manifest *mine, const qn_manifest *found, const char *where, qn_error *err);

/* The same against the settings of a conversion under way in DST, if there is one; makes nothing. */
qn_status qn_state_check(const char *dst, const qn_manifest *settings, qn_error *err);

/* Makes DST and the folder of the state as needed, joins the session and enters or compares the settings. *session is
 * to be released (qn_file_lock_release) when the run's work on files is over. Waits for whoever finalizes, until *stop
 * is set (QN_CANCELLED). */
qn_status qn_state_join(const char *dst, const qn_manifest *settings, const atomic_bool *stop, qn_file_lock **session,
                        qn_error *err);

/* Waits until no other run has the session, and takes it alone. The run must have released its own share before. */
qn_status qn_state_close_session(const char *dst, const atomic_bool *stop, qn_file_lock **out, qn_error *err);

/* The file's lock; *out NULL when another run has it, which `holder` tells. */
qn_status qn_state_lock_file(const char *dst, const char *name, qn_file_lock **out, char holder[QN_LOCK_HOLDER_BYTES],
                             qn_error *err);

/* Is the folder of the state there? */
bool qn_state_exists(const char *dst);

/* Removes the folder of the state, with all in it: at once under another name, so that a run that joins meanwhile makes
 * its own, and finds everything done. */
qn_status qn_state_remove(const char *dst, qn_error *err);

#endif
