/* The file's order is the order of computing: logits go out as they come, the layers' values are kept and follow, then
 * the MTP pass does the same. */
#include "engine/dump.h"

#include <string.h>

#include "base/amounts.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/safetensors_writer.h"
#include "engine/pass.h"
#include "engine/record.h"

typedef struct dump {
    qn_engine *engine;
    const qn_dump_options *options;
    const int32_t *ids;
    size_t count;
    qn_safetensors_writer *writer;
    qn_record *layers, *mtp; /* NULL: not asked for */
    float *final_norm;       /* [count, hidden_size], when hidden or mtp is asked for */
    int32_t *next_ids;       /* [count], for mtp */
    float *last_output;      /* [hidden_size]: the MTP layer's, at the last row */
    float *chain_output[2];  /* [hidden_size] each: the chain's latest, and room for its next */
    int32_t *selected;       /* [index_topk] */
    float *chain_logits;     /* [chain, vocab]; row 0 is the last of mtp_logits */
} dump;

static int32_t greedy(dump *d, const float *logits)
{
    const qn_sampling sampling = qn_sampling_greedy();
    return qn_sample(d->engine->batch.samplers[0], &sampling, logits, 0);
}

static qn_status allocate(dump *d, qn_error *err)
{
    const qn_config *config = d->engine->config;
    size_t hidden = config->hidden_size, count = d->count, bytes = 0;
    qn_status status = QN_OK;
    if (d->options->hidden) {
        status = qn_record_new(config, count, false, &d->layers, err);
        bytes += status == QN_OK ? qn_record_bytes(d->layers) : 0;
    }
    if (status == QN_OK && d->options->mtp) {
        status = qn_record_new(config, count, true, &d->mtp, err);
        bytes += status == QN_OK ? qn_record_bytes(d->mtp) : 0;
    }
    if (status != QN_OK || (!d->options->hidden && !d->options->mtp)) {
        return status;
    }
    d->final_norm = qn_alloc(count, hidden * sizeof *d->final_norm);
    d->next_ids = qn_alloc(count, sizeof *d->next_ids);
    d->last_output = qn_alloc_aligned(hidden, sizeof *d->last_output);
    d->chain_output[0] = qn_alloc_aligned(hidden, sizeof(float));
    d->chain_output[1] = qn_alloc_aligned(hidden, sizeof(float));
    d->selected = qn_alloc(config->index_topk, sizeof *d->selected);
    d->chain_logits = qn_alloc_aligned(d->options->chain + 1, config->vocab_size * sizeof *d->chain_logits);
    bytes += count * (hidden * sizeof(float) + sizeof(int32_t)) +
             (d->options->chain + 1) * config->vocab_size * sizeof(float);
    if (d->final_norm == NULL || d->next_ids == NULL || d->last_output == NULL || d->chain_output[0] == NULL ||
        d->chain_output[1] == NULL || d->selected == NULL || d->chain_logits == NULL) {
        return qn_fail_memory(err, "recorded values", bytes);
    }
    char text[QN_MEMORY_TEXT_BYTES];
    qn_log("memory: recorded values %s", qn_memory_text(bytes, text));
    return QN_OK;
}

static void release(dump *d)
{
    qn_safetensors_writer_free(d->writer);
    qn_record_free(d->layers);
    qn_record_free(d->mtp);
    qn_free(d->final_norm);
    qn_free(d->next_ids);
    qn_free(d->last_output);
    qn_free(d->chain_output[0]);
    qn_free(d->chain_output[1]);
    qn_free(d->selected);
    qn_free(d->chain_logits);
}

static qn_status declare(dump *d, const char *name, size_t rows, size_t width, qn_error *err)
{
    const size_t shape[] = {rows, width};
    return qn_safetensors_writer_declare(d->writer, name, QN_DTYPE_F32, 2, shape, err);
}

