/* The file stays mapped; what is kept of it are the layers' averages, made while every value is checked at open. */
#include "checkpoint/importance.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "checkpoint/safetensors.h"

typedef struct layer_sums {
    const qn_tensor *tensor[QN_IMPORTANCE_TENSORS]; /* NULL: absent */
    double *mean[QN_IMPORTANCE_TOKENS];             /* [cols]: per token, over all experts */
} layer_sums;

struct qn_importance {
    qn_mapping mapping;
    qn_safetensors *file;
    qn_hash hash;
    size_t experts, cols[QN_IMPORTANCE_TENSORS];
    layer_sums *layers; /* [layer_count], the MTP layer behind the others */
    size_t layer_count;
};

/* What reading needs: for messages and for the progress. */
typedef struct reader {
    qn_importance *importance;
    const qn_config *config;
    const char *path;
    qn_progress progress;
    uint64_t done_bytes;
} reader;

const char *qn_importance_name(size_t layer, qn_importance_tensor which, char name[QN_IMPORTANCE_NAME_BYTES])
{
    static const char *const suffix[QN_IMPORTANCE_TENSORS] = {[QN_IMPORTANCE_GATE_UP] = "gate_up.input_sq_sum",
                                                              [QN_IMPORTANCE_DOWN] = "down.input_sq_sum",
                                                              [QN_IMPORTANCE_TOKENS] = "tokens"};
    snprintf(name, QN_IMPORTANCE_NAME_BYTES, "model.layers.%zu.mlp.experts.%s", layer, suffix[which]);
    return name;
}

size_t qn_importance_cols(const qn_config *config, qn_importance_tensor which)
{
    return which == QN_IMPORTANCE_GATE_UP ? config->hidden_size
           : which == QN_IMPORTANCE_DOWN  ? config->moe_intermediate_size
                                          : 0;
}

static bool is_sparse(const qn_config *config, size_t layer)
{
    return layer == config->num_hidden_layers || config->layer_is_sparse[layer];
}

/* Row-major floats of a tensor, which need not be aligned. */
static float value_at(const qn_tensor *tensor, size_t i)
{
    float value;
    memcpy(&value, tensor->data + i * sizeof value, sizeof value);
    return value;
}

static qn_status check_shape(const reader *r, const qn_tensor *tensor, qn_importance_tensor which, qn_error *err)
{
    const size_t shape[] = {r->importance->experts, r->importance->cols[which]};
    size_t dims = which == QN_IMPORTANCE_TOKENS ? 1 : 2;
    if (tensor->dtype == QN_DTYPE_F32 && tensor->dims == dims && tensor->shape[0] == shape[0] &&
        (dims == 1 || tensor->shape[1] == shape[1])) {
        return QN_OK;
    }
    char is[QN_TENSOR_DESCRIPTION_BYTES], wanted[QN_TENSOR_DESCRIPTION_BYTES];
    return qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: is %s where the model's config asks for %s: collect it anew",
                   r->path, tensor->name, qn_tensor_describe(tensor->dtype, tensor->dims, tensor->shape, is),
                   qn_tensor_describe(QN_DTYPE_F32, dims, shape, wanted));
}

/* Adds the tensor's rows up in sums [cols], having checked each value. */
static qn_status add_rows(reader *r, const qn_tensor *tensor, size_t cols, double *sums, qn_error *err)
{
    for (size_t row = 0; row < r->importance->experts; row++) {
        for (size_t i = 0; i < cols; i++) {
            float value = value_at(tensor, row * cols + i);
            if (!isfinite(value) || value < 0.0f) {
                return qn_fail(err, QN_BAD_INPUT,
                               "%s: tensor %s: element %zu is %g: a sum of squares or a count is finite and not "
                               "negative: collect it anew",
                               r->path, tensor->name, row * cols + i, (double)value);
            }
            sums[i] += (double)value;
        }
        r->done_bytes += cols * sizeof(float);
        qn_progress_update(&r->progress, r->done_bytes);
    }
    return QN_OK;
}

static qn_status read_layer(reader *r, size_t layer, qn_error *err)
{
    layer_sums *sums = &r->importance->layers[layer];
    double tokens = 0.0;
    qn_status status = add_rows(r, sums->tensor[QN_IMPORTANCE_TOKENS], 1, &tokens, err);
    if (status == QN_OK && tokens <= 0.0) {
        status = qn_fail(err, QN_BAD_INPUT, "%s: tensor %s: no token reached the layer: collect on a longer text",
                         r->path, sums->tensor[QN_IMPORTANCE_TOKENS]->name);
    }
    for (size_t which = 0; status == QN_OK && which < QN_IMPORTANCE_TOKENS; which++) {
        size_t cols = r->importance->cols[which];
        double *mean = sums->mean[which] = qn_alloc_zero(cols, sizeof *mean);
        if (mean == NULL) {
            return qn_fail_memory(err, r->path, cols * sizeof *mean);
        }
        status = add_rows(r, sums->tensor[which], cols, mean, err);
        for (size_t i = 0; i < cols; i++) {
            mean[i] /= tokens;
        }
    }
    return status;
}

