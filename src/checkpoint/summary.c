#include "checkpoint/summary.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { KV_ELEMENT_BYTES = 2 };

const char *qn_tensor_kind_name(qn_tensor_kind kind)
{
    static const char *const names[QN_TENSOR_KINDS] = {
        [QN_KIND_EMBEDDING] = "embedding",
        [QN_KIND_ATTENTION] = "attention",
        [QN_KIND_INDEXER] = "indexer",
        [QN_KIND_DENSE_MLP] = "dense MLP",
        [QN_KIND_ROUTER] = "router",
        [QN_KIND_ROUTED_EXPERTS] = "routed experts",
        [QN_KIND_SHARED_EXPERTS] = "shared experts",
        [QN_KIND_NORMS] = "norms",
        [QN_KIND_HEAD] = "head",
        [QN_KIND_MTP] = "MTP layer",
        [QN_KIND_OTHER] = "other",
    };
    return names[kind];
}

/* What follows "model.layers.N." and N; NULL when the name is no layer's. */
static const char *layer_part(const char *name, unsigned long *layer)
{
    static const char START[] = "model.layers.";
    if (strncmp(name, START, sizeof START - 1) != 0)
        return NULL;
    char *end;
    *layer = strtoul(name + sizeof START - 1, &end, 10);
    return *end == '.' ? end + 1 : NULL;
}

typedef struct pattern {
    const char *start;
    qn_tensor_kind kind;
} pattern;

static qn_tensor_kind match(const char *name, const pattern *patterns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, patterns[i].start, strlen(patterns[i].start)) == 0)
            return patterns[i].kind;
    }
    return QN_KIND_OTHER;
}

/* The kind of a tensor of a layer by what follows the layer's number. */
static qn_tensor_kind kind_in_layer(const char *part)
{
    static const pattern inside[] = {
        {"self_attn.indexer.", QN_KIND_INDEXER},
        {"self_attn.", QN_KIND_ATTENTION},
        {"mlp.gate.", QN_KIND_ROUTER},
        {"mlp.experts.", QN_KIND_ROUTED_EXPERTS},
        {"mlp.shared_experts.", QN_KIND_SHARED_EXPERTS},
        {"mlp.", QN_KIND_DENSE_MLP},
        {"input_layernorm.", QN_KIND_NORMS},
        {"post_attention_layernorm.", QN_KIND_NORMS},
    };
    return match(part, inside, sizeof inside / sizeof *inside);
}

