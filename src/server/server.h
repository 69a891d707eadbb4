/* The HTTP server of one engine: what docs/api.md lists, a file for each endpoint.
 *
 * Threads: one a connection (http.h), which parses, renders the prompt, turns tokens into text and passes it on; the
 * engine's, which computes; the watch over connections (http_watch.h). What a client sends and gets is logged only
 * where request_log says so: else not a byte of it, but for the names of fields that have no effect. */
#ifndef QN_SERVER_SERVER_H
#define QN_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"
#include "server/admission.h"
#include "server/http.h"
#include "server/request_log.h"

typedef struct qn_server qn_server;

typedef struct qn_server_options {
    const char *const *model_names; /* UTF-8: the first is told to clients, each is accepted. They outlive the server */
    size_t model_name_count;
    const json_t *template_kwargs;  /* --default-chat-template-kwargs; NULL: none. Lives as long as the server */
    size_t max_num_seqs, max_queue; /* the engine's own: choices that compute and that wait */
    bool by_priority;               /* the engine's own: requests may say a priority */
    uint64_t request_timeout_us;    /* for every request, besides its own; 0: none */
    unsigned patience_s;            /* for slow clients: http_watch.h */
    bool prompt_details;            /* --enable-prompt-tokens-details */
    const qn_cors *cors;            /* NULL: for pages of its own origin only. Lives as long as the server */
    const qn_tls *tls;              /* NULL: plain HTTP. Lives as long as the server */
    size_t max_connections_each;    /* of one address; 0: no limit */
    qn_request_log request_log;     /* --log-requests; {0}: nothing */
    size_t responses_store_bytes;   /* --responses-store; 0: no response is kept */
    qn_admission admission;         /* what it points to lives as long as the server */
} qn_server_options;

/* Serves from now on. Takes the socket (qn_http_bind). The engine must outlive the server. QN_RESOURCE: no memory,
 * threads or descriptors; QN_USAGE: TLS that libmicrohttpd was built without. */
qn_status qn_server_start(const qn_server_options *options, qn_engine *engine, qn_http_socket *socket, qn_server **out,
                          qn_error *err);

/* Takes no new connections and refuses new requests; those that were taken are finished. */
void qn_server_drain(qn_server *server);

/* Readable once a draining server has finished them all. */
int qn_server_idle_fd(const qn_server *server);

/* Ends what still runs, within a step, and frees. NULL is fine. */
void qn_server_stop(qn_server *server);

#endif
