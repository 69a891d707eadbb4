#include "plan/plan.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "kv/layout.h"
#include "plan/step_buffers.h"

const size_t qn_plan_contexts[QN_PLAN_CONTEXTS] = {0, 4096, 32768, 131072};
const size_t qn_plan_batches[QN_PLAN_BATCHES] = {4, 16};
const size_t qn_plan_prompts[QN_PLAN_PROMPTS] = {512, 2048, 8192};

enum { CONFIG_LIMIT_BYTES = 16 << 20 };

static const size_t parts_of_experts[] = {1, 2, 4, 8};

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static qn_status read_config(const char *path, qn_config *out, qn_error *err)
{
    char *joined = is_folder(path) ? qn_path_join(path, "config.json") : qn_strdup(path), *text = NULL;
    size_t bytes;
    if (!joined)
        return qn_fail_memory(err, "path of config.json", strlen(path));
    qn_status status = qn_file_read(joined, CONFIG_LIMIT_BYTES, &text, &bytes, err);
    if (status == QN_OK)
        status = qn_config_parse(text, bytes, joined, out, err);
    qn_free(text);
    qn_free(joined);
    return status;
}

/* The folder that `path` lies in, or `path` itself when it is one. */
static void folder_of(const char *path, char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", path);
    if (is_folder(path))
        return;
    char *slash = strrchr(out, '/');
    if (!slash)
        snprintf(out, bytes, ".");
    else
        slash[slash == out ? 1 : 0] = '\0';
}

static qn_status count_block(qn_plan *p, qn_error *err)
{
    qn_kv_layout layout;
    bool indexer[QN_MAX_LAYERS + 1];
    size_t layers = p->config.num_hidden_layers;
    memcpy(indexer, p->config.layer_has_indexer, layers * sizeof *indexer);
    size_t hidden_width = 0;
    if (p->config.num_nextn_predict_layers > 0) {
        indexer[layers++] = true;
        hidden_width = p->config.hidden_size;
    }
    qn_status status = qn_kv_layout_make(QN_DTYPE_BF16, QN_PLAN_BLOCK_TOKENS, layers,
                                         p->config.kv_lora_rank + p->config.qk_rope_head_dim, p->config.index_head_dim,
                                         hidden_width, indexer, &layout, err);
    p->kv_block_bytes = layout.block_bytes;
    return status;
}

static uint64_t tokens_in(const qn_plan *p, uint64_t bytes)
{
    return bytes / p->kv_block_bytes * QN_PLAN_BLOCK_TOKENS;
}

static qn_status fit_form(qn_plan *p, const qn_plan_options *o, qn_plan_form form, qn_error *err)
{
    qn_plan_fit *fit = &p->fit[form];
    qn_workspace_sizes sizes = {.threads = o->threads, .max_rows = p->max_rows, .max_context_tokens = p->max_model_len};
    size_t step, drafts = p->config.num_nextn_predict_layers > 0;
    qn_status status = qn_plan_step_bytes(&p->config, o->kernels, form, sizes, drafts, &step, err);
    if (status != QN_OK)
        return status;
    *fit = (qn_plan_fit){.weight_bytes = p->sizes.total.bytes[form], .step_bytes = step, .resident_share = 1};
    uint64_t needed = fit->weight_bytes + fit->step_bytes;
    fit->kv_tokens = p->usable_bytes > needed ? tokens_in(p, p->usable_bytes - needed) : 0;
    fit->fits = fit->kv_tokens > 0;
    fit->requests = (double)fit->kv_tokens / (double)p->max_model_len;
    if (!fit->fits) {
        /* buffers and cache then take a quarter (engine/memory.h), the page cache has the rest */
        double rest = (double)p->usable_bytes * 0.75 / (double)fit->weight_bytes;
        fit->resident_share = rest < 1 ? rest : 1;
    }
    return QN_OK;
}

static void lay_out(qn_plan *p, const qn_plan_options *o, qn_plan_form form)
{
    for (size_t ranks = 1; ranks <= QN_PLAN_MAX_RANKS; ranks++) {
        if (o->ranks > 0 && ranks != o->ranks)
            continue;
        for (size_t i = 0; i < sizeof parts_of_experts / sizeof *parts_of_experts; i++) {
            size_t at = p->layout_count[form];
            qn_rank_layout *l = &p->layout[form][at];
            if (!qn_rank_layout_of(&p->config, form, ranks, parts_of_experts[i], l))
                continue;
            uint64_t needed = l->bytes + p->fit[form].step_bytes;
            p->layout_kv_tokens[form][at] = p->usable_bytes > needed ? tokens_in(p, p->usable_bytes - needed) : 0;
            p->layout_count[form]++;
        }
    }
}

