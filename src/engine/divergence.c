/* The models alternate chunk by chunk. A chunk's hidden states lie in each engine's own buffer, and logits are computed
 * from them a few rows at a time for both: neither a window's logits nor even a chunk's, 317 MB for 512 rows of GLM-5's
 * vocabulary, are ever held. */
#include "engine/divergence.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "base/size.h"
#include "base/amounts.h"
#include "base/system_memory.h"
#include "engine/pass.h"
#include "engine/windows.h"

enum { BINS_PER_DECADE = 2, FIRST_DECADE = -7 };

/* Of one position. */
typedef struct comparison {
    double kl, nll_a, nll_b;
    bool same_top;
} comparison;

typedef struct measurement {
    qn_engine *a, *b;
    qn_logit_block logits_a, logits_b;
    const int32_t *ids; /* of the window */
    size_t block_row;   /* of the window, the first of the blocks */
    comparison rows[QN_LOGIT_ROWS];
    double *kl; /* [count - 1]: of the positions scored so far */
    size_t scored, same_top;
    double kl_sum, nll_a_sum, nll_b_sum;
} measurement;

double qn_divergence_bin_begin(size_t bin)
{
    return bin == 0 ? 0.0 : pow(10.0, FIRST_DECADE + (double)(bin - 1) / BINS_PER_DECADE);
}

static size_t largest_of(const float *logits, size_t vocab)
{
    size_t best = 0;
    for (size_t v = 1; v < vocab; v++) {
        best = logits[v] > logits[best] ? v : best;
    }
    return best;
}

/* With p_v = exp(a_v - lse_a): sum p_v (a_v - b_v) - lse_a + lse_b. One exponential for each logit. */
static comparison compare(const float *a, const float *b, size_t vocab, int32_t token)
{
    size_t top_a = largest_of(a, vocab), top_b = largest_of(b, vocab);
    double largest_a = (double)a[top_a], largest_b = (double)b[top_b];
    double sum_a = 0.0, sum_b = 0.0, difference = 0.0;
    for (size_t v = 0; v < vocab; v++) {
        double weight = exp((double)a[v] - largest_a);
        sum_a += weight;
        sum_b += exp((double)b[v] - largest_b);
        difference += weight * ((double)a[v] - (double)b[v]);
    }
    double lse_a = log(sum_a) + largest_a, lse_b = log(sum_b) + largest_b;
    double kl = difference / sum_a - (lse_a - lse_b);
    return (comparison){.kl = kl > 0.0 ? kl : 0.0,
                        .nll_a = lse_a - (double)a[token],
                        .nll_b = lse_b - (double)b[token],
                        .same_top = top_a == top_b};
}

/* qn_pool_body: a row of the blocks. */
static void compare_row(void *context, size_t row, size_t worker)
{
    (void)worker;
    measurement *m = context;
    m->rows[row] = compare(m->logits_a.rows[row], m->logits_b.rows[row], m->a->config->vocab_size,
                           m->ids[m->block_row + row + 1]);
}

static qn_status name_model(qn_status status, const char *model, qn_error *err)
{
    return status == QN_OK ? QN_OK : qn_error_prefix(err, "model %s", model);
}

/* Rows first .. first + rows - 1 of the chunk that began at `start`, whose hidden states both engines hold. */
static qn_status compare_rows(measurement *m, size_t start, size_t first, size_t rows, qn_error *err)
{
    const float *hidden_a = m->a->batch.hidden + first * m->a->config->hidden_size;
    const float *hidden_b = m->b->batch.hidden + first * m->b->config->hidden_size;
    m->block_row = start + first;
    qn_status status = name_model(qn_pass_logits(m->a, hidden_a, m->block_row, rows, &m->logits_a, err), "A", err);
    if (status == QN_OK) {
        status = name_model(qn_pass_logits(m->b, hidden_b, m->block_row, rows, &m->logits_b, err), "B", err);
    }
    if (status != QN_OK) {
        return status;
    }
    qn_pool_run(m->a->pool, rows, compare_row, m);
    for (size_t r = 0; r < rows; r++) {
        m->kl[m->scored++] = m->rows[r].kl;
        m->kl_sum += m->rows[r].kl;
        m->nll_a_sum += m->rows[r].nll_a;
        m->nll_b_sum += m->rows[r].nll_b;
        m->same_top += m->rows[r].same_top;
    }
    return QN_OK;
}

/* The chunk's rows that the window scores. */
static qn_status compare_chunk(measurement *m, const qn_window *window, size_t start, size_t rows, qn_error *err)
{
    qn_status status = QN_OK;
    size_t first = window->first_row > start ? window->first_row - start : 0;
    size_t end = qn_min_size(rows, window->count - 1 - start);
    for (size_t n; status == QN_OK && first < end; first += n) {
        n = qn_min_size(QN_LOGIT_ROWS, end - first);
        status = compare_rows(m, start, first, n, err);
    }
    return status;
}