static qn_status find_layer(reader *r, size_t layer, size_t *found, qn_error *err)
{
    layer_sums *sums = &r->importance->layers[layer];
    char name[QN_IMPORTANCE_NAME_BYTES], missing[QN_IMPORTANCE_NAME_BYTES] = "";
    size_t here = 0;
    for (size_t which = 0; which < QN_IMPORTANCE_TENSORS; which++) {
        qn_importance_name(layer, (qn_importance_tensor)which, name);
        const qn_tensor *tensor = sums->tensor[which] = qn_safetensors_find(r->importance->file, name);
        qn_status status = tensor != NULL ? check_shape(r, tensor, (qn_importance_tensor)which, err) : QN_OK;
        if (status != QN_OK) {
            return status;
        }
        if (tensor == NULL && missing[0] == '\0') {
            memcpy(missing, name, sizeof missing);
        }
        here += tensor != NULL;
    }
    *found += here;
    if (here == 0 && layer == r->config->num_hidden_layers) {
        qn_log("%s: has nothing of the MTP layer (layer %zu): the errors of its experts' weights count all alike",
               r->path, layer);
        return QN_OK;
    }
    return missing[0] == '\0'
               ? QN_OK
               : qn_fail(err, QN_BAD_INPUT,
                         "%s: tensor %s: missing: the file is of another model, or damaged: collect it anew", r->path,
                         missing);
}

/* After all that belongs there has been found. */
static qn_status refuse_unknown(const reader *r, size_t found, qn_error *err)
{
    const qn_safetensors *file = r->importance->file;
    for (size_t i = 0; found < qn_safetensors_count(file) && i < qn_safetensors_count(file); i++) {
        const qn_tensor *tensor = qn_safetensors_at(file, i);
        bool known = false;
        for (size_t layer = 0; !known && layer < r->importance->layer_count; layer++) {
            for (size_t which = 0; which < QN_IMPORTANCE_TENSORS; which++) {
                known = known || r->importance->layers[layer].tensor[which] == tensor;
            }
        }
        if (!known) {
            return qn_fail(err, QN_BAD_INPUT,
                           "%s: tensor %s: the model's config has no such experts: the file is of another model",
                           r->path, tensor->name);
        }
    }
    return QN_OK;
}

static qn_status read_all(reader *r, qn_error *err)
{
    qn_importance *importance = r->importance;
    size_t found = 0;
    qn_status status = QN_OK;
    for (size_t layer = 0; status == QN_OK && layer < importance->layer_count; layer++) {
        if (is_sparse(r->config, layer)) {
            status = find_layer(r, layer, &found, err);
        }
    }
    if (status == QN_OK) {
        status = refuse_unknown(r, found, err);
    }
    if (status != QN_OK) {
        return status;
    }
    importance->hash = qn_hash_bytes(importance->mapping.data, importance->mapping.bytes);
    qn_progress_start(&r->progress, "importance", "bytes", importance->mapping.bytes);
    for (size_t layer = 0; status == QN_OK && layer < importance->layer_count; layer++) {
        if (importance->layers[layer].tensor[QN_IMPORTANCE_TOKENS] != NULL) {
            status = read_layer(r, layer, err);
        }
    }
    qn_progress_finish(&r->progress);
    return status;
}

static qn_status open_file(reader *r, qn_error *err)
{
    qn_importance *importance = r->importance;
    qn_status status = qn_file_map(r->path, &importance->mapping, err);
    if (status == QN_OK) {
        status = qn_safetensors_parse(importance->mapping.data, importance->mapping.bytes, r->path, &importance->file,
                                      err);
    }
    if (status != QN_OK) {
        return status;
    }
    importance->layer_count = r->config->num_hidden_layers + r->config->num_nextn_predict_layers;
    importance->layers = qn_alloc_zero(importance->layer_count, sizeof *importance->layers);
    return importance->layers != NULL
               ? QN_OK
               : qn_fail_memory(err, r->path, importance->layer_count * sizeof *importance->layers);
}

qn_status qn_importance_open(const char *path, const qn_config *config, qn_importance **out, qn_error *err)
{
    qn_importance *importance = qn_alloc_zero(1, sizeof *importance);
    if (importance == NULL) {
        return qn_fail_memory(err, path, sizeof *importance);
    }
    reader r = {.importance = importance, .config = config, .path = path};
    importance->experts = config->n_routed_experts;
    for (size_t which = 0; which < QN_IMPORTANCE_TENSORS; which++) {
        importance->cols[which] = qn_importance_cols(config, (qn_importance_tensor)which);
    }
    qn_status status = open_file(&r, err);
    if (status == QN_OK) {
        status = read_all(&r, err);
    }
    if (status != QN_OK) {
        qn_importance_close(importance);
        return status;
    }
    *out = importance;
    return QN_OK;
}

void qn_importance_close(qn_importance *importance)
{
    if (importance == NULL) {
        return;
    }
    for (size_t layer = 0; importance->layers != NULL && layer < importance->layer_count; layer++) {
        for (size_t which = 0; which < QN_IMPORTANCE_TOKENS; which++) {
            qn_free(importance->layers[layer].mean[which]);
        }
    }
    qn_free(importance->layers);
    qn_safetensors_close(importance->file);
    qn_file_unmap(&importance->mapping);
    qn_free(importance);
}

qn_hash qn_importance_hash(const qn_importance *importance)
{
    return importance->hash;
}

void qn_importance_weights(const qn_importance *importance, size_t layer, size_t expert, qn_importance_tensor which,
                           float *out)
{
    assert(layer < importance->layer_count && expert < importance->experts && which < QN_IMPORTANCE_TOKENS);
    const layer_sums *sums = &importance->layers[layer];
    size_t cols = importance->cols[which];
    double total = 0.0, prior = QN_IMPORTANCE_PRIOR_TOKENS;
    const double *mean = sums->mean[which];
    for (size_t i = 0; mean != NULL && i < cols; i++) {
        total += (double)value_at(sums->tensor[which], expert * cols + i) + prior * mean[i];
    }
    for (size_t i = 0; i < cols; i++) {
        double sum = total > 0.0 ? (double)value_at(sums->tensor[which], expert * cols + i) + prior * mean[i] : 0.0;
        out[i] = total > 0.0 ? (float)(sum / total * (double)cols) : 1.0f;
    }
}
