/* `quern bench decode`: how fast a model decodes, by part (bench/model_speed.h). */
#include "cli/bench.h"
#include "cli/bench_model.h"

enum { MOST_DRAFTS = 16 };

int qn_bench_decode(int argc, char **argv)
{
    qn_bench_model b = {
        .speed.kind = QN_SPEED_DECODE,
        .context = "0,4K,32K",
        .count = "1,2,4,8,16",
        .count_name = "batch",
        .most_count = QN_SPEED_MAX_SEQUENCES,
        .table = {.command = "bench decode",
                  .arguments = "MODEL_DIR | --synthetic CONFIG_OR_DIR",
                  .summary = "Measures steps of decoding: one token for each of some sequences with a context "
                             "each, whose cached rows are random in place of a prompt's. Tells the time of "
                             "each part of the model beside this machine's own limits.",
                  .max_arguments = 1}};
    const qn_option options[] = {
        {.name = "context",
         .kind = QN_OPTION_STRING,
         .value = &b.context,
         .value_name = "LIST",
         .help = "tokens in the cache of each sequence (default: 0,4K,32K, as far as the model's context goes)"},
        {.name = "batch",
         .kind = QN_OPTION_STRING,
         .value = &b.count,
         .value_name = "LIST",
         .help = "sequences in a step (default: 1,2,4,8,16)"},
        {.name = "drafts",
         .kind = QN_OPTION_SIZE,
         .value = &b.speed.drafts,
         .value_name = "N",
         .help = "drafted tokens of each sequence that a step verifies beside its own token (default: 0)",
         .min = 0,
         .max = MOST_DRAFTS},
    };
    qn_options_add(&b.table, options, sizeof options / sizeof *options);
    return qn_bench_model_main(&b, argc, argv);
}
