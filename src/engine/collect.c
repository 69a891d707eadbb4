/* An expert's sums belong to one item of a loop on the pool, which adds its rows in ascending order: so the order of
 * each sum is that of the text. */
#include "engine/collect.h"

#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/amounts.h"
#include "base/system_memory.h"
#include "checkpoint/importance.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/pass.h"

enum { PARTS = QN_IMPORTANCE_TOKENS }; /* gate_up, down */

typedef struct layer_sums {
    double *sums[PARTS]; /* [experts, cols]; NULL: a dense layer */
    uint64_t *tokens;    /* [experts] */
} layer_sums;

struct qn_collect {
    qn_engine *engine;
    size_t experts, cols[PARTS];
    layer_sums *layers; /* [layer_count] */
    size_t layer_count, bytes;
    qn_safetensors_writer *writer;
    float *row;    /* [largest of cols]: on its way to the file */
    float *hidden; /* [context, hidden_size]: a window's final norms; NULL: no MTP layer */

    qn_window window;
    size_t position; /* in the window, of the first row of the call that is running */
};

/* What the loop over experts is given. */
typedef struct observed {
    qn_collect *collect;
    layer_sums *layer;
    const qn_expert_inputs *inputs;
} observed;

static bool is_sparse(const qn_config *config, size_t layer)
{
    return layer == config->num_hidden_layers || config->layer_is_sparse[layer];
}

/* Of a token's inputs, scaled to a mean square of 1; inputs that are all zero add nothing. */
static void add_squares(double *sums, const float *x, size_t count)
{
    double square = 0.0;
    for (size_t i = 0; i < count; i++) {
        square += (double)x[i] * (double)x[i];
    }
    double scale = square > 0.0 ? (double)count / square : 0.0;
    for (size_t i = 0; i < count; i++) {
        sums[i] += (double)x[i] * (double)x[i] * scale;
    }
}

static bool counts(const qn_collect *c, size_t row)
{
    size_t position = c->position + row;
    return position >= c->window.first_row && position + 1 < c->window.count;
}

static void add_expert(void *context, size_t expert, size_t worker)
{
    (void)worker;
    const observed *o = context;
    const qn_collect *c = o->collect;
    size_t in = c->cols[QN_IMPORTANCE_GATE_UP], inner = c->cols[QN_IMPORTANCE_DOWN];
    for (size_t pair = o->inputs->first[expert]; pair < o->inputs->first[expert + 1]; pair++) {
        size_t row = (size_t)o->inputs->row[pair];
        if (counts(c, row)) {
            add_squares(o->layer->sums[QN_IMPORTANCE_GATE_UP] + expert * in, o->inputs->in + row * in, in);
            add_squares(o->layer->sums[QN_IMPORTANCE_DOWN] + expert * inner, o->inputs->products + pair * inner, inner);
            o->layer->tokens[expert]++;
        }
    }
}

static void observe_experts(void *context, size_t layer, const qn_expert_inputs *inputs)
{
    qn_collect *collect = context;
    observed o = {.collect = collect, .layer = &collect->layers[layer], .inputs = inputs};
    qn_pool_run(collect->engine->pool, collect->experts, add_expert, &o);
}

void qn_collect_window(qn_collect *collect, const qn_window *window)
{
    collect->window = *window;
    collect->position = 0;
}

qn_observer qn_collect_observer(qn_collect *collect)
{
    return (qn_observer){.context = collect, .observe_experts = observe_experts};
}

void qn_collect_hidden(qn_collect *collect, size_t start, size_t count, const float *hidden)
{
    size_t width = collect->engine->config->hidden_size;
    if (collect->hidden != NULL) {
        memcpy(collect->hidden + start * width, hidden, count * width * sizeof *hidden);
    }
    collect->position = start + count;
}

static qn_status follow_mtp(void *context, size_t start, size_t count, const float *hidden, qn_error *err)
{
    (void)hidden, (void)err;
    qn_collect *collect = context;
    collect->position = start + count;
    return QN_OK;
}

