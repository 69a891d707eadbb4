/* Every slot of every sequence is filled once, at open; a call overwrites the slots of its own rows with true ones,
 * which do as well. */
#include "bench/model_rig.h"

#include "base/amounts.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/system_memory.h"
#include "kv/sequence.h"

enum { BLOCK_TOKENS = 128, ROW_CHUNK = 64, TOUCH_BYTES = 2 << 20, PAGE_BYTES = 4096 };

/* Of a value in a cached row: as after a norm, variance 1. */
static const float VALUE_RANGE = 1.7320508f;

struct qn_model_rig {
    const qn_checkpoint *checkpoint;
    const qn_kernels *kernels;
    qn_cpu_binding *binding;
    qn_numa_policy numa;
    qn_pool *pool;
    qn_model *model;
    qn_part_clock *clock;
    qn_kv_pool *blocks;
    qn_kv_sequence *sequence; /* [sequences] */
    size_t sequences;
    qn_segment *segment; /* [sequences] */
    int32_t *ids;        /* [max_rows] */
    float *hidden;       /* [max_rows, hidden_size] */
    float *logits;       /* [logit_rows, vocab_size] */
    const float **chosen;
    float **logit_rows; /* [logit_rows] each */
    float *fill;        /* [threads, widest row] */
    size_t fill_width;
    bool resident, packed;
    uint64_t random;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Seeds that differ by little give states that have nothing to do with each other (splitmix64's last steps). */
static uint64_t state_of(uint64_t seed)
{
    seed = (seed + 1) * 0x9e3779b97f4a7c15u;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    seed ^= seed >> 31;
    return seed != 0 ? seed : 1;
}

static void random_row(uint64_t *state, float *row, size_t width)
{
    for (size_t i = 0; i < width; i++)
        row[i] = ((float)(next_random(state) >> 40) * 0x1p-23f - 1.0f) * VALUE_RANGE;
}

static size_t chunks_of_sequence(const qn_model_rig *rig)
{
    return rig->sequence[0].block_count * BLOCK_TOKENS / ROW_CHUNK;
}

/* Some slots of one sequence, all layers. */
static void fill_chunk(void *context, size_t item, size_t worker)
{
    qn_model_rig *rig = context;
    const qn_kv_layout *layout = qn_kv_pool_layout(rig->blocks);
    const qn_kv_sequence *sequence = &rig->sequence[item / chunks_of_sequence(rig)];
    size_t first = item % chunks_of_sequence(rig) * ROW_CHUNK;
    float *row = rig->fill + worker * rig->fill_width;
    uint64_t state = state_of(item);
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        for (size_t slot = first; slot < first + ROW_CHUNK; slot++) {
            random_row(&state, row, layout->latent_width);
            rig->kernels->store_row(qn_kv_latent_row(sequence, layer, slot), row, layout->latent_width);
            if (layout->index_offset[layer] == SIZE_MAX)
                continue;
            random_row(&state, row, layout->index_width);
            rig->kernels->store_row(qn_kv_index_row(sequence, layer, slot), row, layout->index_width);
        }
    }
}

static qn_status open_model(qn_model_rig *rig, const qn_model_rig_options *o, qn_error *err)
{
    qn_status status = qn_kernels_from_environment(&rig->kernels, err);
    if (status == QN_OK)
        status = qn_cpu_binding_new(o->cpu_binding, o->threads, &rig->binding, err);
    if (status == QN_OK)
        status = qn_numa_begin(o->numa, rig->binding, NULL, &rig->numa, err);
    if (status == QN_OK)
        status = qn_pool_new(qn_cpu_binding_threads(rig->binding), &rig->pool, err);
    if (status == QN_OK)
        qn_pool_bind(rig->pool, rig->binding);
    if (status == QN_OK)
        status = qn_part_clock_new(qn_pool_threads(rig->pool), &rig->clock, err);
    const qn_model_options options = {.kernels = rig->kernels,
                                      .pool = rig->pool,
                                      .max_rows = o->max_rows,
                                      .max_context_tokens = o->context_tokens,
                                      .expert_cache_bytes = o->expert_cache_bytes};
    if (status == QN_OK)
        status = qn_model_open(o->checkpoint, &options, &rig->model, err);
    if (status == QN_OK)
        qn_model_time_parts(rig->model, rig->clock);
    return status;
}

static qn_status open_caches(qn_model_rig *rig, const qn_model_rig_options *o, qn_error *err)
{
    qn_kv_layout layout;
    qn_status status = qn_model_kv_layout(rig->model, BLOCK_TOKENS, &layout, err);
    size_t blocks = qn_ceil_div(o->context_tokens, BLOCK_TOKENS) * o->sequences;
    if (status == QN_OK)
        status = qn_kv_pool_new(&layout, blocks, true, &rig->blocks, err);
    if (status != QN_OK)
        return status;
    rig->sequence = qn_alloc_zero(o->sequences, sizeof *rig->sequence);
    if (!rig->sequence)
        return qn_fail_memory(err, "sequences of the bench", o->sequences * sizeof *rig->sequence);
    for (; rig->sequences < o->sequences && status == QN_OK; rig->sequences++) {
        status = qn_kv_sequence_init(&rig->sequence[rig->sequences], rig->blocks, o->context_tokens, err);
        if (status == QN_OK)
            status = qn_kv_sequence_reserve(&rig->sequence[rig->sequences], o->context_tokens, err);
    }
    rig->fill_width = qn_max_size(layout.latent_width, layout.index_width);
    return status;
}

static qn_status open_buffers(qn_model_rig *rig, const qn_model_rig_options *o, qn_error *err)
{
    const qn_config *c = qn_model_config(rig->model);
    rig->segment = qn_alloc_zero(o->sequences, sizeof *rig->segment);
    rig->ids = qn_alloc_zero(o->max_rows, sizeof *rig->ids);
    rig->hidden = qn_alloc_aligned(o->max_rows * c->hidden_size, sizeof *rig->hidden);
    rig->logits = qn_alloc_aligned(o->logit_rows * c->vocab_size, sizeof *rig->logits);
    rig->chosen = qn_alloc_zero(o->logit_rows, sizeof *rig->chosen);
    rig->logit_rows = qn_alloc_zero(o->logit_rows, sizeof *rig->logit_rows);
    rig->fill = qn_alloc_aligned(qn_pool_threads(rig->pool) * rig->fill_width, sizeof *rig->fill);
    if (!rig->segment || !rig->ids || !rig->hidden || !rig->logits || !rig->chosen || !rig->logit_rows || !rig->fill)
        return qn_fail_memory(err, "buffers of the bench",
                              (o->max_rows * c->hidden_size + o->logit_rows * c->vocab_size) * sizeof(float));
    for (size_t i = 0; i < o->logit_rows; i++)
        rig->logit_rows[i] = rig->logits + i * c->vocab_size;
    return QN_OK;
}

/* Whether what is left of the memory holds the weights. */
static bool weights_fit(const qn_model_rig *rig, size_t weights)
{
    const qn_expert_cache *cache = qn_model_expert_cache(rig->model);
    size_t taken = cache ? qn_expert_cache_memory(cache) : 0, available = qn_memory_available("");
    return available > 0 && (double)weights <= QN_USABLE_MEMORY_SHARE * (double)(available + taken);
}

static qn_status load_weights(qn_model_rig *rig, const qn_model_rig_options *o, qn_error *err)
{
    const qn_residence_options load = {.pack_dense = qn_load_packs_dense(o->load, o->pack_dense, rig->kernels),
                                       .stop = o->stop};
    size_t saved = load.pack_dense ? qn_model_packing_saves(rig->model) : 0;
    size_t weights = qn_model_weight_bytes(rig->model) - saved;
    char text[QN_MEMORY_TEXT_BYTES];
    rig->resident = o->load != QN_LOAD_MAPPED && weights_fit(rig, weights);
    rig->packed = rig->resident && saved > 0;
    if (o->load == QN_LOAD_RESIDENT && !rig->resident)
        return qn_fail_field(err, QN_RESOURCE, "load",
                             "--load: resident weights take %s, more than nine tenths of the memory that is left: give "
                             "fewer or smaller contexts, or --load mapped",
                             qn_memory_text(weights, text));
    if (o->pack_dense == QN_PACK_ON && !rig->resident)
        return qn_fail_field(err, QN_USAGE, "pack-dense",
                             "--pack-dense: on: mapped weights can't be packed: leave the option out");
    qn_log("bench: weights %s", !rig->resident ? "mapped, in 4 KiB pages"
                                : rig->packed  ? "resident, dense ones packed to 12 bits"
                                               : "resident");
    if (!rig->resident)
        return QN_OK;
    qn_status status = qn_model_load(rig->model, &load, err);
    if (status == QN_OK)
        qn_model_await_load(rig->model);
    if (status == QN_OK && o->stop && atomic_load(o->stop))
        return qn_fail(err, QN_CANCELLED, "bench: stopped while the weights were loaded: nothing was measured");
    return status;
}

qn_status qn_model_rig_open(const qn_model_rig_options *options, qn_model_rig **out, qn_error *err)
{
    qn_model_rig *rig = qn_alloc_zero(1, sizeof *rig);
    if (!rig)
        return qn_fail_memory(err, "bench of a model", sizeof *rig);
    rig->checkpoint = options->checkpoint;
    rig->random = state_of(options->seed);
    qn_status status = open_model(rig, options, err);
    if (status == QN_OK)
        status = open_caches(rig, options, err);
    if (status == QN_OK)
        status = open_buffers(rig, options, err);
    if (status == QN_OK) {
        qn_pool_run(rig->pool, rig->sequences * chunks_of_sequence(rig), fill_chunk, rig);
        status = load_weights(rig, options, err);
    }
    if (status != QN_OK) {
        qn_model_rig_close(rig);
        return status;
    }
    (void)qn_cpu_binding_bind(rig->binding, 0, pthread_self()); /* now that no more threads are started from it */
    *out = rig;
    return QN_OK;
}

void qn_model_rig_close(qn_model_rig *rig)
{
    if (!rig)
        return;
    qn_numa_end(&rig->numa);
    if (rig->binding)
        qn_cpu_binding_release(rig->binding, pthread_self());
    for (size_t i = 0; i < rig->sequences; i++)
        qn_kv_sequence_free(&rig->sequence[i]);
    void *const blocks[] = {rig->sequence, rig->segment, rig->ids,        rig->hidden,
                            rig->logits,   rig->chosen,  rig->logit_rows, rig->fill};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        qn_free(blocks[i]);
    qn_kv_pool_free(rig->blocks);
    qn_model_close(rig->model);
    qn_part_clock_free(rig->clock);
    qn_pool_free(rig->pool);
    qn_cpu_binding_free(rig->binding);
    qn_free(rig);
}

const qn_model *qn_model_rig_model(const qn_model_rig *rig)
{
    return rig->model;
}

qn_pool *qn_model_rig_pool(qn_model_rig *rig)
{
    return rig->pool;
}

const qn_kernels *qn_model_rig_kernels(const qn_model_rig *rig)
{
    return rig->kernels;
}

bool qn_model_rig_is_resident(const qn_model_rig *rig)
{
    return rig->resident;
}

bool qn_model_rig_is_packed(const qn_model_rig *rig)
{
    return rig->packed;
}

size_t qn_model_rig_cache_bytes(const qn_model_rig *rig)
{
    return qn_kv_pool_bytes(rig->blocks);
}

typedef struct touch {
    const uint8_t *data;
    size_t bytes;
    _Atomic uint8_t sum; /* keeps the loads from being left out */
} touch;

static void touch_piece(void *context, size_t item, size_t worker)
{
    (void)worker;
    touch *t = context;
    size_t last = qn_min_size((item + 1) * TOUCH_BYTES, t->bytes);
    uint8_t sum = 0;
    for (size_t i = item * TOUCH_BYTES; i < last; i += PAGE_BYTES)
        sum ^= t->data[i];
    t->sum ^= sum;
}

void qn_model_rig_touch_weights(qn_model_rig *rig)
{
    if (rig->resident || qn_model_expert_cache(rig->model))
        return;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(rig->checkpoint); i++) {
        const char *file;
        const qn_tensor *tensor = qn_checkpoint_tensor(rig->checkpoint, i, &file);
        touch t = {.data = tensor->data, .bytes = tensor->bytes};
        qn_pool_run(rig->pool, qn_ceil_div(t.bytes, TOUCH_BYTES), touch_piece, &t);
    }
}