static qn_status declare_all(dump *d, qn_error *err)
{
    const qn_config *config = d->engine->config;
    size_t vocab = config->vocab_size;
    qn_status status = declare(d, "logits", d->count, vocab, err);
    if (status == QN_OK && d->options->hidden) {
        status = qn_record_declare(d->layers, d->writer, err);
    }
    if (status == QN_OK && d->options->hidden) {
        status = declare(d, "final_norm", d->count, config->hidden_size, err);
    }
    if (status == QN_OK && d->options->mtp) {
        status = declare(d, "mtp_logits", d->count, vocab, err);
    }
    if (status == QN_OK && d->options->mtp) {
        status = qn_record_declare(d->mtp, d->writer, err);
    }
    if (status == QN_OK && d->options->chain > 0) {
        status = declare(d, "mtp_chain_shared_indices", d->options->chain, vocab, err);
    }
    if (status == QN_OK && d->options->chain > 0) {
        status = declare(d, "mtp_chain_own_indices", d->options->chain, vocab, err);
    }
    return status;
}

static qn_status append_floats(dump *d, const float *values, size_t count, qn_error *err)
{
    return qn_safetensors_writer_append(d->writer, values, count * sizeof *values, err);
}

static qn_status keep_final_norm(void *context, size_t start, size_t count, const float *hidden, qn_error *err)
{
    (void)err;
    dump *d = context;
    size_t width = d->engine->config->hidden_size;
    memcpy(d->final_norm + start * width, hidden, count * width * sizeof *hidden);
    return QN_OK;
}

static qn_status write_logits(void *context, size_t position, const float *logits, qn_error *err)
{
    dump *d = context;
    if (d->next_ids != NULL && position + 1 < d->count) {
        d->next_ids[position] = d->ids[position + 1];
    } else if (d->next_ids != NULL) {
        d->next_ids[position] = greedy(d, logits);
    }
    return append_floats(d, logits, d->engine->config->vocab_size, err);
}

static qn_status run_target(dump *d, qn_error *err)
{
    qn_observer observer = d->layers != NULL ? qn_record_observer(d->layers) : (qn_observer){.context = NULL};
    const qn_row_sink sink = {.context = d,
                              .on_hidden = d->final_norm != NULL ? keep_final_norm : NULL,
                              .on_logits = write_logits};
    uint64_t done = 0;
    qn_progress progress;
    qn_progress_start(&progress, "logits", "tokens", d->count);
    qn_status status = qn_pass(d->engine, d->ids, d->count, d->layers != NULL ? &observer : NULL, &sink, &progress,
                               &done, err);
    qn_progress_finish(&progress);
    if (status == QN_OK && d->options->hidden) {
        status = qn_record_append(d->layers, d->writer, err);
    }
    if (status == QN_OK && d->options->hidden) {
        status = append_floats(d, d->final_norm, d->count * d->engine->config->hidden_size, err);
    }
    return status;
}

static qn_status keep_last_output(void *context, size_t start, size_t count, const float *hidden, qn_error *err)
{
    (void)err;
    dump *d = context;
    size_t width = d->engine->config->hidden_size;
    if (start + count == d->count) {
        memcpy(d->last_output, hidden + (count - 1) * width, width * sizeof *hidden);
    }
    return QN_OK;
}

static qn_status write_mtp_logits(void *context, size_t position, const float *logits, qn_error *err)
{
    dump *d = context;
    size_t vocab = d->engine->config->vocab_size;
    if (position + 1 == d->count) {
        memcpy(d->chain_logits, logits, vocab * sizeof *logits);
    }
    return append_floats(d, logits, vocab, err);
}

