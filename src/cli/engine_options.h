/* The options of every command that runs a model: one table for run, serve and eval. */
#ifndef QN_CLI_ENGINE_OPTIONS_H
#define QN_CLI_ENGINE_OPTIONS_H

#include <stdbool.h>

#include "cli/load_options.h"
#include "cli/options.h"
#include "cli/thread_options.h"
#include "engine/engine.h"

/* Start from {0} and keep it where it is: the option table points into it. */
typedef struct qn_engine_flags {
    size_t max_model_len, max_num_batched_tokens, block_size, dsa_dense_below, expert_cache;
    double mla_norm_eps;
    json_t *speculative_config, *override_generation_config, *default_chat_template_kwargs;
    const char *chat_template;
    qn_thread_flags threads;
    qn_load_flags load;
    bool trust_content_tokens;
} qn_engine_flags;

/* Adds the options to a command's table. with_text: those of the chat template and of sampling defaults too. */
void qn_engine_flags_add(qn_engine_flags *flags, qn_option_table *table, bool with_text);

/* After parsing: what qn_engine_open wants, for the model directory in the table's first argument. The options point
 * into flags. QN_USAGE for a --speculative-config that asks for what there is not. */
qn_status qn_engine_flags_options(const qn_engine_flags *flags, const qn_option_table *table, qn_engine_options *out,
                                  qn_error *err);

/* A log line for each of --default-chat-template-kwargs that the engine's template never reads. */
void qn_engine_flags_tell_unread(const qn_engine_flags *flags, const qn_engine *engine);

void qn_engine_flags_free(qn_engine_flags *flags);

#endif
