/* `quern inspect DIR`: what a checkpoint is, and whether it is whole. Every check of a load is made (the same code
 * takes the tensors), so a checkpoint that is inspected without an error can be run. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "checkpoint/summary.h"
#include "cli/command.h"
#include "cli/options.h"
#include "model/weights.h"

enum { TEXT_BYTES = 32, LAYERS_A_LINE = 50, LAYERS_A_GROUP = 10 };

/* "1.23 GiB", four significant places at most. Returns out. */
static const char *bytes_text(uint64_t bytes, char out[TEXT_BYTES])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(out, TEXT_BYTES, "%.*f %s", unit == 0 ? 0 : value < 10 ? 2 : 1, value, units[unit]);
    return out;
}

/* "753.3 B". Returns out. */
static const char *count_text(uint64_t count, char out[TEXT_BYTES])
{
    static const char *const units[] = {"", " k", " M", " B", " T"};
    double value = (double)count;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1000;
        unit++;
    }
    snprintf(out, TEXT_BYTES, "%.*f%s", unit == 0 ? 0 : value < 10 ? 2 : 1, value, units[unit]);
    return out;
}

static void print_config(const qn_config *c)
{
    printf("  hidden       %zu, %zu layers%s, vocabulary %zu\n", c->hidden_size, c->num_hidden_layers,
           c->num_nextn_predict_layers ? " and an MTP layer" : "", c->vocab_size);
    printf("  attention    %zu heads: nope %zu, RoPE %zu, value %zu; ranks: query %zu, KV %zu\n",
           c->num_attention_heads, c->qk_nope_head_dim, c->qk_rope_head_dim, c->v_head_dim, c->q_lora_rank,
           c->kv_lora_rank);
    printf("  indexer      %zu heads of %zu, top %zu keys\n", c->index_n_heads, c->index_head_dim, c->index_topk);
    printf("  experts      %zu, of which %zu a token", c->n_routed_experts, c->num_experts_per_tok);
    if (c->n_group > 1)
        printf(" from %zu of %zu groups", c->topk_group, c->n_group);
    printf(", and %zu shared; inner %zu (dense layers %zu)\n", c->n_shared_experts, c->moe_intermediate_size,
           c->intermediate_size);
    printf("  positions    %zu, RoPE theta %.10g", c->max_position_embeddings, c->rope.rope_theta);
    if (c->rope.rope_type == QN_ROPE_YARN)
        printf(", YaRN factor %g from %zu", c->rope.factor, c->rope.original_max_position_embeddings);
    printf("\n");
}

/* One character a layer, in groups of ten. */
static void print_layer_line(const char *label, const bool *is, char yes, char no, size_t first, size_t last)
{
    printf("  %-13s", label);
    for (size_t i = first; i < last; i++)
        printf("%s%c", i > first && i % LAYERS_A_GROUP == 0 ? " " : "", is[i] ? yes : no);
    printf("\n");
}

static void print_layers(const qn_config *c)
{
    printf("\n  layers       E experts, d dense; I an indexer of its own, - shares the one before\n");
    for (size_t first = 0; first < c->num_hidden_layers; first += LAYERS_A_LINE) {
        size_t last = first + LAYERS_A_LINE < c->num_hidden_layers ? first + LAYERS_A_LINE : c->num_hidden_layers;
        char label[TEXT_BYTES];
        snprintf(label, sizeof label, "%4zu to %zu", first, last - 1);
        print_layer_line(label, c->layer_is_sparse, 'E', 'd', first, last);
        print_layer_line("", c->layer_has_indexer, 'I', '-', first, last);
    }
}

/* "MXFP4 98.1 %, BF16 1.9 %": nothing that is there shows as 0, nothing partial as 100. */
static void print_shares(const qn_kind_summary *k)
{
    static const qn_dtype order[] = {QN_DTYPE_MXFP4, QN_DTYPE_BF16, QN_DTYPE_F16,
                                     QN_DTYPE_F32,   QN_DTYPE_U8,   QN_DTYPE_I32};
    bool first = true;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        uint64_t part = k->dtype[order[i]];
        if (part == 0)
            continue;
        double share = 100.0 * (double)part / (double)k->bytes;
        printf("%s%s", first ? "" : ", ", qn_dtype_name(order[i]));
        if (part != k->bytes && share < 0.1)
            printf(" <0.1 %%");
        else if (part != k->bytes && share > 99.9)
            printf(" >99.9 %%");
        else if (part != k->bytes)
            printf(" %.1f %%", share);
        first = false;
    }
}

