#include "engine/perplexity.h"

#include <math.h>

#include "engine/pass.h"
#include "engine/windows.h"

typedef struct scorer {
    const int32_t *ids; /* of the window */
    size_t count, vocab;
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

static qn_status run_windows(qn_engine *engine, const int32_t *ids, qn_windows *windows, qn_perplexity *out,
                             qn_error *err)
{
    scorer s = {.vocab = engine->config->vocab_size};
    qn_row_sink sink = {.context = &s, .on_logits = score};
    uint64_t done = 0;
    qn_status status = QN_OK;
    qn_progress progress;
    qn_progress_start(&progress, "perplexity", "tokens", qn_windows_work(windows));
    for (qn_window window; status == QN_OK && qn_windows_next(windows, &window);) {
        s.ids = ids + window.begin;
        s.count = window.count;
        sink.first_logits = window.first_row;
        status = qn_pass(engine, s.ids, s.count, NULL, &sink, &progress, &done, err);
        out->windows++;
    }
    qn_progress_finish(&progress);
    out->scored = s.scored;
    out->mean_nll = s.sum / (double)s.scored;
    out->perplexity = exp(out->mean_nll);
    return status;
}

qn_status qn_measure_perplexity(qn_engine *engine, const int32_t *ids, size_t count, size_t context, size_t stride,
                                qn_perplexity *out, qn_error *err)
{
    qn_windows windows;
    qn_status status = qn_windows_start(count, context, stride, engine->max_model_len, &windows, err);
    if (status == QN_OK) {
        status = qn_check_ids(engine, ids, count, err);
    }
    if (status != QN_OK) {
        return status;
    }
    *out = (qn_perplexity){.tokens = count};
    qn_turnstile_enter(&engine->turnstile, NULL, NULL);
    status = run_windows(engine, ids, &windows, out, err);
    qn_turnstile_leave(&engine->turnstile);
    return status;
}