uint64_t qn_model_rig_tokens(const qn_model_rig *rig)
{
    return rig->random;
}

void qn_model_rig_set_tokens(qn_model_rig *rig, uint64_t state)
{
    rig->random = state;
}

/* Returns the number of rows in rig->chosen. */
static size_t lay_out_call(qn_model_rig *rig, size_t sequences, size_t start, size_t rows, qn_rig_logits logits)
{
    const qn_config *c = qn_model_config(rig->model);
    for (size_t i = 0; i < sequences * rows; i++)
        rig->ids[i] = (int32_t)(next_random(&rig->random) % c->vocab_size);
    const size_t wanted = logits == QN_RIG_ALL_LOGITS ? rows : logits == QN_RIG_LAST_LOGITS ? 1 : 0;
    for (size_t i = 0; i < sequences; i++) {
        rig->segment[i] = (qn_segment){.sequence = &rig->sequence[i],
                                       .ids = rig->ids + i * rows,
                                       .start = start,
                                       .count = rows,
                                       .unwanted = rows - wanted};
    }
    size_t step = logits == QN_RIG_ALL_LOGITS ? 1 : rows, chosen = 0;
    for (size_t row = step - 1; row < sequences * rows && logits != QN_RIG_NO_LOGITS; row += step)
        rig->chosen[chosen++] = rig->hidden + row * c->hidden_size;
    return chosen;
}

