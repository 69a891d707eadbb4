/* A client is a curl handle that is used again and again. The loop gives curl its turn, collects the calls that ended,
 * gives idle clients their next order, and sleeps until a socket or the nearest time that something is due. */
#include "bench/serve_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "bench/serve_http.h"

enum {
    IDLE_POLL_MS = 20,     /* while a client has to ask again or waits to be sent again */
    LONGEST_POLL_MS = 200, /* so that a stop and a silent server are noticed */
    SPARE_FILES = 64,
    MOST_RETRY_S = 3600,
    ERROR_BODY_BYTES = 16384,
};

typedef enum client_state { IDLE, CALLING, REFUSED, ENDED } client_state;

typedef struct client {
    struct crowd *crowd;
    CURL *easy;
    client_state state;
    qn_order order;
    qn_call call;
    qn_status read_status; /* of reading the answer; call.err tells */
    uint64_t heard_us;     /* when a byte that counts came; at first when it was sent */
    uint64_t again_us;     /* REFUSED: when to send again */
    qn_buffer error_body;
    char curl_error[CURL_ERROR_SIZE];
} client;

typedef struct crowd {
    const qn_serve_target *target;
    const qn_orders *orders;
    CURLM *multi;
    struct curl_slist *headers;
    char url[QN_SERVE_URL_BYTES + 32];
    client *clients;
    size_t count;
} crowd;

/* ---- one call ---- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
    client *c = context;
    long code = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &code);
    count *= size;
    if (code != 200) {
        size_t room = ERROR_BODY_BYTES - c->error_body.size;
        qn_buffer_append(&c->error_body, bytes, qn_min_size(count, room));
        return count;
    }
    qn_serve_answer *answer = &c->call.answer;
    size_t chunks = answer->chunks;
    uint64_t now_us = qn_now_us();
    c->read_status = qn_serve_answer_read(answer, bytes, count, now_us, &c->call.err);
    if (c->read_status != QN_OK)
        return CURL_WRITEFUNC_ERROR;
    if (answer->chunks > chunks)
        c->heard_us = now_us;
    if (c->crowd->orders->heard)
        c->crowd->orders->heard(c->crowd->orders->context, c->call.client, answer);
    return count;
}

static qn_status set_up(client *c, qn_error *err)
{
    const crowd *all = c->crowd;
    c->easy = qn_serve_easy_new(err);
    if (!c->easy)
        return err->status;
    curl_easy_setopt(c->easy, CURLOPT_URL, all->url);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, all->headers);
    curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->curl_error);
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    return QN_OK;
}

static qn_status send_order(client *c, qn_error *err)
{
    qn_serve_answer_clear(&c->call.answer);
    qn_buffer_clear(&c->error_body);
    c->curl_error[0] = '\0';
    c->read_status = QN_OK;
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->order.body.size);
    curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, qn_buffer_string(&c->order.body));
    if (curl_multi_add_handle(c->crowd->multi, c->easy) != CURLM_OK)
        return qn_fail(err, QN_RESOURCE, "client: a request can't be sent: free memory");
    c->heard_us = qn_now_us();
    c->state = CALLING;
    return QN_OK;
}

/* Gives an idle client its next order. */
static qn_status ask(client *c, qn_error *err)
{
    const qn_orders *orders = c->crowd->orders;
    qn_buffer_clear(&c->order.body);
    c->order.retry = false;
    switch (orders->next(orders->context, c->call.client, &c->order)) {
    case QN_ORDER_NONE:
        c->state = ENDED;
        return QN_OK;
    case QN_ORDER_LATER:
        return QN_OK;
    case QN_ORDER_SEND:
        break;
    }
    if (c->order.body.failed)
        return qn_fail_memory(err, "request", c->order.body.size);
    c->call.id = c->order.id;
    c->call.sent_us = qn_now_us();
    c->call.refusals = c->call.refusals_untimed = 0;
    return send_order(c, err);
}

static void tell(client *c, qn_call_outcome outcome)
{
    c->call.outcome = outcome;
    c->call.ended_us = qn_now_us();
    c->state = IDLE;
    c->crowd->orders->done(c->crowd->orders->context, &c->call);
    qn_serve_answer_clear(&c->call.answer);
}

static void refused(client *c)
{
    qn_call *call = &c->call;
    struct curl_header *header;
    curl_off_t retry_s = 0;
    bool timed = curl_easy_header(c->easy, "Retry-After", 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
    curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &retry_s);
    call->refusals++;
    call->refusals_untimed += !timed;
    if (!c->order.retry) {
        qn_serve_http_error(503, &c->error_body, &call->err);
        tell(c, QN_CALL_REFUSED);
    } else if (call->refusals >= QN_SERVE_MAX_REFUSALS) {
        qn_fail(&call->err, QN_FAILED, "server: refused a request %d times: send fewer at once", QN_SERVE_MAX_REFUSALS);
        tell(c, QN_CALL_FAILED);
    } else {
        uint64_t wait_s = retry_s > MOST_RETRY_S ? MOST_RETRY_S : retry_s < 1 ? 1 : (uint64_t)retry_s;
        c->again_us = qn_now_us() + wait_s * 1000000;
        c->state = REFUSED;
    }
}