/* The window's last position is left out: the token behind it lies in the next window, which scores it. */
qn_status qn_collect_mtp(qn_collect *collect, const int32_t *ids, qn_error *err)
{
    if (collect->hidden == NULL) {
        return QN_OK;
    }
    const qn_observer observer = qn_collect_observer(collect);
    const qn_row_sink sink = {.context = collect, .on_hidden = follow_mtp};
    collect->position = 0;
    return qn_pass_mtp(collect->engine, ids + 1, collect->hidden, collect->window.count - 1, NULL, &observer, &sink,
                       err);
}

static qn_status allocate_layer(qn_collect *c, size_t layer, qn_error *err)
{
    layer_sums *sums = &c->layers[layer];
    sums->tokens = qn_alloc_zero(c->experts, sizeof *sums->tokens);
    for (size_t part = 0; part < PARTS; part++) {
        sums->sums[part] = qn_alloc_zero(c->experts, c->cols[part] * sizeof *sums->sums[part]);
    }
    return sums->tokens != NULL && sums->sums[QN_IMPORTANCE_GATE_UP] != NULL && sums->sums[QN_IMPORTANCE_DOWN] != NULL
               ? QN_OK
               : qn_fail_memory(err, "second moments of the experts' inputs", c->bytes);
}

/* c->bytes, told and held against what there is: zeroed memory is taken only as it is written to, hours later. */
static qn_status plan_memory(qn_collect *c, size_t sparse, size_t context, qn_error *err)
{
    const qn_config *config = c->engine->config;
    char needed[QN_MEMORY_TEXT_BYTES], left[QN_MEMORY_TEXT_BYTES];
    c->bytes = sparse * c->experts * (c->cols[QN_IMPORTANCE_GATE_UP] + c->cols[QN_IMPORTANCE_DOWN] + 1) *
               sizeof(double);
    if (config->num_nextn_predict_layers > 0) {
        c->bytes += context * config->hidden_size * sizeof *c->hidden;
    }
    size_t available = qn_memory_available("");
    qn_log("memory: second moments of the experts' inputs %s", qn_memory_text(c->bytes, needed));
    if (available > 0 && c->bytes > available) {
        return qn_fail(
            err, QN_RESOURCE,
            "second moments of the experts' inputs: take %s of memory, and %s are left: close other programs", needed,
            qn_memory_text(available, left));
    }
    return QN_OK;
}

static qn_status allocate(qn_collect *c, size_t context, qn_error *err)
{
    const qn_config *config = c->engine->config;
    size_t sparse = 0;
    for (size_t layer = 0; layer < c->layer_count; layer++) {
        sparse += is_sparse(config, layer);
    }
    if (sparse == 0) {
        return qn_fail_field(err, QN_USAGE, "collect", "--collect: the model has no routed experts: leave it out");
    }
    qn_status status = plan_memory(c, sparse, context, err);
    if (status != QN_OK) {
        return status;
    }
    c->layers = qn_alloc_zero(c->layer_count, sizeof *c->layers);
    c->row = qn_alloc(qn_max_size(c->cols[QN_IMPORTANCE_GATE_UP], c->cols[QN_IMPORTANCE_DOWN]), sizeof *c->row);
    if (config->num_nextn_predict_layers > 0) {
        c->hidden = qn_alloc_aligned(context, config->hidden_size * sizeof *c->hidden);
    }
    if (c->layers == NULL || c->row == NULL || (config->num_nextn_predict_layers > 0 && c->hidden == NULL)) {
        return qn_fail_memory(err, "second moments of the experts' inputs", c->bytes);
    }
    for (size_t layer = 0; status == QN_OK && layer < c->layer_count; layer++) {
        if (is_sparse(config, layer)) {
            status = allocate_layer(c, layer, err);
        }
    }
    return status;
}

static qn_status begin_file(qn_collect *c, const char *path, qn_error *err)
{
    qn_status status = qn_safetensors_writer_new(&c->writer, err);
    for (size_t layer = 0; status == QN_OK && layer < c->layer_count; layer++) {
        for (size_t which = 0; c->layers[layer].tokens != NULL && status == QN_OK && which < QN_IMPORTANCE_TENSORS;
             which++) {
            char name[QN_IMPORTANCE_NAME_BYTES];
            const size_t shape[] = {c->experts, which < PARTS ? c->cols[which] : 1};
            qn_importance_name(layer, (qn_importance_tensor)which, name);
            status = qn_safetensors_writer_declare(c->writer, name, QN_DTYPE_F32, which < PARTS ? 2 : 1, shape, err);
        }
    }
    return status == QN_OK ? qn_safetensors_writer_begin(c->writer, path, err) : status;
}

