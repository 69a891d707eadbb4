#include "bench/serve_overload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"

enum { CELL = 3, PAUSE_US = 100000, STATUS_BYTES = 65536 };

typedef struct overload {
    const qn_serve_target *target;
    const qn_serve_calibration *calibration;
    const qn_overload_options *options;
    uint64_t begin_us, length_us;
    uint64_t *again_us; /* [clients]: not before */
    uint32_t index;
    qn_overload_result *result;
} overload;

/* 0: not known. */
static size_t resident_bytes(pid_t pid)
{
    char path[64], *text = NULL;
    size_t bytes, kibibytes = 0;
    qn_error ignored; /* a server that is gone is told by the requests */
    if (pid <= 0)
        return 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (qn_file_read(path, STATUS_BYTES, &text, &bytes, &ignored) != QN_OK)
        return 0;
    const char *line = strstr(text, "\nVmRSS:");
    if (line)
        kibibytes = strtoul(line + sizeof "\nVmRSS:" - 1, NULL, 10);
    qn_free(text);
    return kibibytes * 1024;
}

static qn_order_state next(void *context, size_t client, qn_order *out)
{
    overload *o = context;
    uint64_t now_us = qn_now_us(), spent_us = now_us - o->begin_us;
    if (o->result->early_bytes == 0 && spent_us >= o->length_us / 4)
        o->result->early_bytes = resident_bytes(o->options->server);
    if (spent_us >= o->length_us || o->index == QN_SERVE_MAX_REQUESTS * 16u)
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
    qn_serve_tally_add(&o->result->tally, call);
    if (call->outcome == QN_CALL_FAILED)
        o->again_us[call->client] = call->ended_us + PAUSE_US;
}

qn_status qn_overload_run(const qn_serve_target *target, const qn_serve_calibration *calibration,
                          const qn_overload_options *options, const atomic_bool *stop, qn_overload_result *out,
                          qn_error *err)
{
    overload o = {.target = target, .calibration = calibration, .options = options, .result = out};
    o.begin_us = qn_now_us();
    o.length_us = (uint64_t)(options->seconds * 1e6);
    o.again_us = qn_alloc_zero(options->clients, sizeof *o.again_us);
    if (!o.again_us)
        return qn_fail_memory(err, "clients", options->clients * sizeof *o.again_us);
    const qn_orders orders = {.context = &o, .next = next, .done = done};
    qn_status status = qn_serve_clients_run(target, options->clients, &orders, stop, err);
    out->late_bytes = resident_bytes(options->server);
    qn_free(o.again_us);
    return status;
}

bool qn_overload_passed(const qn_serve_tally *t)
{
    return t->failed == 0 && t->refusals_untimed == 0;
}

static json_t *bytes_json(size_t bytes)
{
    return bytes > 0 ? json_integer((json_int_t)bytes) : json_null();
}

json_t *qn_overload_json(qn_overload_result *r)
{
    json_t *root = qn_serve_tally_json(&r->tally);
    if (root && json_object_set_new(root, "server_bytes_at_a_quarter", bytes_json(r->early_bytes)) == 0 &&
        json_object_set_new(root, "server_bytes_at_the_end", bytes_json(r->late_bytes)) == 0)
        return root;
    json_decref(root);
    return NULL;
}
