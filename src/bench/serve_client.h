/* Many clients of one chat server on one thread, over libcurl's multi interface: each sends a request, reads its stream
 * to the end, tells how it went, and asks for the next.
 *
 * The clients go straight to the server, through no proxy, and keep their connections. A call that hears nothing but
 * comments for the target's patience is given up. Everything here is to be called from one thread. */
#ifndef QN_BENCH_SERVE_CLIENT_H
#define QN_BENCH_SERVE_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "bench/serve_answer.h"

enum {
    QN_SERVE_MAX_CLIENTS = 4096,
    QN_SERVE_URL_BYTES = 512,
    QN_SERVE_MODEL_BYTES = 256,
    QN_SERVE_MAX_REFUSALS = 1000
};

typedef struct qn_serve_target {
    char url[QN_SERVE_URL_BYTES]; /* "http://host:port/v1", the paths follow */
    char model[QN_SERVE_MODEL_BYTES];
    double patience_s;
} qn_serve_target;

/* base_url: with or without /v1 at its end. model NULL: asks the server, which is the first one it lists. QN_USAGE: no
 * http URL, names too long; QN_BAD_INPUT: the server answers, but no list of models; QN_RESOURCE: it can't be reached.
 */
qn_status qn_serve_target_open(const char *base_url, const char *model, double patience_s, qn_serve_target *out,
                               qn_error *err);

typedef enum qn_call_outcome {
    QN_CALL_FINISHED,
    QN_CALL_REFUSED, /* 503, and the order asked for no retry */
    QN_CALL_FAILED,  /* anything else: `err` tells */
    QN_CALL_CUT_OFF  /* stopped before its end */
} qn_call_outcome;

typedef struct qn_call {
    size_t client;
    uint64_t id;            /* the order's */
    qn_serve_answer answer; /* whole when FINISHED, what there was of it otherwise */
    uint64_t sent_us;       /* the first time, refusals included */
    uint64_t ended_us;
    size_t refusals;         /* answers 503 */
    size_t refusals_untimed; /* of them, those without a Retry-After */
    qn_call_outcome outcome;
    qn_error err; /* FAILED, REFUSED */
} qn_call;

typedef struct qn_order {
    uint64_t id;
    qn_buffer body; /* JSON; the client's, empty when asked for */
    bool retry;     /* on 503: after Retry-After, up to QN_SERVE_MAX_REFUSALS times */
} qn_order;

typedef enum qn_order_state {
    QN_ORDER_SEND,
    QN_ORDER_LATER, /* ask again soon */
    QN_ORDER_NONE   /* this client has nothing more to do */
} qn_order_state;

typedef struct qn_orders {
    void *context;
    qn_order_state (*next)(void *context, size_t client, qn_order *out);
    void (*heard)(void *context, size_t client, const qn_serve_answer *answer); /* bytes came; may be NULL */
    void (*done)(void *context, const qn_call *call);                           /* the call dies after it */
} qn_orders;

/* Until all clients have nothing more to do, or `stop`: then calls under way are cut off. Raises the limit on open
 * files if need be. QN_RESOURCE: memory, open files, or a body could not be built. */
qn_status qn_serve_clients_run(const qn_serve_target *target, size_t clients, const qn_orders *orders,
                               const atomic_bool *stop, qn_error *err);

#endif
