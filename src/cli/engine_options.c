#include "cli/engine_options.h"

#include <string.h>

#include "base/json.h"
#include "base/log.h"

static const char *const what_fits[] = {"auto", "-1", NULL}; /* as vLLM says it */

void qn_engine_flags_add(qn_engine_flags *flags, qn_option_table *table, bool with_text)
{
    const qn_option model[] = {
        {.name = "max-model-len",
         .kind = QN_OPTION_SIZE,
         .value = &flags->max_model_len,
         .value_name = "TOKENS",
         .help = "tokens of context, prompt and answer together; the KV cache is sized for it (default: auto: the "
                 "model's max_position_embeddings, or what memory holds)",
         .min = 2,
         .max = INT32_MAX,
         .choices = what_fits},
        {.name = "max-num-batched-tokens",
         .kind = QN_OPTION_SIZE,
         .value = &flags->max_num_batched_tokens,
         .value_name = "TOKENS",
         .help = "tokens computed in one step, of prompts, answers and drafts together (default: 512)",
         .min = 1,
         .max = QN_ENGINE_MAX_ROWS},
        {.name = "block-size",
         .kind = QN_OPTION_SIZE,
         .value = &flags->block_size,
         .value_name = "TOKENS",
         .help = "tokens of a KV cache block, a power of two (default: 128)",
         .min = 16,
         .max = 1024},
        {.name = "speculative-config",
         .kind = QN_OPTION_JSON,
         .value = &flags->speculative_config,
         .value_name = "JSON",
         .help = "drafts by the model's MTP layer: '{\"method\": \"mtp\", \"num_speculative_tokens\": 1}'; changes the "
                 "speed, never the answer (default: off)"},
        {.name = "mla-norm-eps",
         .kind = QN_OPTION_NUMBER,
         .value = &flags->mla_norm_eps,
         .value_name = "EPS",
         .help = "epsilon of q_a_layernorm and kv_a_layernorm (default: 1e-6, as transformers; vLLM uses rms_norm_eps)",
         .number_min = 1e-12,
         .number_max = 1e-2},
        {.name = "dsa-dense-below",
         .kind = QN_OPTION_SIZE,
         .value = &flags->dsa_dense_below,
         .value_name = "KEYS",
         .help = "a query with at most so many keys attends to all of them, not to its index_topk best (default: 0)"},
        {.name = "expert-cache",
         .kind = QN_OPTION_SIZE,
         .value = &flags->expert_cache,
         .value_name = "BYTES",
         .help = "routed experts stay on the disk, and so much memory, such as 48G, holds those used most; for a "
                 "machine whose memory does not hold the model (default: off)",
         .min = 1,
         .max = INT64_MAX},
    };
    const qn_option text[] = {
        {.name = "chat-template",
         .kind = QN_OPTION_STRING,
         .value = &flags->chat_template,
         .value_name = "FILE",
         .help = "a Jinja template in place of the checkpoint's own"},
        {.name = "default-chat-template-kwargs",
         .kind = QN_OPTION_JSON,
         .value = &flags->default_chat_template_kwargs,
         .value_name = "JSON",
         .help = "variables for the chat template, such as '{\"reasoning_effort\": \"low\"}'"},
        {.name = "trust-content-tokens",
         .kind = QN_OPTION_FLAG,
         .value = &flags->trust_content_tokens,
         .help = "lets text of a message that spells a special token become that token"},
        {.name = "override-generation-config",
         .kind = QN_OPTION_JSON,
         .value = &flags->override_generation_config,
         .value_name = "JSON",
         .help = "over the checkpoint's generation_config.json: temperature, top_p, top_k, min_p, "
                 "repetition_penalty, presence_penalty, frequency_penalty, do_sample, eos_token_id"},
    };
    qn_thread_flags_add(&flags->threads, table);
    qn_load_flags_add(&flags->load, table);
    qn_options_add(table, model, sizeof model / sizeof *model);
    if (with_text) {
        qn_options_add(table, text, sizeof text / sizeof *text);
    }
}

static qn_status read_speculative_config(const json_t *config, int *num_speculative_tokens, qn_error *err)
{
    static const char option[] = "speculative-config";
    const char *key;
    json_t *value;
    bool has_method = false;
    json_object_foreach((json_t *)config, key, value)
    {
        if (strcmp(key, "method") == 0) {
            if (!json_is_string(value) || strcmp(json_string_value(value), "mtp") != 0) {
                return qn_fail_field(err, QN_USAGE, option,
                                     "--speculative-config: method: only \"mtp\" is supported: "
                                     "give {\"method\": \"mtp\", \"num_speculative_tokens\": 1}");
            }
            has_method = true;
        } else if (strcmp(key, "num_speculative_tokens") == 0) {
            json_int_t count = json_integer_value(value);
            if (!json_is_integer(value) || count < 1 || count > QN_MAX_SPECULATIVE_TOKENS) {
                return qn_fail_field(err, QN_USAGE, option,
                                     "--speculative-config: num_speculative_tokens: give a number from 1 to %d",
                                     QN_MAX_SPECULATIVE_TOKENS);
            }
            *num_speculative_tokens = (int)count;
        } else {
            return qn_fail_field(err, QN_USAGE, option,
                                 "--speculative-config: %s: not supported: give method and num_speculative_tokens",
                                 key);
        }
    }
    if (!has_method || *num_speculative_tokens == 0) {
        return qn_fail_field(err, QN_USAGE, option,
                             "--speculative-config: needs both \"method\": \"mtp\" and num_speculative_tokens");
    }
    return QN_OK;
}

qn_status qn_engine_flags_options(const qn_engine_flags *flags, const qn_option_table *table, qn_engine_options *out,
                                  qn_error *err)
{
    *out = (qn_engine_options){.model_dir = table->argument[0],
                               .chat_template = flags->chat_template,
                               .threads = flags->threads.threads,
                               .cpu_binding = flags->threads.cpu_binding,
                               .max_model_len = flags->max_model_len,
                               .max_num_batched_tokens = flags->max_num_batched_tokens,
                               .block_size = flags->block_size,
                               .mla_norm_eps = (float)flags->mla_norm_eps,
                               .dsa_dense_below = flags->dsa_dense_below,
                               .expert_cache_bytes = flags->expert_cache,
                               .trust_content_tokens = flags->trust_content_tokens,
                               .override_generation_config = flags->override_generation_config};
    qn_load_choice choice = {0};
    qn_status status = qn_load_flags_read(&flags->load, &choice, err);
    out->load = choice.load;
    out->pack_dense = choice.pack_dense;
    out->numa = choice.numa;
    return flags->speculative_config == NULL || status != QN_OK
               ? status
               : read_speculative_config(flags->speculative_config, &out->num_speculative_tokens, err);
}

void qn_engine_flags_tell_unread(const qn_engine_flags *flags, const qn_engine *engine)
{
    const char *name;
    json_t *value;
    json_object_foreach(flags->default_chat_template_kwargs, name, value)
    {
        if (!qn_chat_reads(qn_engine_chat(engine), name)) {
            qn_log("--default-chat-template-kwargs: %s: the chat template never reads it: it changes nothing", name);
        }
    }
}

void qn_engine_flags_free(qn_engine_flags *flags)
{
    json_decref(flags->speculative_config);
    json_decref(flags->override_generation_config);
    json_decref(flags->default_chat_template_kwargs);
    *flags = (qn_engine_flags){0};
}
