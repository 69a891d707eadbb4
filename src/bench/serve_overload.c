#include "bench/serve_overload.h"

#include "base/clock.h"
#include "base/memory.h"

enum { CELL = 3, PAUSE_US = 100000 };

typedef struct overload {
    const qn_serve_target *target;
    const qn_serve_calibration *calibration;
    const qn_overload_options *options;
    uint64_t until_us;
    uint64_t *again_us; /* [clients]: not before */
    uint32_t index;
    qn_serve_tally *tally;
} overload;

static qn_order_state next(void *context, size_t client, qn_order *out)
{
    overload *o = context;
    uint64_t now_us = qn_now_us();
    if (now_us >= o->until_us || o->index == QN_SERVE_MAX_REQUESTS * 16u)
        return QN_ORDER_NONE;
    if (now_us < o->again_us[client])
        return QN_ORDER_LATER;
    out->id = o->index;
    qn_serve_request_text(o->target, o->calibration, &o->options->workload, CELL, o->index++, &out->body);
    return QN_ORDER_SEND;
}

static void done(void *context, const qn_call *call)
{
    overload *o = context;
    qn_serve_tally_add(o->tally, call);
    if (call->outcome == QN_CALL_FAILED)
        o->again_us[call->client] = call->ended_us + PAUSE_US;
}

qn_status qn_overload_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                          const qn_overload_options *options, const atomic_bool *stop, qn_serve_tally *out,
                          qn_error *err)
{
    overload o = {.target = target, .calibration = calibration, .options = options, .tally = out};
    o.until_us = qn_now_us() + (uint64_t)(options->seconds * 1e6);
    o.again_us = qn_alloc_zero(options->clients, sizeof *o.again_us);
    if (!o.again_us)
        return qn_fail_memory(err, "clients", options->clients * sizeof *o.again_us);
    const qn_orders orders = {.context = &o, .next = next, .done = done};
    qn_status status = qn_serve_clients_run(target, options->clients, &orders, stop, err);
    qn_free(o.again_us);
    return status;
}

bool qn_overload_passed(const qn_serve_tally *t)
{
    return t->failed == 0 && t->refusals_untimed == 0;
}
