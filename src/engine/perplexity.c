#include "engine/perplexity.h"

#include <math.h>

#include "base/size.h"
#include "engine/pass.h"

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

/* Tokens that all windows together compute, for the progress bar. */
static uint64_t total_work(size_t count, size_t context, size_t stride)
{
    uint64_t total = 0;
    for (size_t begin = 0;; begin += stride) {
        total += qn_min_size(context, count - begin);
        if (count - begin <= context) {
            return total;
        }
    }
}

static qn_status run_windows(qn_engine *engine, const int32_t *ids, size_t count, size_t context, size_t stride,
                             qn_perplexity *out, qn_error *err)
{
    scorer s = {.vocab = engine->config->vocab_size};
    qn_row_sink sink = {.context = &s, .on_logits = score};
    uint64_t done = 0;
    size_t scored_to = 1; /* tokens below have been scored, or can't be */
    qn_status status = QN_OK;
    qn_progress progress;
    qn_progress_start(&progress, "perplexity", "tokens", total_work(count, context, stride));
    for (size_t begin = 0; status == QN_OK && scored_to < count; begin += stride) {
        s.ids = ids + begin;
        s.count = qn_min_size(context, count - begin);
        sink.first_logits = scored_to - begin - 1; /* they predict the first token not scored yet */
        status = qn_pass(engine, s.ids, s.count, NULL, &sink, &progress, &done, err);
        scored_to = begin + s.count;
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
    if (context < 2 || context > engine->max_model_len) {
        return qn_fail_field(err, QN_USAGE, "context", "--context: %zu is out of range: give 2 to %zu", context,
                             engine->max_model_len);
    }
    if (stride < 1 || stride >= context) {
        return qn_fail_field(err, QN_USAGE, "stride", "--stride: %zu is out of range: give 1 to %zu", stride,
                             context - 1);
    }
    if (count < 2) {
        return qn_fail(err, QN_BAD_INPUT, "text: %zu tokens can't be scored: give at least two", count);
    }
    *out = (qn_perplexity){.tokens = count};
    qn_turnstile_enter(&engine->turnstile, NULL, NULL);
    qn_status status = run_windows(engine, ids, count, context, stride, out, err);
    qn_turnstile_leave(&engine->turnstile);
    return status;
}
