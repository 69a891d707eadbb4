/* The options of `vllm serve` that quern does not honour: those accepted with a notice, those refused by name.
 *
 * A `vllm serve` command line becomes a `quern serve` one, or an error that tells which of its options asks for
 * something that this version does not do. docs/cli.md lists them all. The same for the environment variables of vLLM's
 * recipes. */
#ifndef QN_CLI_VLLM_OPTIONS_H
#define QN_CLI_VLLM_OPTIONS_H

#include "cli/options.h"

/* Adds both classes to a table that has the honoured options already: a name in it is left out here. */
void qn_vllm_options_add(qn_option_table *table);

/* One log line for each variable of vLLM's recipes (VLLM_*, GLM_*, PT_HPU_*) that is set: quern reads none of them
 * but VLLM_API_KEY, for which there is no line. */
void qn_vllm_environment_notice(void);

#endif
