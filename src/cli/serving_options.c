#include "cli/serving_options.h"

#include <string.h>

enum {
    DEFAULT_NUM_SEQS = 16,
    MAX_NUM_SEQS = 1024,
    DEFAULT_QUEUE = 256,
    MAX_QUEUE = 65536,
    DEFAULT_LONG_PREFILL_TOKENS = 32768,
    MAX_DECODE_GAP_MS = 3600 * 1000
};

static const size_t default_store_bytes = (size_t)64 << 30;

static const char *const policies[] = {"fcfs", "priority", NULL};

static void add_scheduling(qn_serving_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "max-num-seqs",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->max_num_seqs,
         .value_name = "N",
         .help = "answers computed at once (default: 16)",
         .min = 1,
         .max = MAX_NUM_SEQS},
        {.name = "max-queue",
         .kind = QN_OPTION_INTEGER,
         .value = &flags->max_queue,
         .value_name = "N",
         .help = "answers that may wait besides; requests beyond get 503 (default: 256)",
         .min = 1,
         .max = MAX_QUEUE},
        {.name = "scheduling-policy",
         .kind = QN_OPTION_CHOICE,
         .value = &flags->scheduling_policy,
         .value_name = "POLICY",
         .help =
             "fcfs: first come, first served; priority: lower values of the requests' priority first (default: fcfs)",
         .choices = policies},
        {.name = "enable-chunked-prefill",
         .kind = QN_OPTION_FLAG,
         .value = &flags->chunked_prefill,
         .help = "long prompts are computed in chunks: always so, and cannot be turned off"},
        {.name = "long-prefill-token-threshold",
         .kind = QN_OPTION_SIZE,
         .value = &flags->long_prefill_token_threshold,
         .value_name = "TOKENS",
         .help = "most tokens of one prompt in a step while others are computed; 0: no such bound (default: 0)",
         .min = 0,
         .max = INT32_MAX},
        {.name = "long-prefill-share",
         .kind = QN_OPTION_NUMBER,
         .value = &flags->long_prefill_share,
         .value_name = "SHARE",
         .help = "most of the time that long prompts may take while answers go on, above 0, to 1 (default: 1)",
         .number_min = 1e-3,
         .number_max = 1},
        {.name = "long-prefill-min-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &flags->long_prefill_min_tokens,
         .value_name = "TOKENS",
         .help = "prompts of more tokens are long to --long-prefill-share (default: 32768)",
         .min = 0,
         .max = INT32_MAX},
        {.name = "max-decode-gap-ms",
         .kind = QN_OPTION_NUMBER,
         .value = &flags->max_decode_gap_ms,
         .value_name = "MS",
         .help = "chunks of prompts are kept so small that no answer waits longer for its next token; 0: no such bound "
                 "(default: 0)",
         .number_min = 0,
         .number_max = MAX_DECODE_GAP_MS},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
}

static void add_memory(qn_serving_flags *flags, qn_option_table *table)
{
    const qn_option options[] = {
        {.name = "kv-cache-memory",
         .kind = QN_OPTION_SIZE,
         .value = &flags->kv_cache_memory,
         .value_name = "BYTES",
         .help = "of the KV cache, such as 8G (default: what memory holds, at most --max-num-seqs full contexts)",
         .min = 1,
         .max = INT64_MAX},
        {.name = "kv-cache-memory-bytes",
         .kind = QN_OPTION_SIZE,
         .value = &flags->kv_cache_memory,
         .value_name = "BYTES",
         .help = "the same, by vLLM's name",
         .min = 1,
         .max = INT64_MAX},
        {.name = "enable-prefix-caching",
         .kind = QN_OPTION_FLAG,
         .value = &flags->prefix_caching,
         .help = "beginnings of prompts that were computed before are not computed again (default: on)"},
        {.name = "kv-store",
         .kind = QN_OPTION_STRING,
         .value = &flags->kv_store,
         .value_name = "DIR",
         .help = "keeps them in this folder too, through restarts (default: not kept)"},
        {.name = "kv-store-size",
         .kind = QN_OPTION_SIZE,
         .value = &flags->kv_store_size,
         .value_name = "BYTES",
         .help = "most bytes in that folder (default: 64G)",
         .min = 1,
         .max = INT64_MAX},
        {.name = "repetition-guard",
         .kind = QN_OPTION_STRING,
         .value = &flags->repetition_guard,
         .value_name = "REPEATS[:NGRAM]",
         .help = "ends an answer that says the same NGRAM tokens or fewer (default: 128) so many times in a row, with "
                 "finish_reason repetition (default: off)"},
    };
    qn_options_add(table, options, sizeof options / sizeof options[0]);
}

void qn_serving_flags_add(qn_serving_flags *flags, qn_option_table *table)
{
    *flags = (qn_serving_flags){
        .max_num_seqs = DEFAULT_NUM_SEQS,
        .max_queue = DEFAULT_QUEUE,
        .scheduling_policy = policies[0],
        .chunked_prefill = true,
        .long_prefill_share = 1,
        .long_prefill_min_tokens = DEFAULT_LONG_PREFILL_TOKENS,
        .prefix_caching = true,
        .kv_store_size = default_store_bytes,
    };
    add_scheduling(flags, table);
    add_memory(flags, table);
}

static qn_status check_flags(const qn_serving_flags *flags, const qn_option_table *table, qn_error *err)
{
    if (!flags->chunked_prefill) {
        return qn_fail_field(err, QN_USAGE, "enable-chunked-prefill",
                             "--no-enable-chunked-prefill: prompts are always computed in chunks: leave it out");
    }
    if (flags->kv_store != NULL && !flags->prefix_caching) {
        return qn_fail_field(err, QN_USAGE, "kv-store",
                             "--kv-store: keeps what --no-enable-prefix-caching turns off: give one of them");
    }
    if (flags->kv_store == NULL && qn_options_given(table, "kv-store-size")) {
        return qn_fail_field(err, QN_USAGE, "kv-store-size", "--kv-store-size: needs --kv-store DIR");
    }
    return QN_OK;
}

qn_status qn_serving_flags_apply(const qn_serving_flags *flags, const qn_option_table *table, qn_engine_options *out,
                                 qn_error *err)
{
    qn_status status = check_flags(flags, table, err);
    if (status == QN_OK && flags->repetition_guard != NULL) {
        status = qn_repetition_limits_parse(flags->repetition_guard, "--repetition-guard", &out->repetition, err);
    }
    out->max_num_seqs = (size_t)flags->max_num_seqs;
    out->max_queue = (size_t)flags->max_queue;
    out->kv_cache_bytes = flags->kv_cache_memory;
    out->prefault = true;
    out->prefix_caching = flags->prefix_caching;
    out->kv_store_dir = flags->kv_store;
    out->kv_store_bytes = flags->kv_store_size;
    out->fairness = (qn_fairness_limits){
        .long_prefill_token_threshold = flags->long_prefill_token_threshold,
        .long_prefill_share = flags->long_prefill_share,
        .long_prefill_min_tokens = flags->long_prefill_min_tokens,
        .max_decode_gap_us = (uint64_t)(flags->max_decode_gap_ms * 1e3),
        .by_priority = strcmp(flags->scheduling_policy, "priority") == 0,
    };
    return status;
}
