#include "bench/serve_load.h"

#include <math.h>

#include "base/progress.h"
#include "base/size.h"

/* ---- how long a word is ---- */

typedef struct asking {
    const qn_serve_target *target;
    size_t sent;
    size_t prompt_tokens[2];
    qn_call_outcome outcome; /* of the last call */
    qn_error err;
} asking;

static qn_order_state calibration_next(void *context, size_t client, qn_order *out)
{
    (void)client;
    asking *c = context;
    if (c->sent == 2 || (c->sent == 1 && c->outcome != QN_CALL_FINISHED))
        return QN_ORDER_NONE;
    const qn_serve_body body = {.model = c->target->model, .max_tokens = 1};
    qn_buffer text = {0};
    qn_serve_all_words(c->sent + 1, &text);
    qn_serve_body_text(&body, &text, &out->body);
    qn_buffer_free(&text);
    out->id = c->sent++;
    out->retry = true;
    return QN_ORDER_SEND;
}

static void calibration_done(void *context, const qn_call *call)
{
    asking *c = context;
    c->outcome = call->outcome;
    c->prompt_tokens[call->id] = call->answer.prompt_tokens;
    if (call->outcome == QN_CALL_FAILED)
        c->err = call->err;
}

qn_status qn_serve_calibrate(const qn_serve_target *target, const atomic_bool *stop, qn_serve_calibration *out,
                             qn_error *err)
{
    asking c = {.target = target, .outcome = QN_CALL_CUT_OFF};
    const qn_orders orders = {.context = &c, .next = calibration_next, .done = calibration_done};
    qn_status status = qn_serve_clients_run(target, 1, &orders, stop, err);
    if (status != QN_OK)
        return status;
    if (c.outcome == QN_CALL_CUT_OFF)
        return qn_fail(err, QN_CANCELLED, "bench: stopped before it began: nothing was measured");
    if (c.outcome != QN_CALL_FINISHED) {
        *err = c.err;
        err->status = QN_FAILED;
        return qn_error_prefix(err, "first request");
    }
    if (c.prompt_tokens[1] <= c.prompt_tokens[0])
        return qn_fail(err, QN_FAILED, "server: twice the text is %zu prompt tokens, once %zu: its usage is wrong",
                       c.prompt_tokens[1], c.prompt_tokens[0]);
    double words_tokens = (double)(c.prompt_tokens[1] - c.prompt_tokens[0]);
    out->tokens_per_word = words_tokens / QN_SERVE_WORDS;
    out->base_tokens = fmax((double)c.prompt_tokens[0] - words_tokens, 0);
    return QN_OK;
}

/* ---- requests ---- */

void qn_serve_request_text(const qn_serve_target *target, const qn_serve_calibration *calibration,
                           const qn_serve_workload *w, uint32_t cell, uint32_t index, qn_buffer *out)
{
    double per_word = calibration->tokens_per_word;
    double words = round(((double)w->prompt_tokens - calibration->base_tokens) / per_word);
    double shared = round((double)w->shared_prefix_tokens / per_word);
    const qn_serve_prompt prompt = {.seed = w->seed,
                                    .cell = cell,
                                    .index = index,
                                    .shared_words = (size_t)shared,
                                    .own_words = words > shared ? (size_t)(words - shared) : 1};
    const qn_serve_body body = {.model = target->model,
                                .max_tokens = w->max_tokens,
                                .temperature = w->temperature,
                                .seed = (int64_t)(w->seed + index)};
    qn_buffer text = {0};
    qn_serve_prompt_text(&prompt, &text);
    qn_serve_body_text(&body, &text, out);
    qn_buffer_free(&text);
}

typedef struct cell_run {
    const qn_serve_target *target;
    const qn_serve_calibration *calibration;
    const qn_serve_workload *workload;
    uint32_t cell;
    size_t sent;
    qn_serve_tally *tally;
    qn_progress progress;
} cell_run;

static qn_order_state cell_next(void *context, size_t client, qn_order *out)
{
    (void)client;
    cell_run *run = context;
    if (run->sent == run->workload->requests)
        return QN_ORDER_NONE;
    out->id = run->sent;
    out->retry = true;
    qn_serve_request_text(run->target, run->calibration, run->workload, run->cell, (uint32_t)run->sent++, &out->body);
    return QN_ORDER_SEND;
}

static void cell_done(void *context, const qn_call *call)
{
    cell_run *run = context;
    qn_serve_tally_add(run->tally, call);
    qn_progress_add(&run->progress, 1);
}

qn_status qn_serve_measure(const qn_serve_target *target, const qn_serve_calibration *calibration,
                           const qn_serve_workload *workload, uint32_t cell, size_t clients, const atomic_bool *stop,
                           qn_serve_tally *out, qn_error *err)
{
    cell_run run = {.target = target, .calibration = calibration, .workload = workload, .cell = cell, .tally = out};
    const qn_orders orders = {.context = &run, .next = cell_next, .done = cell_done};
    qn_progress_start(&run.progress, "measuring", "requests", workload->requests);
    qn_status status = qn_serve_clients_run(target, qn_min_size(clients, workload->requests), &orders, stop, err);
    qn_progress_finish(&run.progress);
    return status;
}
