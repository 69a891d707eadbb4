#include "cli/vllm_options.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"

static const char *const one[] = {"1", NULL};
static const char *const zero[] = {"0", NULL};
static const char *const bfloat16[] = {"bfloat16", "auto", NULL};
static const char *const auto_only[] = {"auto", NULL};
static const char *const weights[] = {"auto", "safetensors", NULL};
static const char *const formats[] = {"auto", "hf", NULL};
static const char *const generate[] = {"generate", "auto", NULL};
static const char *const glm[] = {"glm45", "glm47", NULL};
static const char *const local[] = {"mp", "uni", NULL};
static const char *const implementations[] = {"auto", "vllm", NULL};
static const char *const raw_logprobs[] = {"raw_logprobs", NULL};
static const char *const most_logprobs[] = {"20", NULL};
static const char *const quantisations[] = {"mxfp4", "compressed-tensors", "quark", "gpt_oss_mxfp4", NULL};

static const char *const assistant[] = {"assistant", NULL};
static const char *const backends[] = {"auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer", NULL};

static const char later[] = "not in this version";
static const char no_gpu[] = "there is no GPU memory to share out";
static const char no_graph[] = "nothing is compiled or captured";
static const char own_kernels[] = "each instruction set has one kernel for it";
static const char no_code[] = "a checkpoint's code is never run";
static const char from_disk[] = "weights are taken from the model's folder as they are; see --load";
static const char own_grammars[] = "grammars are quern's own";
static const char no_python[] = "there is no Python server";

/* Without an effect, and without a change to any answer. */
static const qn_option notices[] = {
    {.name = "trust-remote-code", .help = no_code},
    {.name = "gpu-memory-utilization", .value_name = "F", .help = no_gpu},
    {.name = "max-cudagraph-capture-size", .value_name = "N", .help = no_graph},
    {.name = "cuda-graph-sizes", .value_name = "N", .help = no_graph},
    {.name = "max-seq-len-to-capture", .value_name = "N", .help = no_graph},
    {.name = "compilation-config", .value_name = "JSON", .help = no_graph},
    {.name = "enforce-eager", .help = no_graph},
    {.name = "optimization-level", .value_name = "N", .help = no_graph},
    {.name = "attention-backend", .value_name = "NAME", .help = own_kernels},
    {.name = "moe-backend", .value_name = "NAME", .help = own_kernels},
    {.name = "disable-cascade-attn", .help = own_kernels},
    {.name = "dtype", .value_name = "TYPE", .help = "weights compute in BF16 with float32 sums", .choices = bfloat16},
    {.name = "reasoning-parser", .value_name = "NAME", .help = "GLM's reasoning is always split off", .choices = glm},
    {.name = "enable-reasoning", .help = "GLM's reasoning is always split off"},
    {.name = "tool-call-parser", .value_name = "NAME", .help = "GLM's calls are always told apart", .choices = glm},
    {.name = "enable-auto-tool-choice", .help = "tool_choice auto always works"},
    {.name = "exclude-tools-when-tool-choice-none", .help = "the model sees no tools then"},
    {.name = "guided-decoding-backend", .value_name = "NAME", .help = own_grammars, .choices = backends},
    {.name = "async-scheduling", .help = "scheduling changes no result"},
    {.name = "disable-custom-all-reduce", .help = "there is one process"},
    {.name = "max-parallel-loading-workers", .value_name = "N", .help = from_disk},
    {.name = "load-format", .value_name = "FORMAT", .help = from_disk, .choices = weights},
    {.name = "safetensors-load-strategy", .value_name = "NAME", .help = from_disk},
    {.name = "model-impl", .value_name = "NAME", .help = "the model is quern's own", .choices = implementations},
    {.name = "language-model-only", .help = "the models are text models"},
    {.name = "use-tqdm-on-load", .help = "what lasts always tells its progress"},
    {.name = "config-format", .value_name = "FORMAT", .help = "config.json is read", .choices = formats},
    {.name = "tokenizer-mode", .value_name = "MODE", .help = "tokenizer.json is read", .choices = auto_only},
    {.name = "runner", .value_name = "RUNNER", .help = "models generate", .choices = generate},
    {.name = "task", .value_name = "TASK", .help = "models generate", .choices = generate},
    {.name = "distributed-executor-backend", .value_name = "B", .help = "there is one process", .choices = local},
    {.name = "quantization", .value_name = "Q", .help = "the checkpoint tells it", .choices = quantisations},
    {.name = "uvicorn-log-level", .value_name = "LEVEL", .help = no_python},
    {.name = "disable-uvicorn-access-log", .help = "requests are logged with --log-requests only"},
    {.name = "disable-log-requests", .help = "requests are logged with --log-requests only"},
    {.name = "disable-log-stats", .help = "no statistics are logged"},
    {.name = "enable-server-load-tracking", .help = "GET /load always tells it"},
    {.name = "disable-fastapi-docs", .help = no_python},
};