static void add_figures(qn_pool_figures *sum, const qn_pool_figures *before, const qn_pool *pool)
{
    const qn_pool_figures after = qn_pool_get_figures(pool);
    sum->loops += after.loops - before->loops;
    sum->loop_ns += after.loop_ns - before->loop_ns;
    sum->worked_ns += after.worked_ns - before->worked_ns;
    sum->sleeps += after.sleeps - before->sleeps;
}

qn_status qn_model_rig_call(qn_model_rig *rig, size_t sequences, size_t start, size_t rows, qn_rig_logits logits,
                            qn_call_times *times, qn_error *err)
{
    size_t chosen = lay_out_call(rig, sequences, start, rows, logits);
    const qn_pool_figures before = qn_pool_get_figures(rig->pool);
    uint64_t began = qn_now_ns();
    qn_part_clock_start(rig->clock);
    qn_status status = qn_model_forward(rig->model, rig->segment, sequences, rig->hidden, NULL, err);
    if (status == QN_OK)
        qn_model_logits(rig->model, rig->chosen, chosen, rig->logit_rows);
    qn_part_mark(rig->clock, QN_PART_REST);
    uint64_t ended = qn_now_ns();
    if (status != QN_OK)
        return status;
    times->seconds += (double)(ended - began) / 1e9;
    add_figures(&times->pool, &before, rig->pool);
    for (qn_model_part p = 0; p < QN_PARTS; p++)
        times->part_seconds[p] += (double)qn_part_clock_ns(rig->clock, p) / 1e9;
    size_t experts = qn_part_clock_experts(rig->clock);
    times->experts += experts;
    qn_model_add_work(rig->model, rig->segment, sequences, experts, chosen, times->work);
    return QN_OK;
}
