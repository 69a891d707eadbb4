/* The options of a server that computes many requests at once: how many, in which order, and what it keeps of them. */
#ifndef QN_CLI_SERVING_OPTIONS_H
#define QN_CLI_SERVING_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"
#include "engine/engine.h"

/* Keep it where it is: the option table points into it. */
typedef struct qn_serving_flags {
    int64_t max_num_seqs, max_queue;
    size_t long_prefill_token_threshold, long_prefill_min_tokens, kv_cache_memory, kv_store_size;
    double long_prefill_share, max_decode_gap_ms;
    const char *scheduling_policy, *kv_store, *repetition_guard;
    bool chunked_prefill, prefix_caching;
} qn_serving_flags;

/* Sets the defaults and adds the options to a command's table. */
void qn_serving_flags_add(qn_serving_flags *flags, qn_option_table *table);

/* After parsing: fills in what qn_engine_open wants of them. The options point into argv. QN_USAGE names the flag. */
qn_status qn_serving_flags_apply(const qn_serving_flags *flags, const qn_option_table *table, qn_engine_options *out,
                                 qn_error *err);

#endif