static void ended(client *c, CURLcode code)
{
    qn_call *call = &c->call;
    long http = 0;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &http);
    curl_multi_remove_handle(c->crowd->multi, c->easy);
    if (c->read_status != QN_OK) {
        tell(c, QN_CALL_FAILED);
    } else if (code != CURLE_OK) {
        const char *reason = c->curl_error[0] ? c->curl_error : curl_easy_strerror(code);
        qn_fail(&call->err, QN_RESOURCE, "connection: %s: does the server still run?", reason);
        tell(c, QN_CALL_FAILED);
    } else if (http == 503) {
        refused(c);
    } else if (http != 200) {
        qn_serve_http_error(http, &c->error_body, &call->err);
        tell(c, QN_CALL_FAILED);
    } else {
        tell(c, qn_serve_answer_check(&call->answer, &call->err) == QN_OK ? QN_CALL_FINISHED : QN_CALL_FAILED);
    }
}

/* ---- all of them ---- */

static qn_status allow_files(size_t needed, qn_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return QN_OK;
    limit.rlim_cur = qn_min_size(needed, limit.rlim_max);
    if (limit.rlim_cur < needed || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return qn_fail(err, QN_RESOURCE, "clients: %zu open files are needed, %zu allowed: raise the limit (ulimit -n)",
                       needed, (size_t)limit.rlim_max);
    return QN_OK;
}

static void collect(crowd *all)
{
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(all->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result;
        client *c = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&c);
        ended(c, code);
    }
}

static void give_up_silent(client *c, uint64_t now_us)
{
    double silent_s = (double)(now_us - c->heard_us) / 1e6;
    if (now_us <= c->heard_us || silent_s <= c->crowd->target->patience_s)
        return;
    curl_multi_remove_handle(c->crowd->multi, c->easy);
    qn_fail(&c->call.err, QN_FAILED, "server: silent for %.0f s: look at its log, or give --timeout more", silent_s);
    tell(c, QN_CALL_FAILED);
}

/* Each client's turn. *busy: how many are not ENDED; *soon: one of them has something due without the network. */
static qn_status turn(crowd *all, size_t *busy, bool *soon, qn_error *err)
{
    uint64_t now_us = qn_now_us();
    qn_status status = QN_OK;
    *busy = 0;
    *soon = false;
    for (size_t i = 0; i < all->count && status == QN_OK; i++) {
        client *c = &all->clients[i];
        if (c->state == CALLING)
            give_up_silent(c, now_us);
        if (c->state == REFUSED && now_us >= c->again_us)
            status = send_order(c, err);
        if (c->state == IDLE)
            status = ask(c, err);
        *busy += c->state != ENDED;
        *soon = *soon || c->state == IDLE || c->state == REFUSED;
    }
    return status;
}

static void cut_off(crowd *all)
{
    for (size_t i = 0; i < all->count; i++) {
        client *c = &all->clients[i];
        if (c->state == CALLING)
            curl_multi_remove_handle(all->multi, c->easy);
        if (c->state == CALLING || c->state == REFUSED)
            tell(c, QN_CALL_CUT_OFF);
        c->state = ENDED;
    }
}

static qn_status loop(crowd *all, const atomic_bool *stop, qn_error *err)
{
    for (;;) {
        size_t busy;
        bool soon;
        qn_status status = stop && atomic_load(stop) ? QN_CANCELLED : turn(all, &busy, &soon, err);
        if (status != QN_OK) {
            cut_off(all);
            return status == QN_CANCELLED ? QN_OK : status;
        }
        if (busy == 0)
            return QN_OK;
        int running;
        if (curl_multi_perform(all->multi, &running) != CURLM_OK ||
            curl_multi_poll(all->multi, NULL, 0, soon ? IDLE_POLL_MS : LONGEST_POLL_MS, NULL) != CURLM_OK) {
            cut_off(all);
            return qn_fail(err, QN_RESOURCE, "clients: the system has no room for their sockets: use fewer");
        }
        collect(all);
    }
}

static qn_status open_crowd(crowd *all, qn_error *err)
{
    all->clients = qn_alloc_zero(all->count, sizeof *all->clients);
    if (!all->clients)
        return qn_fail_memory(err, "clients", all->count * sizeof *all->clients);
    all->multi = curl_multi_init();
    all->headers = qn_serve_headers_new(err);
    if (!all->headers)
        return err->status;
    if (!all->multi)
        return qn_fail_memory(err, "clients", sizeof all->multi);
    curl_multi_setopt(all->multi, CURLMOPT_MAXCONNECTS, (long)all->count);
    snprintf(all->url, sizeof all->url, "%s/chat/completions", all->target->url);
    qn_status status = QN_OK;
    for (size_t i = 0; i < all->count && status == QN_OK; i++) {
        all->clients[i].crowd = all;
        all->clients[i].call.client = i;
        status = set_up(&all->clients[i], err);
    }
    return status;
}

static void close_crowd(crowd *all)
{
    for (size_t i = 0; all->clients && i < all->count; i++) {
        client *c = &all->clients[i];
        curl_easy_cleanup(c->easy);
        qn_buffer_free(&c->order.body);
        qn_buffer_free(&c->error_body);
        qn_serve_answer_free(&c->call.answer);
    }
    curl_multi_cleanup(all->multi);
    curl_slist_free_all(all->headers);
    qn_free(all->clients);
}

qn_status qn_serve_clients_run(const qn_serve_target *target, size_t clients, const qn_orders *orders,
                               const atomic_bool *stop, qn_error *err)
{
    crowd all = {.target = target, .orders = orders, .count = clients};
    qn_status status = allow_files(clients + SPARE_FILES, err);
    if (status == QN_OK)
        status = open_crowd(&all, err);
    if (status == QN_OK)
        status = loop(&all, stop, err);
    close_crowd(&all);
    return status;
}