static qn_status run_window(measurement *m, const qn_window *window, qn_progress *progress, uint64_t *done,
                            qn_error *err)
{
    size_t chunk = qn_min_size(m->a->max_rows, m->b->max_rows);
    qn_status status = name_model(qn_pass_begin(m->a, window->count, err), "A", err);
    if (status == QN_OK) {
        status = name_model(qn_pass_begin(m->b, window->count, err), "B", err);
    }
    for (size_t start = 0, rows; status == QN_OK && start < window->count; start += rows) {
        rows = qn_min_size(chunk, window->count - start);
        status = name_model(qn_pass_chunk(m->a, m->ids + start, start, rows, NULL, err), "A", err);
        if (status == QN_OK) {
            status = name_model(qn_pass_chunk(m->b, m->ids + start, start, rows, NULL, err), "B", err);
        }
        if (status == QN_OK) {
            status = compare_chunk(m, window, start, rows, err);
        }
        *done += rows;
        qn_progress_update(progress, *done);
    }
    return status;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static size_t bin_of(double kl)
{
    size_t bin = 0;
    while (bin + 1 < QN_DIVERGENCE_BINS && kl >= qn_divergence_bin_begin(bin + 1)) {
        bin++;
    }
    return bin;
}

/* n >= 1; sorts kl. */
static void summarise(measurement *m, qn_divergence *out)
{
    size_t n = m->scored;
    double squares = 0.0;
    out->scored = n;
    out->mean_kl = m->kl_sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        squares += (m->kl[i] - out->mean_kl) * (m->kl[i] - out->mean_kl);
        out->histogram[bin_of(m->kl[i])]++;
    }
    out->mean_kl_error = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0.0;
    qsort(m->kl, n, sizeof *m->kl, compare_doubles);
    out->median_kl = (m->kl[(n - 1) / 2] + m->kl[n / 2]) / 2.0;
    out->p99_kl = m->kl[n - 1 - n / 100];
    out->max_kl = m->kl[n - 1];
    out->top1_agreement = (double)m->same_top / (double)n;
    out->mean_nll_a = m->nll_a_sum / (double)n;
    out->mean_nll_b = m->nll_b_sum / (double)n;
    out->perplexity_a = exp(out->mean_nll_a);
    out->perplexity_b = exp(out->mean_nll_b);
}

/* Each engine has told its own plan as if it were alone. */
static void tell_memory(const measurement *m, size_t bytes)
{
    char text[QN_MEMORY_TEXT_BYTES], left[QN_MEMORY_TEXT_BYTES];
    size_t weights = qn_model_weight_bytes(m->a->model) + qn_model_weight_bytes(m->b->model);
    size_t available = qn_memory_available("");
    qn_log("memory: comparing takes %s more: logits of %d rows of each model, and a number for each token",
           qn_memory_text(bytes, text), QN_LOGIT_ROWS);
    if (available > 0 && weights > available) {
        qn_log("memory: the weights of both models are %s and %s are available: they will be read from disk again and "
               "again: a larger --max-num-batched-tokens takes fewer turns",
               qn_memory_text(weights, text), qn_memory_text(available, left));
    }
}

static qn_status allocate(measurement *m, size_t count, qn_error *err)
{
    tell_memory(m, qn_logit_block_bytes(m->a) + qn_logit_block_bytes(m->b) + (count - 1) * sizeof *m->kl);
    m->kl = qn_alloc(count - 1, sizeof *m->kl);
    if (m->kl == NULL) {
        return qn_fail_memory(err, "the divergence of each token", (count - 1) * sizeof *m->kl);
    }
    qn_status status = qn_logit_block_new(m->a, &m->logits_a, err);
    return status == QN_OK ? qn_logit_block_new(m->b, &m->logits_b, err) : status;
}

static qn_status run_windows(measurement *m, const int32_t *ids, qn_windows *windows, qn_divergence *out, qn_error *err)
{
    uint64_t done = 0;
    qn_status status = QN_OK;
    qn_progress progress;
    qn_progress_start(&progress, "divergence", "tokens", qn_windows_work(windows));
    for (qn_window window; status == QN_OK && qn_windows_next(windows, &window);) {
        m->ids = ids + window.begin;
        status = run_window(m, &window, &progress, &done, err);
        out->windows++;
    }
    qn_progress_finish(&progress);
    return status;
}

qn_status qn_check_comparable(const qn_engine *a, const qn_engine *b, qn_error *err)
{
    size_t vocab_a = a->config->vocab_size, vocab_b = b->config->vocab_size;
    if (vocab_a != vocab_b) {
        return qn_fail(err, QN_BAD_INPUT,
                       "%s, %s: their vocab_size is %zu and %zu: only models with one vocabulary can be compared",
                       qn_checkpoint_dir(a->checkpoint), qn_checkpoint_dir(b->checkpoint), vocab_a, vocab_b);
    }
    return QN_OK;
}

static qn_status begin_both(qn_engine *a, qn_engine *b, qn_error *err)
{
    qn_status status = qn_measuring_begin(a, err);
    if (status == QN_OK && (status = qn_measuring_begin(b, err)) != QN_OK) {
        qn_measuring_end(a);
    }
    return status;
}

qn_status qn_measure_divergence(qn_engine *a, qn_engine *b, const int32_t *ids, size_t count, size_t context,
                                size_t stride, qn_divergence *out, qn_error *err)
{
    qn_windows windows;
    measurement m = {.a = a, .b = b};
    qn_status status = qn_check_comparable(a, b, err);
    if (status == QN_OK) {
        status = qn_windows_start(count, context, stride, qn_min_size(a->max_model_len, b->max_model_len), &windows,
                                  err);
    }
    if (status == QN_OK) {
        status = qn_check_ids(a, "ids", "", ids, count, err);
    }
    if (status != QN_OK) {
        return status;
    }
    *out = (qn_divergence){.tokens = count};
    status = begin_both(a, b, err);
    if (status != QN_OK) {
        return status;
    }
    status = allocate(&m, count, err);
    if (status == QN_OK) {
        status = run_windows(&m, ids, &windows, out, err);
    }
    if (status == QN_OK) {
        summarise(&m, out);
    }
    qn_measuring_end(b);
    qn_measuring_end(a);
    qn_logit_block_free(&m.logits_a);
    qn_logit_block_free(&m.logits_b);
    qn_free(m.kl);
    return status;
}
