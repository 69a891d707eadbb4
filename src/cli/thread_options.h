/* --threads and --cpu-binding: of every command that runs a model. */
#ifndef QN_CLI_THREAD_OPTIONS_H
#define QN_CLI_THREAD_OPTIONS_H

#include <stddef.h>

#include "cli/options.h"

/* Start from {0} and keep it where it is: the option table points into it. */
typedef struct qn_thread_flags {
    size_t threads;          /* 0: not said */
    const char *cpu_binding; /* as base/cpu_binding.h has it; NULL: not said */
} qn_thread_flags;

void qn_thread_flags_add(qn_thread_flags *flags, qn_option_table *table);

#endif