static void print_kind(const char *name, const qn_kind_summary *k)
{
    char bytes[TEXT_BYTES], parameters[TEXT_BYTES];
    printf("  %-16s %9zu %11s %12s  ", name, k->tensors, count_text(k->parameters, parameters),
           bytes_text(k->bytes, bytes));
    print_shares(k);
    printf("\n");
}

static void print_tensors(const qn_checkpoint_summary *s)
{
    printf("\n  %-16s %9s %11s %12s  %s\n", "kind", "tensors", "parameters", "size", "dtypes");
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        if (s->kind[kind].tensors > 0)
            print_kind(qn_tensor_kind_name(kind), &s->kind[kind]);
    }
    print_kind("total", &s->total);
    char both[TEXT_BYTES];
    printf("\n  KV cache     %s a token in BF16: latent %" PRIu64 " and index keys %" PRIu64 " bytes\n",
           bytes_text(s->latent_bytes_per_token + s->index_bytes_per_token, both), s->latent_bytes_per_token,
           s->index_bytes_per_token);
}

static void print_text(const qn_checkpoint *checkpoint, const qn_checkpoint_summary *s)
{
    const qn_config *c = qn_checkpoint_config(checkpoint);
    printf("%s: a whole GLM-5 checkpoint, %zu tensors in %zu file%s\n\n", qn_checkpoint_dir(checkpoint),
           s->total.tensors, s->files, s->files == 1 ? "" : "s");
    print_config(c);
    print_layers(c);
    print_tensors(s);
}

static void json_sizes(qn_buffer *out, const qn_config *c)
{
    const struct {
        const char *name;
        size_t value;
    } sizes[] = {
        {"vocab_size", c->vocab_size},
        {"hidden_size", c->hidden_size},
        {"intermediate_size", c->intermediate_size},
        {"moe_intermediate_size", c->moe_intermediate_size},
        {"num_hidden_layers", c->num_hidden_layers},
        {"num_nextn_predict_layers", c->num_nextn_predict_layers},
        {"num_attention_heads", c->num_attention_heads},
        {"q_lora_rank", c->q_lora_rank},
        {"kv_lora_rank", c->kv_lora_rank},
        {"qk_nope_head_dim", c->qk_nope_head_dim},
        {"qk_rope_head_dim", c->qk_rope_head_dim},
        {"v_head_dim", c->v_head_dim},
        {"index_topk", c->index_topk},
        {"index_n_heads", c->index_n_heads},
        {"index_head_dim", c->index_head_dim},
        {"n_routed_experts", c->n_routed_experts},
        {"n_shared_experts", c->n_shared_experts},
        {"num_experts_per_tok", c->num_experts_per_tok},
        {"n_group", c->n_group},
        {"topk_group", c->topk_group},
        {"max_position_embeddings", c->max_position_embeddings},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        qn_buffer_format(out, "%s\"%s\":%zu", i ? "," : "", sizes[i].name, sizes[i].value);
}

static void json_config(qn_buffer *out, const qn_config *c)
{
    qn_buffer_text(out, "\"config\":{");
    json_sizes(out, c);
    qn_buffer_format(out, ",\"rope_type\":\"%s\",\"rope_theta\":%.17g",
                     c->rope.rope_type == QN_ROPE_YARN ? "yarn" : "default", c->rope.rope_theta);
    qn_buffer_text(out, ",\"mlp_layer_types\":[");
    for (size_t i = 0; i < c->num_hidden_layers; i++)
        qn_buffer_format(out, "%s\"%s\"", i ? "," : "", c->layer_is_sparse[i] ? "sparse" : "dense");
    qn_buffer_text(out, "],\"indexer_types\":[");
    for (size_t i = 0; i < c->num_hidden_layers; i++)
        qn_buffer_format(out, "%s\"%s\"", i ? "," : "", c->layer_has_indexer[i] ? "full" : "shared");
    qn_buffer_text(out, "]}");
}

static void json_kind(qn_buffer *out, const qn_kind_summary *k)
{
    qn_buffer_format(out, "{\"tensors\":%zu,\"parameters\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"bytes_by_dtype\":{",
                     k->tensors, k->parameters, k->bytes);
    bool first = true;
    for (qn_dtype dtype = 0; dtype < QN_DTYPE_COUNT; dtype++) {
        if (k->dtype[dtype] == 0)
            continue;
        qn_buffer_format(out, "%s\"%s\":%" PRIu64, first ? "" : ",", qn_dtype_name(dtype), k->dtype[dtype]);
        first = false;
    }
    qn_buffer_text(out, "}}");
}

static void json_tensors(qn_buffer *out, const qn_checkpoint *checkpoint)
{
    qn_buffer_text(out, "\"tensors\":[");
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *file;
        const qn_tensor *t = qn_checkpoint_tensor(checkpoint, i, &file);
        qn_buffer_text(out, i ? ",{\"name\":" : "{\"name\":");
        qn_buffer_json_string(out, t->name, strlen(t->name));
        qn_buffer_format(out, ",\"dtype\":\"%s\",\"shape\":[", qn_dtype_name(t->dtype));
        for (size_t k = 0; k < t->dims; k++)
            qn_buffer_format(out, "%s%zu", k ? "," : "", t->shape[k]);
        qn_buffer_format(out, "],\"bytes\":%zu,\"file\":", t->bytes);
        qn_buffer_json_string(out, file, strlen(file));
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
}

static qn_status print_json(const qn_checkpoint *checkpoint, const qn_checkpoint_summary *s, qn_error *err)
{
    qn_buffer out = {0};
    qn_buffer_char(&out, '{');
    json_config(&out, qn_checkpoint_config(checkpoint));
    qn_buffer_format(&out,
                     ",\"files\":%zu,\"kv_bytes_per_token\":{\"latent\":%" PRIu64 ",\"index\":%" PRIu64 "},\"kinds\":{",
                     s->files, s->latent_bytes_per_token, s->index_bytes_per_token);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        qn_buffer_format(&out, "\"%s\":", qn_tensor_kind_name(kind));
        json_kind(&out, &s->kind[kind]);
        qn_buffer_char(&out, ',');
    }
    qn_buffer_text(&out, "\"total\":");
    json_kind(&out, &s->total);
    qn_buffer_text(&out, "},");
    json_tensors(&out, checkpoint);
    qn_buffer_text(&out, "}\n");
    qn_status status = out.failed ? qn_fail_memory(err, "inspect --json", out.size) : QN_OK;
    if (status == QN_OK)
        fwrite(out.data, 1, out.size, stdout);
    qn_buffer_free(&out);
    return status;
}

