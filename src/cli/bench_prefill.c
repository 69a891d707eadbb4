/* `quern bench prefill`: how fast a model takes prompts, by part (bench/model_speed.h). */
#include "cli/bench.h"
#include "cli/bench_model.h"
#include "model/workspace.h"

int qn_bench_prefill(int argc, char **argv)
{
    qn_bench_model b = {
        .speed = {.kind = QN_SPEED_PREFILL, .max_rows = 512},
        .context = "0",
        .count = "128,512,2048",
        .count_name = "prompt",
        .most_count = QN_MAX_POSITIONS,
        .table = {.command = "bench prefill",
                  .arguments = "MODEL_DIR | --synthetic CONFIG_OR_DIR",
                  .summary = "Measures prompts of random tokens, in steps as the server makes them, and "
                             "the logits of the last token. Tells the time of each part of the model "
                             "beside this machine's own limits.",
                  .max_arguments = 1}};
    const qn_option options[] = {
        {.name = "prompt",
         .kind = QN_OPTION_STRING,
         .value = &b.count,
         .value_name = "LIST",
         .help = "tokens of a prompt (default: 128,512,2048, as far as the model's context goes)"},
        {.name = "context",
         .kind = QN_OPTION_STRING,
         .value = &b.context,
         .value_name = "LIST",
         .help = "tokens in the cache before it, whose rows are random (default: 0)"},
        {.name = "max-num-batched-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &b.speed.max_rows,
         .value_name = "TOKENS",
         .help = "tokens of a step at most (default: 512)",
         .min = 1,
         .max = QN_MAX_STEP_ROWS},
    };
    qn_options_add(&b.table, options, sizeof options / sizeof *options);
    return qn_bench_model_main(&b, argc, argv);
}
