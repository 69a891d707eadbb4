#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"

static const char *const FILES[] = {
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors",
    "model-00003-of-00003.safetensors",
    "model-00004-of-00004.safetensors",
};

static char *read_all(const char *path, size_t *bytes)
{
    char *data = NULL;
    qn_error err;
    if (qn_file_read(path, 1 << 26, &data, bytes, &err) != QN_OK)
        fail_msg("%s", err.message);
    return data;
}

void fixture_path(const fixture *f, const char *file, char out[512])
{
    snprintf(out, 512, "%s/%s", f->dir, file);
}

void fixture_write(const fixture *f, const char *file, const void *data, size_t bytes)
{
    char path[512];
    fixture_path(f, file, path);
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(data, 1, bytes, stream), bytes);
    assert_int_equal(fclose(stream), 0);
}

void fixture_copy(fixture *f, const char *name)
{
    strcpy(f->dir, "/tmp/quern-fixture-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char path[512];
        struct stat info;
        snprintf(path, sizeof path, "tests/data/oracle/%s/%s", name, FILES[i]);
        if (stat(path, &info) != 0)
            continue;
        size_t bytes = 0;
        char *data = read_all(path, &bytes);
        fixture_write(f, FILES[i], data, bytes);
        qn_free(data);
    }
}

void fixture_remove(fixture *f)
{
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char path[512];
        fixture_path(f, FILES[i], path);
        unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
}

void fixture_truncate(const fixture *f, const char *file, size_t bytes)
{
    char path[512];
    fixture_path(f, file, path);
    assert_int_equal(truncate(path, (off_t)bytes), 0);
}

size_t fixture_size(const fixture *f, const char *file)
{
    char path[512];
    struct stat info;
    fixture_path(f, file, path);
    assert_int_equal(stat(path, &info), 0);
    return (size_t)info.st_size;
}

void fixture_edit_json(const fixture *f, const char *file, fixture_edit edit, const void *context)
{
    char path[512];
    json_t *root = NULL;
    qn_error err;
    fixture_path(f, file, path);
    assert_int_equal(qn_json_parse_file(path, 1 << 24, &root, &err), QN_OK);
    edit(root, context);
    char *text = NULL;
    assert_int_equal(qn_json_text(root, "document", &text, &err), QN_OK);
    fixture_write(f, file, text, strlen(text));
    qn_free(text);
    json_decref(root);
}

static json_t *header_of(const char *data, size_t bytes, size_t *data_at)
{
    uint64_t header_bytes = 0;
    assert_true(bytes >= 8);
    memcpy(&header_bytes, data, 8);
    json_t *root = NULL;
    qn_error err;
    assert_int_equal(qn_json_parse(data + 8, (size_t)header_bytes, "header", &root, &err), QN_OK);
    *data_at = 8 + (size_t)header_bytes;
    return root;
}

void fixture_edit_header(const fixture *f, const char *file, fixture_edit edit, const void *context)
{
    char path[512];
    fixture_path(f, file, path);
    size_t bytes = 0, data_at = 0;
    qn_error err;
    char *data = read_all(path, &bytes);
    json_t *root = header_of(data, bytes, &data_at);
    edit(root, context);
    char *text = NULL;
    assert_int_equal(qn_json_text(root, "document", &text, &err), QN_OK);
    uint64_t header_bytes = strlen(text);
    char *out = qn_alloc(8 + header_bytes + bytes - data_at, 1);
    assert_non_null(out);
    memcpy(out, &header_bytes, 8);
    memcpy(out + 8, text, header_bytes);
    memcpy(out + 8 + header_bytes, data + data_at, bytes - data_at);
    fixture_write(f, file, out, 8 + header_bytes + bytes - data_at);
    qn_free(out);
    qn_free(text);
    json_decref(root);
    qn_free(data);
}

void fixture_patch_tensor(const fixture *f, const char *file, const char *tensor, size_t at, const void *patch,
                          size_t patch_bytes)
{
    char path[512];
    fixture_path(f, file, path);
    size_t bytes = 0, data_at = 0;
    char *data = read_all(path, &bytes);
    json_t *root = header_of(data, bytes, &data_at);
    json_t *offsets = json_object_get(json_object_get(root, tensor), "data_offsets");
    assert_non_null(offsets);
    size_t first = (size_t)json_integer_value(json_array_get(offsets, 0));
    memcpy(data + data_at + first + at, patch, patch_bytes);
    fixture_write(f, file, data, bytes);
    json_decref(root);
    qn_free(data);
}

/* What taking a list of tensors needs; the first failure sticks. */
typedef struct taker {
    qn_checkpoint *checkpoint;
    qn_error *err;
    qn_status status;
    char prefix[64];
} taker;

static void take_matrix(taker *t, const char *name, size_t rows, size_t cols)
{
    char full[256];
    qn_matrix ignored;
    snprintf(full, sizeof full, "%s%s", t->prefix, name);
    if (t->status == QN_OK)
        t->status = qn_checkpoint_take_matrix(t->checkpoint, full, rows, cols, &ignored, t->err);
}

