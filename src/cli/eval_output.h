/* The files that measurements write: `eval logits --out`, `eval ppl --collect`. */
#ifndef QN_CLI_EVAL_OUTPUT_H
#define QN_CLI_EVAL_OUTPUT_H

#include "base/error.h"

/* The file `out`, given by --OPTION, must not replace what the command reads: a file of the model's folder, or `input`
 * (NULL: there is none). QN_USAGE with the option as field. A folder that cannot be listed is left to the engine, which
 * tells what is wrong with it. */
qn_status qn_check_output(const char *option, const char *out, const char *model_dir, const char *input, qn_error *err);

#endif