qn_tensor_kind qn_tensor_kind_of(const qn_config *config, const char *name)
{
    static const pattern outside[] = {
        {"model.embed_tokens.", QN_KIND_EMBEDDING},
        {"model.norm.", QN_KIND_NORMS},
        {"lm_head.", QN_KIND_HEAD},
    };
    unsigned long layer;
    const char *part = layer_part(name, &layer);
    if (!part)
        return match(name, outside, sizeof outside / sizeof *outside);
    if (config && layer >= config->num_hidden_layers)
        return QN_KIND_MTP;
    return kind_in_layer(part);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_scales(const char *name)
{
    return ends_with(name, "_scale") || ends_with(name, "_scales") || ends_with(name, "_scale_inv");
}

/* Does the config call its U8 experts MXFP4, or not speak of them? */
static bool codes_are_mxfp4(const char *quantization)
{
    return quantization[0] == '\0' || strstr(quantization, "mxfp4") || strncmp(quantization, "quark", 5) == 0;
}

static qn_dtype_share share_of(const qn_listed_tensor *t, const char *quantization)
{
    bool mxfp4 = strcmp(t->dtype, "U8") == 0 && strstr(t->name, ".experts.") && codes_are_mxfp4(quantization);
    return (qn_dtype_share){.name = mxfp4 ? "MXFP4" : t->dtype,
                            .bytes = t->bytes,
                            .parameters = is_scales(t->name) ? 0
                                          : mxfp4            ? 2 * t->elements
                                                             : t->elements};
}

static void add(qn_kind_summary *to, const qn_dtype_share *share)
{
    to->tensors++;
    to->bytes += share->bytes;
    to->parameters += share->parameters;
    size_t i = 0;
    while (i < to->dtypes && i + 1 < QN_SUMMARY_DTYPES && strcmp(to->dtype[i].name, share->name) != 0)
        i++;
    if (i == to->dtypes) {
        to->dtypes++;
        to->dtype[i].name = i + 1 < QN_SUMMARY_DTYPES ? share->name : "other";
    }
    to->dtype[i].bytes += share->bytes;
    to->dtype[i].parameters += share->parameters;
}

/* One more than the largest number of a layer in a name, within bounds. */
static size_t layers_by_name(const qn_listing *listing)
{
    size_t count = 0;
    unsigned long layer;
    for (size_t i = 0; i < listing->tensor_count; i++) {
        if (layer_part(listing->tensors[i].name, &layer) && layer < QN_MAX_LAYERS && layer >= count)
            count = layer + 1;
    }
    return count;
}

static void describe_layers(const qn_config *config, qn_summary *out)
{
    for (size_t i = 0; i < out->layer_count; i++) {
        qn_layer_summary *layer = &out->layers[i];
        layer->mtp = i >= config->num_hidden_layers;
        layer->sparse = layer->mtp || config->layer_is_sparse[i];
        layer->indexer = layer->mtp || config->layer_has_indexer[i];
    }
}

static void count_kv(const qn_config *c, qn_summary *out)
{
    size_t indexers = 0;
    for (size_t i = 0; i < out->layer_count; i++)
        indexers += out->layers[i].indexer;
    out->latent_bytes_per_token = out->layer_count * (c->kv_lora_rank + c->qk_rope_head_dim) * KV_ELEMENT_BYTES;
    out->index_bytes_per_token = indexers * c->index_head_dim * KV_ELEMENT_BYTES;
}

static void count_in_layer(const qn_listing *listing, const char *name, const qn_dtype_share *share, qn_summary *out)
{
    unsigned long number;
    const char *part = layer_part(name, &number);
    if (!part || number >= out->layer_count)
        return;
    qn_layer_summary *layer = &out->layers[number];
    qn_tensor_kind kind = kind_in_layer(part);
    add(&layer->all, share);
    if (kind == QN_KIND_ROUTED_EXPERTS)
        add(&layer->experts, share);
    if (listing->has_config)
        return;
    layer->sparse = layer->sparse || kind == QN_KIND_ROUTED_EXPERTS;
    layer->indexer = layer->indexer || kind == QN_KIND_INDEXER;
}

static void count_missing(const qn_listing *listing, qn_summary *out)
{
    unsigned long layer;
    for (size_t i = 0; i < listing->missing_count; i++) {
        if (layer_part(listing->missing[i], &layer) && layer < out->layer_count)
            out->layers[layer].missing++;
    }
}

static int compare_shares(const void *a, const void *b)
{
    const qn_dtype_share *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

static void sort_shares(qn_kind_summary *k)
{
    if (k->dtypes > 0)
        qsort(k->dtype, k->dtypes, sizeof *k->dtype, compare_shares);
}

static void sort_all_shares(qn_summary *s)
{
    sort_shares(&s->total);
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++)
        sort_shares(&s->kind[kind]);
    for (size_t i = 0; i < s->layer_count; i++) {
        sort_shares(&s->layers[i].all);
        sort_shares(&s->layers[i].experts);
    }
}

qn_status qn_listing_summarise(const qn_listing *listing, qn_summary *out, qn_error *err)
{
    const qn_config *config = listing->has_config ? &listing->config : NULL;
    *out = (qn_summary){0};
    out->layer_count = config ? config->num_hidden_layers + config->num_nextn_predict_layers : layers_by_name(listing);
    out->layers = qn_alloc_zero(out->layer_count, sizeof *out->layers);
    if (!out->layers)
        return qn_fail_memory(err, listing->path, out->layer_count * sizeof *out->layers);
    if (config) {
        describe_layers(config, out);
        count_kv(config, out);
    }
    for (size_t i = 0; i < listing->file_count; i++)
        out->files += listing->files[i].tensors > 0;
    for (size_t i = 0; i < listing->tensor_count; i++) {
        const qn_listed_tensor *t = &listing->tensors[i];
        qn_dtype_share share = share_of(t, listing->quantization);
        add(&out->kind[qn_tensor_kind_of(config, t->name)], &share);
        add(&out->total, &share);
        count_in_layer(listing, t->name, &share, out);
    }
    count_missing(listing, out);
    sort_all_shares(out);
    return QN_OK;
}

void qn_summary_free(qn_summary *summary)
{
    qn_free(summary->layers);
    summary->layers = NULL;
}

static qn_dtype_share mxfp4_of(const qn_kind_summary *whole)
{
    for (size_t i = 0; i < whole->dtypes; i++) {
        if (strcmp(whole->dtype[i].name, "MXFP4") == 0)
            return whole->dtype[i];
    }
    return (qn_dtype_share){0};
}

double qn_mxfp4_share_of_bytes(const qn_kind_summary *whole)
{
    return whole->bytes > 0 ? (double)mxfp4_of(whole).bytes / (double)whole->bytes : 0.0;
}

double qn_mxfp4_share_of_parameters(const qn_kind_summary *whole)
{
    return whole->parameters > 0 ? (double)mxfp4_of(whole).parameters / (double)whole->parameters : 0.0;
}
