/* Commands that have commands of their own: `quern eval ppl`, `quern bench hw`. */
#ifndef QN_CLI_SUBCOMMAND_H
#define QN_CLI_SUBCOMMAND_H

#include <stddef.h>

typedef struct qn_subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is its name */
} qn_subcommand;

typedef struct qn_subcommands {
    const char *command;   /* "bench" */
    const char *kind;      /* what one is called: "bench" ... */
    const char *kinds;     /* ... and several: "benches" */
    const char *arguments; /* behind its name in the usage: "[options]" */
    const qn_subcommand *list;
    size_t count;
} qn_subcommands;

/* Runs the one that argv[1] names, or tells what there is. Returns the exit code. */
int qn_subcommand_run(const qn_subcommands *all, int argc, char **argv);

#endif