size_t qn_plan_smallest(const qn_plan *p, qn_plan_form form)
{
    for (size_t i = 0; i < p->layout_count[form]; i++)
        if (p->layout_kv_tokens[form][i] > 0)
            return i;
    return SIZE_MAX;
}

static void predict(qn_plan *p, const qn_plan_options *o, qn_plan_form form)
{
    qn_speed speed = {.config = &p->config, .hardware = o->hardware, .form = form};
    qn_plan_speed *out = &p->speed[form];
    for (size_t i = 0; i < QN_PLAN_CONTEXTS; i++)
        out->decode[i] = qn_speed_decode(&speed, 1, qn_plan_contexts[i], 0);
    for (size_t i = 0; i < QN_PLAN_BATCHES; i++)
        out->batch[i] = qn_speed_decode(&speed, qn_plan_batches[i], QN_PLAN_BATCH_CONTEXT, 0);
    if (p->config.num_nextn_predict_layers > 0)
        out->mtp = qn_speed_decode(&speed, 1, QN_PLAN_BATCH_CONTEXT, 1);
    for (size_t i = 0; i < QN_PLAN_PROMPTS; i++)
        out->prefill[i] = qn_speed_prefill(&speed, qn_plan_prompts[i], p->max_rows);
    double missing = (double)p->sizes.active_bytes[form] * (1 - p->fit[form].resident_share);
    double disk = o->hardware->figure[QN_FIGURE_DISK_RANDOM].median * 1e9;
    out->disk_bound_tokens = missing > 0 && disk > 0 ? disk / missing : 0;
}

static qn_status set_sizes(qn_plan *p, const qn_plan_options *o, qn_error *err)
{
    size_t trained = p->config.max_position_embeddings;
    if (o->max_model_len > trained)
        return qn_fail_field(err, QN_USAGE, "max-model-len",
                             "--max-model-len: %zu exceeds the model's max_position_embeddings: give at most %zu",
                             o->max_model_len, trained);
    if (o->ranks > p->config.num_attention_heads)
        return qn_fail_field(err, QN_USAGE, "ranks", "--ranks: %zu ranks and %zu attention heads: give at most as many",
                             o->ranks, p->config.num_attention_heads);
    p->max_model_len = o->max_model_len > 0 ? o->max_model_len : trained;
    p->max_rows = o->max_num_batched_tokens;
    p->acceptance = o->acceptance;
    qn_machine_read(o->root, &p->machine);
    p->memory_bytes = o->memory_bytes > 0 ? o->memory_bytes : p->machine.available_bytes;
    p->usable_bytes = (uint64_t)((double)p->memory_bytes * QN_USABLE_MEMORY_SHARE);
    if (o->disk)
        snprintf(p->disk_folder, sizeof p->disk_folder, "%s", o->disk);
    else
        folder_of(o->path, p->disk_folder, sizeof p->disk_folder);
    return qn_disk_space_of(p->disk_folder, &p->disk, err);
}

qn_status qn_plan_make(const qn_plan_options *options, qn_plan *out, qn_error *err)
{
    *out = (qn_plan){0};
    qn_figure missing;
    qn_status status = read_config(options->path, &out->config, err);
    if (status == QN_OK)
        status = qn_plan_count(&out->config, &out->sizes, err);
    if (status == QN_OK)
        status = count_block(out, err);
    if (status == QN_OK)
        status = set_sizes(out, options, err);
    if (status == QN_OK && options->hardware && !qn_speed_possible(options->hardware, &missing))
        status = qn_fail(err, QN_BAD_INPUT, "figures of the hardware: %s is missing: measure with quern bench hw",
                         qn_figure_describe(missing).name);
    for (qn_plan_form form = 0; form < QN_PLAN_FORMS && status == QN_OK; form++) {
        status = fit_form(out, options, form, err);
        if (status == QN_OK) {
            lay_out(out, options, form);
            if (options->hardware)
                predict(out, options, form);
        }
    }
    out->predicts = options->hardware != NULL;
    return status;
}
