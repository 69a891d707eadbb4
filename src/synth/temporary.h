/* A random checkpoint for the time of one run, in a folder of its own below the system's for temporary files. */
#ifndef QN_SYNTH_TEMPORARY_H
#define QN_SYNTH_TEMPORARY_H

#include "base/error.h"
#include "synth/synth.h"

enum { QN_TEMPORARY_PATH_BYTES = 4096 };

/* Makes a folder below $TMPDIR, or /tmp without that, and writes the checkpoint into it, without any text files;
 * options->destination is not looked at. After a failure nothing is left. Whatever ends the process before
 * qn_synth_temporary_remove leaves it. */
qn_status qn_synth_temporary(const qn_synth_options *options, char path[QN_TEMPORARY_PATH_BYTES], qn_synth_result *out,
                             qn_error *err);

/* The folder with what is in it; a folder in it stays, and the folder with it. "" is fine. */
void qn_synth_temporary_remove(const char *path);

#endif
