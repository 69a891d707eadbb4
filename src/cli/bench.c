/* `quern bench`: measures speed. Each bench is a file of its own. */
#include "cli/bench.h"

#include "cli/command.h"
#include "cli/subcommand.h"

static int command_main(int argc, char **argv)
{
    static const qn_subcommand benches[] = {
        {"hw", "measure this machine: memory, arithmetic, quern's kernels, a disk", qn_bench_hw},
        {"kernels", "measure quern's kernels beside this machine's limits, every table on real shapes",
         qn_bench_kernels},
        {"decode", "measure decoding by part of the model, beside this machine's limits", qn_bench_decode},
        {"prefill", "measure prompts by part of the model, beside this machine's limits", qn_bench_prefill},
        {"grammar", "measure structured output: compiling grammars, making token masks", qn_bench_grammar},
        {"serve", "measure a chat server under load: throughput, waiting, long prompts, overload", qn_bench_serve},
    };
    const qn_subcommands all = {.command = "bench",
                                .kind = "bench",
                                .kinds = "benches",
                                .arguments = "[options]",
                                .list = benches,
                                .count = sizeof benches / sizeof *benches};
    return qn_subcommand_run(&all, argc, argv);
}

const qn_command qn_bench_command = {.name = "bench", .summary = "measure speed", .run = command_main};
