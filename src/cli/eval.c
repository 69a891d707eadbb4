/* `quern eval`: measures a model. Each measurement is a file of its own. */
#include "cli/eval.h"

#include "cli/command.h"
#include "cli/subcommand.h"

static int command_main(int argc, char **argv)
{
    static const qn_subcommand measurements[] = {
        {"kl", "measure how far one checkpoint's predictions are from another's", qn_eval_kl},
        {"logits", "write logits and inner values for given tokens to a safetensors file", qn_eval_logits},
        {"ppl", "measure the perplexity of a text", qn_eval_ppl},
    };
    const qn_subcommands all = {.command = "eval",
                                .kind = "measurement",
                                .kinds = "measurements",
                                .arguments = "MODEL_DIR ... [options]",
                                .list = measurements,
                                .count = sizeof measurements / sizeof *measurements};
    return qn_subcommand_run(&all, argc, argv);
}

const qn_command qn_eval_command = {.name = "eval", .summary = "measure a model", .run = command_main};
