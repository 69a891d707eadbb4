#include "engine/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

enum { KINDS = QN_OBSERVE_ROUTER_MARGIN + 1, NAME_BYTES = 48 };

typedef struct tensor {
    char name[NAME_BYTES];
    qn_dtype dtype; /* F32 or I32 */
    size_t width;   /* 0: not recorded */
    bool vector;    /* [rows], not [rows, 1] */
    size_t filled;  /* rows */
    unsigned char *data;
} tensor;

struct qn_record {
    size_t rows, first_layer, layers;
    tensor *tensors; /* [layers, KINDS] */
};

/* Golden names of the decoder layers and of the MTP layer; NULL: not written. */
static const struct {
    const char *layer, *mtp;
} names[KINDS] = {
    [QN_OBSERVE_HIDDEN] = {"hidden", "mtp_hidden"},
    [QN_OBSERVE_ATTENTION] = {"attn", NULL},
    [QN_OBSERVE_TOPK] = {"topk", "mtp_topk"},
    [QN_OBSERVE_TOPK_MARGIN] = {"topk_margin", "mtp_topk_margin"},
    [QN_OBSERVE_ROUTER_EXPERTS] = {"router_experts", "mtp_router_experts"},
    [QN_OBSERVE_ROUTER_WEIGHTS] = {"router_weights", "mtp_router_weights"},
    [QN_OBSERVE_ROUTER_MARGIN] = {"router_margin", "mtp_router_margin"},
};

/* Elements of a row of what a layer computes; 0: it doesn't compute that. The MTP layer is sparse and has an indexer.
 */
static size_t row_width(const qn_config *config, qn_observed what, size_t layer, size_t rows)
{
    bool mtp = layer == config->num_hidden_layers;
    bool sparse = mtp || config->layer_is_sparse[layer], indexer = mtp || config->layer_has_indexer[layer];
    switch (what) {
    case QN_OBSERVE_HIDDEN:
    case QN_OBSERVE_ATTENTION:
        return config->hidden_size;
    case QN_OBSERVE_TOPK:
        return !indexer ? 0 : config->index_topk < rows ? config->index_topk : rows;
    case QN_OBSERVE_TOPK_MARGIN:
        return indexer ? 1 : 0;
    case QN_OBSERVE_ROUTER_EXPERTS:
    case QN_OBSERVE_ROUTER_WEIGHTS:
        return sparse ? config->num_experts_per_tok : 0;
    case QN_OBSERVE_ROUTER_MARGIN:
        return sparse ? 1 : 0;
    }
    return 0;
}

static qn_status tensor_new(const qn_config *config, qn_observed what, size_t layer, size_t rows, tensor *out,
                            qn_error *err)
{
    bool mtp = layer == config->num_hidden_layers;
    const char *name = mtp ? names[what].mtp : names[what].layer;
    size_t width = row_width(config, what, layer, rows), count;
    if (name == NULL || width == 0) {
        return QN_OK;
    }
    snprintf(out->name, sizeof out->name, mtp ? "%s" : "%s.%zu", name, layer);
    out->dtype = what == QN_OBSERVE_TOPK || what == QN_OBSERVE_ROUTER_EXPERTS ? QN_DTYPE_I32 : QN_DTYPE_F32;
    out->width = width;
    out->vector = what == QN_OBSERVE_TOPK_MARGIN || what == QN_OBSERVE_ROUTER_MARGIN;
    out->data = qn_size_mul(rows, width, &count) ? qn_alloc(count, sizeof(float)) : NULL;
    return out->data != NULL ? QN_OK : qn_fail_memory(err, out->name, rows * width * sizeof(float));
}

qn_status qn_record_new(const qn_config *config, size_t rows, bool mtp, qn_record **out, qn_error *err)
{
    qn_record *record = qn_alloc_zero(1, sizeof *record);
    if (record == NULL) {
        return qn_fail_memory(err, "recorded values", sizeof *record);
    }
    record->rows = rows;
    record->first_layer = mtp ? config->num_hidden_layers : 0;
    record->layers = mtp ? 1 : config->num_hidden_layers;
    record->tensors = qn_alloc_zero(record->layers * KINDS, sizeof *record->tensors);
    qn_status status = record->tensors != NULL
                           ? QN_OK
                           : qn_fail_memory(err, "recorded values", record->layers * KINDS * sizeof(tensor));
    for (size_t i = 0; status == QN_OK && i < record->layers * KINDS; i++) {
        status = tensor_new(config, (qn_observed)(i % KINDS), record->first_layer + i / KINDS, rows,
                            &record->tensors[i], err);
    }
    if (status != QN_OK) {
        qn_record_free(record);
        return status;
    }
    *out = record;
    return QN_OK;
}

void qn_record_free(qn_record *record)
{
    if (record == NULL) {
        return;
    }
    for (size_t i = 0; record->tensors != NULL && i < record->layers * KINDS; i++) {
        qn_free(record->tensors[i].data);
    }
    qn_free(record->tensors);
    qn_free(record);
}

size_t qn_record_bytes(const qn_record *record)
{
    size_t bytes = 0;
    for (size_t i = 0; i < record->layers * KINDS; i++) {
        bytes += record->rows * record->tensors[i].width * sizeof(float);
    }
    return bytes;
}

/* A row of `width` elements into one of the tensor's width: cut, or filled with -1 (an index row may be either: it is
 * index_topk wide however few keys there are). */
static void copy_row(tensor *t, const unsigned char *from, size_t width)
{
    unsigned char *to = t->data + t->filled * t->width * sizeof(float);
    size_t shared = width < t->width ? width : t->width;
    memcpy(to, from, shared * sizeof(float));
    memset(to + shared * sizeof(float), 0xff, (t->width - shared) * sizeof(float));
    t->filled++;
}

static void observe(void *context, qn_observed what, size_t layer, const void *data, size_t rows, size_t width)
{
    qn_record *record = context;
    if (layer < record->first_layer || layer - record->first_layer >= record->layers) {
        return;
    }
    tensor *t = &record->tensors[(layer - record->first_layer) * KINDS + (size_t)what];
    if (t->width == 0) {
        return;
    }
    assert(rows <= record->rows - t->filled);
    for (size_t row = 0; row < rows; row++) {
        copy_row(t, (const unsigned char *)data + row * width * sizeof(float), width);
    }
}

qn_observer qn_record_observer(qn_record *record)
{
    return (qn_observer){.context = record, .observe = observe};
}

qn_status qn_record_declare(const qn_record *record, qn_safetensors_writer *writer, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; status == QN_OK && i < record->layers * KINDS; i++) {
        const tensor *t = &record->tensors[i];
        const size_t shape[] = {record->rows, t->width};
        if (t->width > 0) {
            status = qn_safetensors_writer_declare(writer, t->name, t->dtype, t->vector ? 1 : 2, shape, err);
        }
    }
    return status;
}

qn_status qn_record_append(const qn_record *record, qn_safetensors_writer *writer, qn_error *err)
{
    qn_status status = QN_OK;
    for (size_t i = 0; status == QN_OK && i < record->layers * KINDS; i++) {
        const tensor *t = &record->tensors[i];
        if (t->width == 0) {
            continue;
        }
        assert(t->filled == record->rows);
        status = qn_safetensors_writer_append(writer, t->data, record->rows * t->width * sizeof(float), err);
    }
    return status;
}