static void take_vector(taker *t, const char *name, size_t count)
{
    char full[256];
    float *values = NULL;
    snprintf(full, sizeof full, "%s%s", t->prefix, name);
    if (t->status == QN_OK)
        t->status = qn_checkpoint_take_vector(t->checkpoint, full, count, &values, t->err);
    qn_free(values);
}

static void take_mlp(taker *t, const char *name, size_t inner, size_t hidden)
{
    char full[64];
    snprintf(full, sizeof full, "%s.gate_proj.weight", name);
    take_matrix(t, full, inner, hidden);
    snprintf(full, sizeof full, "%s.up_proj.weight", name);
    take_matrix(t, full, inner, hidden);
    snprintf(full, sizeof full, "%s.down_proj.weight", name);
    take_matrix(t, full, hidden, inner);
}

static void take_experts(taker *t, const qn_config *c)
{
    char full[128];
    qn_matrix *views = qn_alloc(3 * c->n_routed_experts, sizeof *views);
    snprintf(full, sizeof full, "%smlp.experts", t->prefix);
    if (t->status == QN_OK && !views)
        t->status = qn_fail_memory(t->err, full, 3 * c->n_routed_experts * sizeof *views);
    if (t->status == QN_OK)
        t->status = qn_checkpoint_take_experts(t->checkpoint, full, views, views + c->n_routed_experts,
                                               views + 2 * c->n_routed_experts, t->err);
    qn_free(views);
}

static void take_layer(taker *t, const qn_config *c, size_t layer)
{
    bool mtp = layer >= c->num_hidden_layers;
    size_t hidden = c->hidden_size, heads = c->num_attention_heads;
    snprintf(t->prefix, sizeof t->prefix, "model.layers.%zu.", layer);
    take_vector(t, "input_layernorm.weight", hidden);
    take_vector(t, "post_attention_layernorm.weight", hidden);
    take_matrix(t, "self_attn.q_a_proj.weight", c->q_lora_rank, hidden);
    take_vector(t, "self_attn.q_a_layernorm.weight", c->q_lora_rank);
    take_matrix(t, "self_attn.q_b_proj.weight", heads * (c->qk_nope_head_dim + c->qk_rope_head_dim), c->q_lora_rank);
    take_matrix(t, "self_attn.kv_a_proj_with_mqa.weight", c->kv_lora_rank + c->qk_rope_head_dim, hidden);
    take_vector(t, "self_attn.kv_a_layernorm.weight", c->kv_lora_rank);
    take_matrix(t, "self_attn.kv_b_proj.weight", heads * (c->qk_nope_head_dim + c->v_head_dim), c->kv_lora_rank);
    take_matrix(t, "self_attn.o_proj.weight", hidden, heads * c->v_head_dim);
    if (mtp || c->layer_has_indexer[layer]) {
        take_matrix(t, "self_attn.indexer.wq_b.weight", c->index_n_heads * c->index_head_dim, c->q_lora_rank);
        take_matrix(t, "self_attn.indexer.wk.weight", c->index_head_dim, hidden);
        take_vector(t, "self_attn.indexer.k_norm.weight", c->index_head_dim);
        take_vector(t, "self_attn.indexer.k_norm.bias", c->index_head_dim);
        take_matrix(t, "self_attn.indexer.weights_proj.weight", c->index_n_heads, hidden);
    }
    if (mtp) {
        take_vector(t, "enorm.weight", hidden);
        take_vector(t, "hnorm.weight", hidden);
        take_vector(t, "shared_head.norm.weight", hidden);
        take_matrix(t, "eh_proj.weight", hidden, 2 * hidden);
    }
    if (!mtp && !c->layer_is_sparse[layer]) {
        take_mlp(t, "mlp", c->intermediate_size, hidden);
        return;
    }
    take_matrix(t, "mlp.gate.weight", c->n_routed_experts, hidden);
    take_vector(t, "mlp.gate.e_score_correction_bias", c->n_routed_experts);
    take_experts(t, c);
    take_mlp(t, "mlp.shared_experts", c->moe_intermediate_size * c->n_shared_experts, hidden);
}

qn_status fixture_take_all(qn_checkpoint *checkpoint, qn_error *err)
{
    const qn_config *c = qn_checkpoint_config(checkpoint);
    taker t = {.checkpoint = checkpoint, .err = err};
    take_matrix(&t, "model.embed_tokens.weight", c->vocab_size, c->hidden_size);
    for (size_t layer = 0; layer < c->num_hidden_layers + c->num_nextn_predict_layers; layer++)
        take_layer(&t, c, layer);
    t.prefix[0] = '\0';
    take_vector(&t, "model.norm.weight", c->hidden_size);
    take_matrix(&t, "lm_head.weight", c->vocab_size, c->hidden_size);
    return t.status == QN_OK ? qn_checkpoint_finish(checkpoint, err) : t.status;
}
