/* `inspect --json`: built whole in memory, so that a program never reads half of an object. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "cli/inspect.h"

enum { NAME_BYTES = 1100 };

/* Names of files may be any bytes; those that are no text are shown as \xNN. */
static void json_name(qn_buffer *out, const char *name)
{
    char text[NAME_BYTES];
    qn_utf8_printable(name, strlen(name), text, sizeof text);
    qn_buffer_json_string(out, text, strlen(text));
}

/* A string, or null. */
static void json_text(qn_buffer *out, const char *text)
{
    if (text)
        json_name(out, text);
    else
        qn_buffer_text(out, "null");
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
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
    qn_buffer_text(out, "{");
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
    for (size_t i = 0; i < k->dtypes; i++) {
        qn_buffer_text(out, i ? "," : "");
        qn_buffer_json_string(out, k->dtype[i].name, strlen(k->dtype[i].name));
        qn_buffer_format(out, ":%" PRIu64, k->dtype[i].bytes);
    }
    qn_buffer_text(out, "}}");
}

static void json_kinds(qn_buffer *out, const qn_summary *s)
{
    qn_buffer_text(out, ",\"kinds\":{");
    for (qn_tensor_kind kind = 0; kind < QN_TENSOR_KINDS; kind++) {
        qn_buffer_format(out, "\"%s\":", qn_tensor_kind_name(kind));
        json_kind(out, &s->kind[kind]);
        qn_buffer_char(out, ',');
    }
    qn_buffer_text(out, "\"total\":");
    json_kind(out, &s->total);
    qn_buffer_format(out, "},\"mxfp4_share\":{\"bytes\":%.6f,\"parameters\":%.6f}", qn_mxfp4_share_of_bytes(&s->total),
                     qn_mxfp4_share_of_parameters(&s->total));
}

static void json_layers(qn_buffer *out, const qn_summary *s)
{
    qn_buffer_text(out, ",\"layers\":[");
    for (size_t i = 0; i < s->layer_count; i++) {
        const qn_layer_summary *layer = &s->layers[i];
        qn_buffer_format(out, "%s{\"layer\":%zu,\"mtp\":%s,\"mlp\":\"%s\",\"indexer\":\"%s\",\"missing_tensors\":%zu,",
                         i ? "," : "", i, json_bool(layer->mtp), layer->sparse ? "sparse" : "dense",
                         layer->indexer ? "full" : "shared", layer->missing);
        qn_buffer_text(out, "\"all\":");
        json_kind(out, &layer->all);
        qn_buffer_text(out, ",\"experts\":");
        json_kind(out, &layer->experts);
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
}

static void json_hash(qn_buffer *out, const char *field, bool there, qn_hash hash)
{
    char text[QN_HASH_TEXT_BYTES];
    if (there)
        qn_buffer_format(out, ",\"%s\":\"%s\"", field, qn_hash_text(hash, text));
    else
        qn_buffer_format(out, ",\"%s\":null", field);
}

static void json_files(qn_buffer *out, const qn_listing *l, bool checksums)
{
    qn_buffer_text(out, ",\"file_list\":[");
    for (size_t i = 0; i < l->file_count; i++) {
        const qn_listed_file *file = &l->files[i];
        qn_buffer_text(out, i ? ",{\"name\":" : "{\"name\":");
        json_name(out, file->name);
        qn_buffer_format(out,
                         ",\"state\":\"%s\",\"bytes\":%" PRIu64 ",\"whole_bytes\":%" PRIu64
                         ",\"tensors\":%zu,\"problem\":",
                         qn_file_state_name(file->state), file->bytes, file->whole_bytes, file->tensors);
        json_text(out, file->problem);
        if (checksums)
            json_hash(out, "header_checksum", file->header_bytes > 0, file->header_hash);
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
}

static void json_tensors(qn_buffer *out, const qn_listing *l, bool checksums)
{
    qn_buffer_text(out, ",\"tensors\":[");
    for (size_t i = 0; i < l->tensor_count; i++) {
        const qn_listed_tensor *t = &l->tensors[i];
        qn_buffer_text(out, i ? ",{\"name\":" : "{\"name\":");
        qn_buffer_json_string(out, t->name, strlen(t->name));
        qn_buffer_text(out, ",\"dtype\":");
        qn_buffer_json_string(out, t->dtype, strlen(t->dtype));
        qn_buffer_text(out, ",\"shape\":[");
        for (size_t k = 0; k < t->dims; k++)
            qn_buffer_format(out, "%s%" PRIu64, k ? "," : "", t->shape[k]);
        qn_buffer_format(out, "],\"bytes\":%" PRIu64 ",\"whole\":%s,\"file\":", t->bytes, json_bool(t->whole));
        json_name(out, l->files[t->file].name);
        if (checksums)
            json_hash(out, "checksum", t->whole, t->hash);
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
}

static void json_conversion(qn_buffer *out, const qn_listing *l)
{
    qn_buffer_text(out, ",\"conversion\":");
    if (l->converting)
        qn_buffer_format(out, "{\"written_files\":%zu,\"begun_files\":%zu,\"planned_files\":%zu}", l->converted_files,
                         l->started_files, l->planned_files);
    else
        qn_buffer_text(out, "null");
}

static void format(qn_buffer *out, const qn_inspection *in)
{
    const qn_listing *l = in->listing;
    const qn_summary *s = in->summary;
    qn_buffer_format(out, "{\"runnable\":%s,\"problem\":", json_bool(!in->problem));
    json_text(out, in->problem);
    qn_buffer_text(out, ",\"config\":");
    if (l->has_config)
        json_config(out, &l->config);
    else
        qn_buffer_text(out, "null");
    qn_buffer_text(out, ",\"quantization\":");
    json_text(out, l->quantization[0] ? l->quantization : NULL);
    json_conversion(out, l);
    qn_buffer_format(out, ",\"files\":%zu,\"kv_bytes_per_token\":{\"latent\":%" PRIu64 ",\"index\":%" PRIu64 "}",
                     s->files, s->latent_bytes_per_token, s->index_bytes_per_token);
    json_kinds(out, s);
    json_layers(out, s);
    if (in->checksums) {
        qn_buffer_text(out, ",\"manifest\":");
        json_text(out, in->manifest);
    }
    json_files(out, l, in->checksums);
    json_tensors(out, l, in->checksums);
    qn_buffer_text(out, "}\n");
}

qn_status qn_inspect_print_json(const qn_inspection *inspection, qn_error *err)
{
    qn_buffer out = {0};
    format(&out, inspection);
    qn_status status = out.failed ? qn_fail_memory(err, "inspect --json", out.size) : QN_OK;
    if (status == QN_OK)
        fwrite(out.data, 1, out.size, stdout);
    qn_buffer_free(&out);
    return status;
}
