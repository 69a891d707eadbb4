/* `quern eval`: measures a model. Finds the measurement and runs it. */
#include "cli/eval.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} measurements[] = {
    {"kl", "measure how far one checkpoint's predictions are from another's", qn_eval_kl},
    {"logits", "write logits and inner values for given tokens to a safetensors file", qn_eval_logits},
    {"ppl", "measure the perplexity of a text", qn_eval_ppl},
};

enum { COUNT = sizeof measurements / sizeof *measurements };

static void print_help(FILE *out)
{
    fputs("usage: quern eval MEASUREMENT MODEL_DIR ... [options]\n\nmeasurements:\n", out);
    for (size_t i = 0; i < COUNT; i++) {
        fprintf(out, "  %-8s %s\n", measurements[i].name, measurements[i].summary);
    }
    fputs("\nquern eval MEASUREMENT --help tells its options.\n", out);
}

static int unknown(const char *name)
{
    const char *names[COUNT];
    qn_error err;
    for (size_t i = 0; i < COUNT; i++) {
        names[i] = measurements[i].name;
    }
    const char *near = qn_nearest_name(name, names, COUNT);
    if (near != NULL) {
        qn_fail(&err, QN_USAGE, "eval %s: no such measurement: did you mean '%s'?", name, near);
    } else {
        qn_fail(&err, QN_USAGE, "eval %s: no such measurement: quern eval --help lists them", name);
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
        if (strcmp(argv[1], measurements[i].name) == 0) {
            return measurements[i].run(argc - 1, argv + 1);
        }
    }
    return unknown(argv[1]);
}

const qn_command qn_eval_command = {.name = "eval", .summary = "measure a model", .run = command_main};