/* Drafts after the first, each from the one before; shared: with the first one's keys. */
static qn_status run_chain(dump *d, qn_mtp_selection *selection, bool shared, qn_error *err)
{
    qn_engine *engine = d->engine;
    size_t vocab = engine->config->vocab_size, chain = d->options->chain;
    const float *state = d->last_output;
    qn_status status = qn_kv_sequence_reserve(&engine->slots[0].sequence, d->count + chain, err);
    for (size_t step = 1; status == QN_OK && step < chain; step++) {
        int32_t draft = greedy(d, d->chain_logits + (step - 1) * vocab);
        const qn_mtp_segment segment = {.sequence = &engine->slots[0].sequence,
                                        .next_ids = &draft,
                                        .hidden = state,
                                        .start = d->count - 1 + step,
                                        .count = 1,
                                        .selection = shared ? selection : NULL,
                                        .reuse_selection = shared};
        status = qn_model_mtp(engine->model, &segment, 1, d->chain_output[step % 2], NULL, err);
        state = d->chain_output[step % 2];
        float *logits = d->chain_logits + step * vocab;
        if (status == QN_OK) {
            qn_model_mtp_logits(engine->model, &state, 1, &logits);
        }
    }
    return status == QN_OK ? append_floats(d, d->chain_logits, chain * vocab, err) : status;
}

static qn_status run_mtp(dump *d, qn_error *err)
{
    qn_mtp_selection selection = {.positions = d->selected};
    qn_observer observer = qn_record_observer(d->mtp);
    const qn_row_sink sink = {.context = d, .on_hidden = keep_last_output, .on_logits = write_mtp_logits};
    qn_status status = qn_pass_mtp(d->engine, d->next_ids, d->final_norm, d->count, &selection, &observer, &sink, err);
    if (status == QN_OK) {
        status = qn_record_append(d->mtp, d->writer, err);
    }
    if (status == QN_OK && d->options->chain > 0) {
        status = run_chain(d, &selection, true, err);
    }
    if (status == QN_OK && d->options->chain > 0) {
        status = run_chain(d, &selection, false, err);
    }
    return status;
}

static qn_status run(dump *d, const char *path, qn_error *err)
{
    qn_status status = allocate(d, err);
    if (status == QN_OK) {
        status = qn_safetensors_writer_new(&d->writer, err);
    }
    if (status == QN_OK) {
        status = declare_all(d, err);
    }
    if (status == QN_OK) {
        status = qn_safetensors_writer_begin(d->writer, path, err);
    }
    if (status == QN_OK) {
        status = run_target(d, err);
    }
    if (status == QN_OK && d->options->mtp) {
        status = run_mtp(d, err);
    }
    return status == QN_OK ? qn_safetensors_writer_finish(d->writer, err) : status;
}

size_t qn_dump_room(const qn_dump_options *options)
{
    return options->chain > 0 ? options->chain : options->mtp ? 1 : 0;
}

static qn_status check(const qn_engine *engine, const int32_t *ids, size_t count, const qn_dump_options *options,
                       qn_error *err)
{
    if (count == 0) {
        return qn_fail(err, QN_USAGE, "ids: there are none: give at least one token id");
    }
    size_t after = qn_dump_room(options);
    if (count > engine->max_model_len || after > engine->max_model_len - count) {
        return qn_fail(err, QN_USAGE, "ids: %zu tokens and %zu after them exceed max_model_len %zu: give fewer", count,
                       after, engine->max_model_len);
    }
    if (options->chain > QN_DUMP_MAX_CHAIN || (options->chain > 0 && !options->mtp)) {
        return qn_fail_field(err, QN_USAGE, "chain", "chain: give 1 to %d, with mtp", QN_DUMP_MAX_CHAIN);
    }
    if (options->mtp && engine->config->num_nextn_predict_layers == 0) {
        return qn_fail_field(err, QN_USAGE, "mtp", "mtp: the checkpoint has no MTP layer: leave it out");
    }
    return qn_check_ids(engine, "ids", "", ids, count, err);
}

qn_status qn_dump_logits(qn_engine *engine, const int32_t *ids, size_t count, const qn_dump_options *options,
                         const char *path, qn_error *err)
{
    qn_status status = check(engine, ids, count, options, err);
    if (status != QN_OK) {
        return status;
    }
    dump d = {.engine = engine, .options = options, .ids = ids, .count = count};
    status = qn_measuring_begin(engine, err);
    if (status == QN_OK) {
        status = run(&d, path, err);
        qn_measuring_end(engine);
    }
    release(&d);
    return status;
}
