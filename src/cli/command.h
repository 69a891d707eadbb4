/* The commands of `quern`: one file each, one entry each.
 *
 * A command is a constant that its file defines and main.c's table lists. `run` gets the arguments from the command's
 * own name on (argv[0] is "serve"), does its work, and returns the exit code: a qn_status other than QN_CANCELLED.
 * Results go to stdout, everything else to stderr as "quern: what: why: what to do" (base/log.h). Nobody but main
 * calls exit. main has called qn_json_init and ignores SIGPIPE, so that a closed pipe is an error of a write;
 * after `run` it flushes stdout and turns a failed write into an error, so that a command may use stdio and check
 * nothing, unless it writes for long: then it asks qn_stdout_check now and then and stops. */
#ifndef QN_CLI_COMMAND_H
#define QN_CLI_COMMAND_H

#include "base/error.h"

typedef struct qn_command {
    const char *name;
    const char *summary; /* one line for `quern --help` */
    int (*run)(int argc, char **argv);
} qn_command;

extern const qn_command qn_convert_command, qn_run_command, qn_inspect_command, qn_eval_command, qn_serve_command,
    qn_text_command, qn_bench_command, qn_plan_command, qn_synth_command;

/* Prints the error as a line on stderr and returns its exit code. */
int qn_command_fail(const qn_error *err);

/* Flushes stdout; QN_RESOURCE when what was written so far did not arrive (disk full, reader gone). */
qn_status qn_stdout_check(qn_error *err);

#endif
