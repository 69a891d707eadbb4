#include "engine/perplexity.h"

#include <math.h>

#include "engine/pass.h"
#include "engine/windows.h"

typedef struct scorer {
    const int32_t *ids; /* of the window */
    size_t count, vocab;
    qn_collect *collect; /* NULL: not wanted */
    double sum;
    size_t scored;
} scorer;

/* -log softmax(logits)[token], in double. */
static double negative_log_likelihood(const float *logits, size_t vocab, int32_t token)
{
    double largest = (double)logits[0], sum = 0.0;
    for (size_t i = 1; i < vocab; i++) {
        largest = (double)logits[i] > largest ? (double)logits[i] : largest;
    }
    for (size_t i = 0; i < vocab; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return log(sum) + largest - (double)logits[token];
}

static qn_status score(void *context, size_t position, const float *logits, qn_error *err)
{
    (void)err;
    scorer *s = context;
    size_t predicted = position + 1;
    if (predicted < s->count) {
        s->sum += negative_log_likelihood(logits, s->vocab, s->ids[predicted]);
        s->scored++;
    }
    return QN_OK;
}

static qn_status hand_on(void *context, size_t start, size_t count, const float *hidden, qn_error *err)
{
    (void)err;
    const scorer *s = context;
    qn_collect_hidden(s->collect, start, count, hidden);
    return QN_OK;
}

static qn_status run_windows(qn_engine *engine, const int32_t *ids, qn_windows *windows, qn_collect *collect,
                             qn_perplexity *out, qn_error *err)
{
    scorer s = {.vocab = engine->config->vocab_size, .collect = collect};
    qn_row_sink sink = {.context = &s, .on_hidden = collect != NULL ? hand_on : NULL, .on_logits = score};
    const qn_observer observer = collect != NULL ? qn_collect_observer(collect) : (qn_observer){.context = NULL};
    uint64_t done = 0;
    qn_status status = QN_OK;
    qn_progress progress;
    qn_progress_start(&progress, "perplexity", "tokens", qn_windows_work(windows));
    for (qn_window window; status == QN_OK && qn_windows_next(windows, &window);) {
        s.ids = ids + window.begin;
        s.count = window.count;
        sink.first_logits = window.first_row;
        if (collect != NULL) {
            qn_collect_window(collect, &window);
        }
        status = qn_pass(engine, s.ids, s.count, collect != NULL ? &observer : NULL, &sink, &progress, &done, err);
        if (status == QN_OK && collect != NULL) {
            status = qn_collect_mtp(collect, s.ids, err);
        }
        out->windows++;
    }
    qn_progress_finish(&progress);
    out->scored = s.scored;
    out->mean_nll = s.sum / (double)s.scored;
    out->perplexity = exp(out->mean_nll);
    return status;
}

qn_status qn_measure_perplexity(qn_engine *engine, const int32_t *ids, size_t count, size_t context, size_t stride,
                                qn_collect *collect, qn_perplexity *out, qn_error *err)
{
    qn_windows windows;
    qn_status status = qn_windows_start(count, context, stride, engine->max_model_len, &windows, err);
    if (status == QN_OK) {
        status = qn_check_ids(engine, "ids", "", ids, count, err);
    }
    if (status != QN_OK) {
        return status;
    }
    *out = (qn_perplexity){.tokens = count};
    status = qn_measuring_begin(engine, err);
    if (status == QN_OK) {
        status = run_windows(engine, ids, &windows, collect, out, err);
        qn_measuring_end(engine);
    }
    return status;
}
