/* `quern bench`: measures speed. Finds the bench and runs it. */
#include "cli/bench.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} benches[] = {
    {"hw", "measure this machine: memory, arithmetic, quern's kernels, a disk", qn_bench_hw},
};

enum { COUNT = sizeof benches / sizeof *benches };

/* Benches that quern's documents speak of and this version does not have. */
static const char *const later[] = {"kernels", "decode", "prefill", "serve"};

static void print_help(FILE *out)
{
    fputs("usage: quern bench BENCH [options]\n\nbenches:\n", out);
    for (size_t i = 0; i < COUNT; i++) {
        fprintf(out, "  %-8s %s\n", benches[i].name, benches[i].summary);
    }
    fputs("\nquern bench BENCH --help tells its options.\n", out);
}

static int unknown(const char *name)
{
    const char *names[COUNT];
    qn_error err;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (strcmp(name, later[i]) == 0) {
            qn_fail(&err, QN_USAGE, "bench %s: not in this version: see quern bench --help for the benches there are",
                    name);
            return qn_command_fail(&err);
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = benches[i].name;
    }
    const char *near = qn_nearest_name(name, names, COUNT);
    if (near != NULL) {
        qn_fail(&err, QN_USAGE, "bench %s: no such bench: did you mean '%s'?", name, near);
    } else {
        qn_fail(&err, QN_USAGE, "bench %s: no such bench: quern bench --help lists them", name);
    }
    return qn_command_fail(&err);
}

static int command_main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return QN_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(stdout);
        return QN_OK;
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(argv[1], benches[i].name) == 0) {
            return benches[i].run(argc - 1, argv + 1);
        }
    }
    return unknown(argv[1]);
}

const qn_command qn_bench_command = {.name = "bench", .summary = "measure speed", .run = command_main};
