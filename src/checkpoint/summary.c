#include "checkpoint/summary.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/mxfp4.h"

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

qn_tensor_kind qn_tensor_kind_of(const qn_config *config, const char *name)
{
    static const pattern outside[] = {
        {"model.embed_tokens.", QN_KIND_EMBEDDING},
        {"model.norm.", QN_KIND_NORMS},
        {"lm_head.", QN_KIND_HEAD},
    };
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
    unsigned long layer;
    const char *part = layer_part(name, &layer);
    if (!part)
        return match(name, outside, sizeof outside / sizeof *outside);
    if (layer >= config->num_hidden_layers)
        return QN_KIND_MTP;
    return match(part, inside, sizeof inside / sizeof *inside);
}

static void add(qn_kind_summary *to, const qn_tensor *t)
{
    bool mxfp4 = t->dtype == QN_DTYPE_U8 && strstr(t->name, ".experts.") != NULL;
    to->tensors++;
    to->bytes += t->bytes;
    to->dtype[mxfp4 ? QN_DTYPE_MXFP4 : t->dtype] += t->bytes;
    if (!mxfp4)
        to->parameters += t->bytes * 8 / qn_dtype_bits(t->dtype);
    else if (!qn_mxfp4_is_scales(t))
        to->parameters += 2 * t->bytes;
}

void qn_checkpoint_summarise(const qn_checkpoint *checkpoint, qn_checkpoint_summary *out)
{
    const qn_config *c = qn_checkpoint_config(checkpoint);
    *out = (qn_checkpoint_summary){0};
    const char *before = NULL;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *file;
        const qn_tensor *t = qn_checkpoint_tensor(checkpoint, i, &file);
        out->files += file != before; /* a file's tensors share its name */
        before = file;
        add(&out->kind[qn_tensor_kind_of(c, t->name)], t);
        add(&out->total, t);
    }
    size_t layers = c->num_hidden_layers + c->num_nextn_predict_layers, indexers = c->num_nextn_predict_layers;
    for (size_t i = 0; i < c->num_hidden_layers; i++)
        indexers += c->layer_has_indexer[i];
    out->latent_bytes_per_token = layers * (c->kv_lora_rank + c->qk_rope_head_dim) * KV_ELEMENT_BYTES;
    out->index_bytes_per_token = indexers * c->index_head_dim * KV_ELEMENT_BYTES;
}
