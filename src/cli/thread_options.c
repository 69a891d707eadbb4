#include "cli/thread_options.h"

#include "base/pool.h"

void qn_thread_flags_add(qn_thread_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "threads",
         .kind = QN_OPTION_SIZE,
         .value = &flags->threads,
         .value_name = "N",
         .help = "threads that compute (default: all CPUs, or what a CPU quota pays for)",
         .min = 1,
         .max = QN_POOL_MAX_THREADS},
        {.name = "cpu-binding",
         .kind = QN_OPTION_STRING,
         .value = &flags->cpu_binding,
         .value_name = "CPUS",
         .help = "binds the threads that compute to CPUs: \"auto\", a core each; a list such as 0-3,8, a CPU each; for "
                 "a machine that does nothing else (default: none)"},
    };
    qn_options_add(table, options, sizeof options / sizeof *options);
}