/* Takes every tensor as a model would, for the checks in it. */
static qn_status check_whole(qn_checkpoint *checkpoint, qn_error *err)
{
    qn_weights weights;
    qn_status status = qn_weights_take(checkpoint, &weights, err);
    if (status == QN_OK)
        qn_weights_free(&weights);
    return status;
}

static qn_status inspect(const char *dir, bool json, qn_error *err)
{
    qn_checkpoint *checkpoint = NULL;
    qn_status status = qn_checkpoint_open(dir, &checkpoint, err);
    if (status == QN_OK)
        status = check_whole(checkpoint, err);
    if (status == QN_OK) {
        qn_checkpoint_summary summary;
        qn_checkpoint_summarise(checkpoint, &summary);
        if (json)
            status = print_json(checkpoint, &summary, err);
        else
            print_text(checkpoint, &summary);
    }
    qn_checkpoint_close(checkpoint);
    return status;
}

static int run(int argc, char **argv)
{
    bool json = false;
    const qn_option options[] = {
        {.name = "json",
         .kind = QN_OPTION_FLAG,
         .value = &json,
         .help = "print one JSON object, with a list of all tensors (default: a table)"},
    };
    qn_option_table table = {
        .command = "inspect",
        .arguments = "MODEL_DIR",
        .summary = "Checks a checkpoint as a load would and tells what it holds: sizes, layers, tensors by kind and "
                   "dtype, memory of a token in the KV cache.",
        .min_arguments = 1,
        .max_arguments = 1,
    };
    qn_options_add(&table, options, sizeof options / sizeof *options);
    qn_error err;
    qn_status status = qn_options_parse(&table, argc, argv, &err);
    if (status == QN_OK && !table.help_shown)
        status = inspect(table.argument[0], json, &err);
    return status == QN_OK ? 0 : qn_command_fail(&err);
}

const qn_command qn_inspect_command = {.name = "inspect",
                                       .summary = "check a checkpoint and tell what it holds",
                                       .run = run};
