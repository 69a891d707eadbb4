/* What `quern bench decode` and `quern bench prefill` share: options, a model that is given or made, what is printed.
 */
#ifndef QN_CLI_BENCH_MODEL_H
#define QN_CLI_BENCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/model_speed.h"
#include "cli/load_options.h"
#include "cli/options.h"
#include "cli/thread_options.h"

typedef struct qn_bench_model {
    qn_option_table table;
    qn_model_speed_options speed;
    const char *context, *count; /* lists; count: sequences or tokens of a prompt, by its option's name */
    const char *count_name;
    size_t most_count;
    const char *synthetic; /* a config, or a folder with one; NULL: the model is given */
    size_t layers, sparse_from, experts, vocab;
    int64_t seed;
    const char *out;
    qn_thread_flags threads;
    qn_load_flags load;
    bool json;
} qn_bench_model;

/* Adds the shared options to those that are in the table, parses, measures and prints. Returns the exit code. */
int qn_bench_model_main(qn_bench_model *bench, int argc, char **argv);

/* For people (bench_model_text.c). */
void qn_bench_model_print(const qn_model_speed *speed, const char *model);

#endif