qn_status qn_collect_new(qn_engine *engine, size_t context, const char *path, qn_collect **out, qn_error *err)
{
    const qn_config *config = engine->config;
    qn_collect *c = qn_alloc_zero(1, sizeof *c);
    if (c == NULL) {
        return qn_fail_memory(err, "second moments of the experts' inputs", sizeof *c);
    }
    c->engine = engine;
    c->experts = config->n_routed_experts;
    c->layer_count = config->num_hidden_layers + config->num_nextn_predict_layers;
    for (size_t part = 0; part < PARTS; part++) {
        c->cols[part] = qn_importance_cols(config, (qn_importance_tensor)part);
    }
    /* A context that is too long is refused by the measurement, not for want of memory. */
    qn_status status = allocate(c, qn_min_size(context, engine->max_model_len), err);
    if (status == QN_OK) {
        status = begin_file(c, path, err);
    }
    if (status != QN_OK) {
        qn_collect_free(c);
        return status;
    }
    *out = c;
    return QN_OK;
}

void qn_collect_free(qn_collect *collect)
{
    if (collect == NULL) {
        return;
    }
    for (size_t layer = 0; collect->layers != NULL && layer < collect->layer_count; layer++) {
        for (size_t part = 0; part < PARTS; part++) {
            qn_free(collect->layers[layer].sums[part]);
        }
        qn_free(collect->layers[layer].tokens);
    }
    qn_safetensors_writer_free(collect->writer);
    qn_free(collect->layers);
    qn_free(collect->row);
    qn_free(collect->hidden);
    qn_free(collect);
}

static qn_status append_sums(qn_collect *c, size_t layer, size_t part, qn_error *err)
{
    qn_status status = QN_OK;
    size_t cols = c->cols[part];
    for (size_t expert = 0; status == QN_OK && expert < c->experts; expert++) {
        const double *sums = c->layers[layer].sums[part] + expert * cols;
        for (size_t i = 0; i < cols; i++) {
            c->row[i] = (float)sums[i];
        }
        status = qn_safetensors_writer_append(c->writer, c->row, cols * sizeof *c->row, err);
    }
    return status;
}

static qn_status append_tokens(qn_collect *c, size_t layer, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t expert = 0; status == QN_OK && expert < c->experts; expert++) {
        float tokens = (float)c->layers[layer].tokens[expert];
        status = qn_safetensors_writer_append(c->writer, &tokens, sizeof tokens, err);
    }
    return status;
}

static void tell(const qn_collect *c)
{
    size_t all = 0, rare = 0;
    for (size_t layer = 0; layer < c->layer_count; layer++) {
        for (size_t expert = 0; c->layers[layer].tokens != NULL && expert < c->experts; expert++) {
            all++;
            rare += c->layers[layer].tokens[expert] < QN_IMPORTANCE_PRIOR_TOKENS;
        }
    }
    qn_log("collect: %zu of %zu experts saw fewer than %d tokens%s", rare, all, QN_IMPORTANCE_PRIOR_TOKENS,
           rare > 0 ? ": they will count more like their layer's average; a longer text tells them apart" : "");
}

qn_status qn_collect_finish(qn_collect *collect, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t layer = 0; status == QN_OK && layer < collect->layer_count; layer++) {
        bool sparse = collect->layers[layer].tokens != NULL;
        for (size_t part = 0; sparse && status == QN_OK && part < PARTS; part++) {
            status = append_sums(collect, layer, part, err);
        }
        if (sparse && status == QN_OK) {
            status = append_tokens(collect, layer, err);
        }
    }
    if (status == QN_OK) {
        status = qn_safetensors_writer_finish(collect->writer, err);
    }
    if (status == QN_OK) {
        tell(collect);
    }
    return status;
}
