/* See rig.h. */
#include "golden/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

void *rig_alloc(size_t count, size_t size)
{
    void *block = qn_alloc_zero(count, size);
    assert_non_null(block);
    return block;
}

static size_t or_default(size_t value, size_t otherwise)
{
    return value > 0 ? value : otherwise;
}

#define must(call)                       \
    do {                                 \
        qn_error err;                    \
        if ((call) != QN_OK)             \
            fail_msg("%s", err.message); \
    } while (0)

rig rig_open(const char *dir, rig_options options)
{
    rig r = {.max_rows = or_default(options.max_rows, 512), .max_context_tokens = options.max_context_tokens};
    size_t block_tokens = or_default(options.block_tokens, 64);
    qn_kv_layout layout;
    must(qn_kernels_select(options.isa, &r.kernels, &err));
    must(qn_pool_new(or_default(options.threads, 2), &r.pool, &err));
    must(qn_checkpoint_open(dir, &r.checkpoint, &err));
    qn_model_options model = {.kernels = r.kernels,
                              .pool = r.pool,
                              .max_rows = r.max_rows,
                              .max_context_tokens = r.max_context_tokens,
                              .dsa_dense_below = options.dsa_dense_below,
                              .mla_norm_eps = options.mla_norm_eps,
                              .expert_cache_bytes = options.expert_cache_bytes};
    must(qn_model_open(r.checkpoint, &model, &r.model, &err));
    must(qn_model_kv_layout(r.model, block_tokens, &layout, &err));
    size_t blocks = (r.max_context_tokens + 1 + block_tokens - 1) / block_tokens * or_default(options.sequences, 1);
    must(qn_kv_pool_new(&layout, blocks, false, &r.kv, &err));
    r.hidden_size = qn_model_config(r.model)->hidden_size;
    r.vocab_size = qn_model_config(r.model)->vocab_size;
    return r;
}

void rig_close(rig *r)
{
    assert_int_equal(qn_kv_pool_free_count(r->kv), qn_kv_pool_block_count(r->kv));
    qn_kv_pool_free(r->kv);
    qn_model_close(r->model);
    qn_checkpoint_close(r->checkpoint);
    qn_pool_free(r->pool);
}

qn_kv_sequence rig_sequence(const rig *r)
{
    qn_kv_sequence sequence;
    must(qn_kv_sequence_init(&sequence, r->kv, r->max_context_tokens + 1, &err));
    return sequence;
}

void rig_forward(rig *r, qn_kv_sequence *sequence, const int32_t *ids, size_t start, size_t count, size_t chunk,
                 float *hidden, const qn_observer *observer)
{
    chunk = or_default(chunk, r->max_rows);
    must(qn_kv_sequence_reserve(sequence, start + count, &err));
    for (size_t at = 0; at < count; at += chunk) {
        qn_segment segment = {.sequence = sequence,
                              .ids = ids + at,
                              .start = start + at,
                              .count = chunk < count - at ? chunk : count - at};
        must(qn_model_forward(r->model, &segment, 1, hidden + at * r->hidden_size, observer, &err));
    }
}

void rig_mtp(rig *r, qn_kv_sequence *sequence, const int32_t *next_ids, const float *hidden, size_t start, size_t count,
             size_t chunk, float *out, qn_mtp_selection *selection, const qn_observer *observer)
{
    chunk = or_default(chunk, r->max_rows);
    must(qn_kv_sequence_reserve(sequence, start + count + 1, &err));
    for (size_t at = 0; at < count; at += chunk) {
        qn_mtp_segment segment = {.sequence = sequence,
                                  .next_ids = next_ids + at,
                                  .hidden = hidden + at * r->hidden_size,
                                  .start = start + at,
                                  .count = chunk < count - at ? chunk : count - at,
                                  .selection = selection};
        must(qn_model_mtp(r->model, &segment, 1, out + at * r->hidden_size, observer, &err));
    }
}

typedef void (*head)(qn_model *, const float *const *, size_t, float *const *);

static void run_head(rig *r, head run, const float *hidden, size_t rows, float *logits)
{
    const float **x = rig_alloc(r->max_rows, sizeof *x);
    float **y = rig_alloc(r->max_rows, sizeof *y);
    for (size_t at = 0; at < rows; at += r->max_rows) {
        size_t count = rows - at < r->max_rows ? rows - at : r->max_rows;
        for (size_t i = 0; i < count; i++) {
            x[i] = hidden + (at + i) * r->hidden_size;
            y[i] = logits + (at + i) * r->vocab_size;
        }
        run(r->model, x, count, y);
    }
    qn_free(x);
    qn_free(y);
}

void rig_logits(rig *r, const float *hidden, size_t rows, float *logits)
{
    run_head(r, qn_model_logits, hidden, rows, logits);
}

void rig_mtp_logits(rig *r, const float *hidden, size_t rows, float *logits)
{
    run_head(r, qn_model_mtp_logits, hidden, rows, logits);
}

int32_t rig_argmax(const float *logits, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* All observed values have 4 bytes. */
enum { MAX_SEEN = 512, VALUE_BYTES = 4 };

typedef struct seen {
    qn_observed what;
    size_t layer, rows, width;
    uint8_t *data; /* [max_rows, width] */
} seen;

struct rig_record {
    size_t max_rows, count;
    seen seen[MAX_SEEN];
};

rig_record *rig_record_new(size_t max_rows)
{
    rig_record *record = rig_alloc(1, sizeof *record);
    record->max_rows = max_rows;
    return record;
}

void rig_record_free(rig_record *record)
{
    for (size_t i = 0; i < record->count; i++)
        qn_free(record->seen[i].data);
    qn_free(record);
}

static const seen *find(const rig_record *record, qn_observed what, size_t layer)
{
    for (size_t i = 0; i < record->count; i++)
        if (record->seen[i].what == what && record->seen[i].layer == layer)
            return &record->seen[i];
    return NULL;
}

static void note(void *context, qn_observed what, size_t layer, const void *data, size_t rows, size_t width)
{
    rig_record *record = context;
    seen *s = (seen *)find(record, what, layer);
    if (!s) {
        assert_true(record->count < MAX_SEEN);
        s = &record->seen[record->count++];
        *s = (seen){
            .what = what, .layer = layer, .width = width, .data = rig_alloc(record->max_rows * width, VALUE_BYTES)};
    }
    assert_true(s->width == width && s->rows + rows <= record->max_rows);
    memcpy(s->data + s->rows * width * VALUE_BYTES, data, rows * width * VALUE_BYTES);
    s->rows += rows;
}

qn_observer rig_record_observer(rig_record *record)
{
    return (qn_observer){.context = record, .observe = note};
}

const void *rig_record_find(const rig_record *record, qn_observed what, size_t layer, size_t *rows, size_t *width)
{
    const seen *s = find(record, what, layer);
    if (!s)
        return NULL;
    *rows = s->rows;
    *width = s->width;
    return s->data;
}
