/* What `quern run` was asked for, shared by its single answers (run.c) and its chat (chat.c). */
#ifndef QN_CLI_RUN_OPTIONS_H
#define QN_CLI_RUN_OPTIONS_H

#include "cli/engine_options.h"
#include "cli/options.h"
#include "engine/engine.h"

typedef struct qn_run_options {
    qn_option_table table;
    qn_engine_flags engine;
    const char *prompt, *system, *history;
    qn_string_list stop;
    double temperature, top_p, min_p;
    int64_t top_k, seed;
    size_t max_tokens;
    bool raw, json, show_thinking;
} qn_run_options;

/* The checkpoint's sampling under what was given; a seed drawn by lot unless it was given. QN_USAGE out of range. */
qn_status qn_run_sampling(const qn_run_options *options, const qn_engine *engine, qn_sampling *out, qn_error *err);

/* The ids of a conversation, ready for an answer. */
qn_status qn_run_prompt(const qn_run_options *options, const qn_engine *engine, const json_t *messages, qn_tokens *out,
                        qn_error *err);

/* The request for these ids, with everything but sampling as the options say; it points into both. */
qn_request qn_run_request(const qn_run_options *options, const qn_engine *engine, const qn_tokens *prompt);

/* A message of a role; text that is not UTF-8 is a QN_USAGE error. */
qn_status qn_run_add_message(json_t *messages, const char *role, const char *text, size_t bytes, qn_error *err);

/* The conversation on the terminal, to its end. */
qn_status qn_run_chat(const qn_run_options *options, qn_engine *engine, qn_error *err);

#endif
