/* --load and --pack-dense: of every command that runs a model. */
#ifndef QN_CLI_LOAD_OPTIONS_H
#define QN_CLI_LOAD_OPTIONS_H

#include "base/error.h"
#include "cli/options.h"
#include "model/residence.h"

/* Start from {0} and keep it where it is: the option table points into it. */
typedef struct qn_load_flags {
    const char *load, *pack_dense;
} qn_load_flags;

void qn_load_flags_add(qn_load_flags *flags, qn_option_table *table);

/* After parsing. QN_USAGE: another word than those that --load has. */
qn_status qn_load_flags_read(const qn_load_flags *flags, qn_load *load, qn_pack_dense *pack_dense, qn_error *err);

#endif
