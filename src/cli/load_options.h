/* --load, --pack-dense and --numa: of every command that runs a model. */
#ifndef QN_CLI_LOAD_OPTIONS_H
#define QN_CLI_LOAD_OPTIONS_H

#include "base/error.h"
#include "base/numa.h"
#include "cli/options.h"
#include "model/residence.h"

/* Start from {0} and keep it where it is: the option table points into it. */
typedef struct qn_load_flags {
    const char *load, *pack_dense, *numa;
} qn_load_flags;

void qn_load_flags_add(qn_load_flags *flags, qn_option_table *table);

typedef struct qn_load_choice {
    qn_load load;
    qn_pack_dense pack_dense;
    qn_numa numa;
} qn_load_choice;

/* After parsing. QN_USAGE: another word than those that --load or --numa has. */
qn_status qn_load_flags_read(const qn_load_flags *flags, qn_load_choice *out, qn_error *err);

#endif
