#include "cli/other_names.h"

#include <stdio.h>
#include <string.h>

/* `option` is what means the same, in commands that have it; `why` is said in the others, or where there is none. */
typedef struct other_name {
    const char *word;
    const char *option;
    const char *why;
} other_name;

static const char folder_first[] = "the model's folder is the first argument: quern COMMAND MODEL_DIR";
static const char no_download[] = "nothing is downloaded: fetch the model, and name its folder as the first argument";
static const char one_process[] = "one process computes in this version, with all CPUs: leave it out";
static const char no_gpu[] = "all layers run on CPUs: leave it out";
static const char no_gpu_memory[] = "there is no GPU memory to share out: leave it out";
static const char no_flash[] = "attention has one kernel for each instruction set: leave it out";
static const char mapped[] = "--load tells whether weights are mapped: leave it out";
static const char bf16_cache[] = "the KV cache is BF16: leave it out";
static const char always[] = "it is always so: leave it out";
static const char of_requests[] = "requests to quern serve say it: see docs/api.md";
static const char strict[] = "--cpu-binding gives each thread a CPU of its own: leave it out";
static const char of_checkpoint[] = "the checkpoint tells it: leave it out";

static const other_name names[] = {
    {"-m", NULL, folder_first},
    {"--model", NULL, folder_first},
    {"--model-path", NULL, folder_first},
    {"-hf", NULL, no_download},
    {"-hfr", NULL, no_download},
    {"--hf-repo", NULL, no_download},
    {"-mu", NULL, no_download},
    {"--model-url", NULL, no_download},
    {"-c", "max-model-len", NULL},
    {"--ctx-size", "max-model-len", NULL},
    {"-t", "threads", NULL},
    {"-tb", "threads", NULL},
    {"--threads-batch", "threads", NULL},
    {"-C", "cpu-binding", NULL},
    {"--cpu-mask", "cpu-binding", NULL},
    {"-Cr", "cpu-binding", NULL},
    {"--cpu-range", "cpu-binding", NULL},
    {"-Cb", "cpu-binding", NULL},
    {"--cpu-mask-batch", "cpu-binding", NULL},
    {"-Crb", "cpu-binding", NULL},
    {"--cpu-range-batch", "cpu-binding", NULL},
    {"--cpu-strict", NULL, strict},
    {"--cpu-strict-batch", NULL, strict},
    {"-n", "max-tokens", of_requests},
    {"--predict", "max-tokens", of_requests},
    {"--n-predict", "max-tokens", of_requests},
    {"-b", "max-num-batched-tokens", NULL},
    {"--batch-size", "max-num-batched-tokens", NULL},
    {"-ub", "max-num-batched-tokens", NULL},
    {"--ubatch-size", "max-num-batched-tokens", NULL},
    {"-np", "max-num-seqs", NULL},
    {"--parallel", "max-num-seqs", NULL},
    {"-a", "served-model-name", NULL},
    {"--alias", "served-model-name", NULL},
    {"-to", "http-timeout", NULL},
    {"--timeout", "http-timeout", NULL},
    {"--ssl-key-file", "ssl-keyfile", NULL},
    {"--ssl-cert-file", "ssl-certfile", NULL},
    {"--chat-template-file", "chat-template", NULL},
    {"--chat-template-kwargs", "default-chat-template-kwargs", NULL},
    {"--slot-save-path", "kv-store", NULL},
    {"--draft", "speculative-config", NULL},
    {"--draft-max", "speculative-config", NULL},
    {"-md", "speculative-config", NULL},
    {"--model-draft", "speculative-config", NULL},
    {"-sc", "speculative-config", NULL},
    {"-sys", "system", NULL},
    {"--system-prompt", "system", NULL},
    {"-s", "seed", of_requests},
    {"--seed", NULL, of_requests},
    {"--context-length", "max-model-len", NULL},
    {"--max-running-requests", "max-num-seqs", NULL},
    {"--chunked-prefill-size", "max-num-batched-tokens", NULL},
    {"--speculative-algorithm", "speculative-config", NULL},
    {"--speculative-num-steps", "speculative-config", NULL},
    {"--speculative-num-draft-tokens", "speculative-config", NULL},
    {"--num-speculative-tokens", "speculative-config", NULL},
    {"--temp", "temperature", of_requests},
    {"--temperature", NULL, of_requests},
    {"--top-k", NULL, of_requests},
    {"--top-p", NULL, of_requests},
    {"--min-p", NULL, of_requests},
    {"--grammar", NULL, of_requests},
    {"--grammar-file", NULL, of_requests},
    {"-j", NULL, of_requests},
    {"--json-schema", NULL, of_requests},
    {"--reasoning-budget", NULL, of_requests},
    {"--repeat-penalty", NULL, of_requests},
    {"-ngl", NULL, no_gpu},
    {"--gpu-layers", NULL, no_gpu},
    {"--n-gpu-layers", NULL, no_gpu},
    {"-ncmoe", NULL, no_gpu},
    {"--n-cpu-moe", NULL, no_gpu},
    {"-cmoe", NULL, no_gpu},
    {"--cpu-moe", NULL, no_gpu},
    {"-ot", NULL, no_gpu},
    {"--override-tensor", NULL, no_gpu},
    {"-dev", NULL, no_gpu},
    {"--device", NULL, no_gpu},
    {"-fa", NULL, no_flash},
    {"--flash-attn", NULL, no_flash},
    {"--mlock", NULL, mapped},
    {"--mmap", NULL, mapped},
    {"--no-mmap", NULL, mapped},
    {"-ctk", NULL, bf16_cache},
    {"--cache-type-k", NULL, bf16_cache},
    {"-ctv", NULL, bf16_cache},
    {"--cache-type-v", NULL, bf16_cache},
    {"-cb", NULL, always},
    {"--cont-batching", NULL, always},
    {"--enable-metrics", NULL, always},
    {"--jinja", NULL, always},
    {"--metrics", NULL, always},
    {"--reasoning-format", NULL, "reasoning is always told apart: leave it out"},
    {"-q", NULL, of_checkpoint},
    {"--mem-fraction-static", NULL, no_gpu_memory},
    {"--disable-radix-cache", NULL, "--no-enable-prefix-caching does that"},
    {"--grammar-backend", NULL, "grammars are quern's own: leave it out"},
    {"--tp", NULL, one_process},
    {"--tp-size", NULL, one_process},
    {"--dp", NULL, one_process},
    {"--dp-size", NULL, one_process},
    {"--ep-size", NULL, one_process},
    {"-dcp", NULL, one_process},
    {"-O", NULL, "nothing is compiled: leave it out"},
    {"-tp", NULL, one_process},
    {"-pp", NULL, one_process},
    {"-dp", NULL, one_process},
    {"-ep", NULL, one_process},
};

static const qn_option *find_option(const qn_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->option_count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

static const other_name *find_name(const char *word)
{
    size_t bytes = strcspn(word, "=");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i].word) == bytes && memcmp(names[i].word, word, bytes) == 0) {
            return &names[i];
        }
    }
    return NULL;
}

bool qn_other_name_advice(const qn_option_table *table, const char *word, char out[QN_OTHER_NAME_BYTES])
{
    const other_name *name = find_name(word);
    /* Programs that run no model have nothing to do with these names. */
    if (name == NULL || find_option(table, "max-model-len") == NULL) {
        return false;
    }
    const qn_option *option = name->option != NULL ? find_option(table, name->option) : NULL;
    if (option != NULL && option->kind != QN_OPTION_REFUSED) {
        snprintf(out, QN_OTHER_NAME_BYTES, "give --%s %s", option->name, option->value_name);
        return true;
    }
    if (name->why != NULL) {
        snprintf(out, QN_OTHER_NAME_BYTES, "%s", name->why);
    }
    return name->why != NULL;
}