/* An error, but for the values that ask for what quern does anyway. */
static const qn_option refused[] = {
    {.name = "model", .value_name = "DIR", .help = "the model's folder is the first argument: quern serve MODEL_DIR"},
    {.name = "tensor-parallel-size", .value_name = "N", .help = later, .choices = one},
    {.name = "pipeline-parallel-size", .value_name = "N", .help = later, .choices = one},
    {.name = "data-parallel-size", .value_name = "N", .help = later, .choices = one},
    {.name = "data-parallel-rank", .value_name = "N", .help = later},
    {.name = "data-parallel-size-local", .value_name = "N", .help = later, .choices = one},
    {.name = "data-parallel-address", .value_name = "HOST", .help = later},
    {.name = "data-parallel-rpc-port", .value_name = "N", .help = later},
    {.name = "decode-context-parallel-size", .value_name = "N", .help = later, .choices = one},
    {.name = "prefill-context-parallel-size", .value_name = "N", .help = later, .choices = one},
    {.name = "api-server-count", .value_name = "N", .help = "one process answers", .choices = one},
    {.name = "stream-interval", .value_name = "N", .help = later, .choices = one},
    {.name = "enable-expert-parallel", .help = later},
    {.name = "enable-eplb", .help = later},
    {.name = "prefix-caching-hash-algo", .value_name = "ALGO", .help = later},
    {.name = "kv-cache-dtype", .value_name = "TYPE", .help = later, .choices = bfloat16},
    {.name = "kv-transfer-config", .value_name = "JSON", .help = later},
    {.name = "kv-events-config", .value_name = "JSON", .help = later},
    {.name = "cpu-offload-gb", .value_name = "N", .help = later, .choices = zero},
    {.name = "swap-space", .value_name = "N", .help = later, .choices = zero},
    {.name = "num-gpu-blocks-override", .value_name = "N", .help = later},
    {.name = "max-num-partial-prefills", .value_name = "N", .help = later, .choices = one},
    {.name = "max-long-partial-prefills", .value_name = "N", .help = later, .choices = one},
    {.name = "tool-parser-plugin", .value_name = "FILE", .help = no_python},
    {.name = "tool-server", .value_name = "URL", .help = later},
    {.name = "reasoning-parser-plugin", .value_name = "FILE", .help = no_python},
    {.name = "structured-outputs-config", .value_name = "JSON", .help = own_grammars},
    {.name = "max-logprobs", .value_name = "N", .help = later, .choices = most_logprobs},
    {.name = "logprobs-mode", .value_name = "MODE", .help = later, .choices = raw_logprobs},
    {.name = "root-path", .value_name = "PATH", .help = later},
    {.name = "enable-ssl-refresh", .help = "certificates are read at the start"},
    {.name = "enable-request-id-headers", .help = later},
    {.name = "enable-force-include-usage", .help = later},
    {.name = "return-tokens-as-token-ids", .help = later},
    {.name = "response-role", .value_name = "ROLE", .help = later, .choices = assistant},
    {.name = "chat-template-content-format", .value_name = "FORMAT", .help = later, .choices = auto_only},
    {.name = "enable-lora", .help = later},
    {.name = "lora-modules", .value_name = "NAME=PATH", .help = later},
    {.name = "middleware", .value_name = "NAME", .help = no_python},
    {.name = "logits-processors", .value_name = "NAME", .help = no_python},
    {.name = "generation-config", .value_name = "WHERE", .help = later, .choices = auto_only},
    {.name = "hf-overrides", .value_name = "JSON", .help = later},
    {.name = "tokenizer", .value_name = "DIR", .help = later},
    {.name = "revision", .value_name = "R", .help = "models are folders: nothing is downloaded"},
    {.name = "tokenizer-revision", .value_name = "R", .help = "models are folders: nothing is downloaded"},
    {.name = "download-dir", .value_name = "DIR", .help = "models are folders: nothing is downloaded"},
    {.name = "hf-token", .value_name = "TOKEN", .help = "models are folders: nothing is downloaded"},
    {.name = "seed", .value_name = "N", .help = "each request has its own seed, told in its timings"},
    {.name = "limit-mm-per-prompt", .value_name = "JSON", .help = "the models are text models"},
    {.name = "additional-config", .value_name = "JSON", .help = later},
    {.name = "config", .value_name = "FILE", .help = later},
};

static bool has_option(const qn_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->option_count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void add_class(qn_option_table *table, const qn_option *options, size_t count, qn_option_kind kind)
{
    for (size_t i = 0; i < count; i++) {
        qn_option option = options[i];
        option.kind = kind;
        if (!has_option(table, option.name)) {
            qn_options_add(table, &option, 1);
        }
    }
}

void qn_vllm_options_add(qn_option_table *table)
{
    add_class(table, notices, sizeof notices / sizeof notices[0], QN_OPTION_NOTICE);
    add_class(table, refused, sizeof refused / sizeof refused[0], QN_OPTION_REFUSED);
}

void qn_vllm_environment_notice(void)
{
    static const char *const prefixes[] = {"VLLM_", "GLM_", "PT_HPU_"};
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
            bool read = strncmp(*at, "VLLM_API_KEY=", strlen("VLLM_API_KEY=")) == 0; /* cli/security_options.c */
            if (strncmp(*at, prefixes[i], strlen(prefixes[i])) == 0 && !read) {
                qn_log("%.*s: this environment variable has no effect: leave it out (docs/cli.md tells what stands for "
                       "those of "
                       "recipes)",
                       (int)strcspn(*at, "="), *at);
            }
        }
    }
}
