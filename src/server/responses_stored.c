/* GET and DELETE /v1/responses/ID, GET /v1/responses/ID/input_items, POST /v1/responses/ID/cancel.
 *
 * What is told is read from the store piece by piece while it is held: an answer that a client takes slowly costs no
 * copy, and the store's bound holds for it too. */
#include "server/responses_stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/size.h"
#include "server/admission.h"
#include "server/responses_items.h"

enum { PIECE_BYTES = 64 << 10, DEFAULT_ITEMS = 20, MAX_ITEMS = 100 };

qn_status qn_responses_find(qn_server *server, const qn_http_exchange *exchange, const char *id, const char *field,
                            const char *code, qn_stored_response **out, qn_api_error *error, qn_error *err)
{
    long owner = qn_admission_client_key(&server->options.admission, exchange);
    *out = server->responses != NULL ? qn_response_store_get(server->responses, owner, id) : NULL;
    if (*out != NULL) {
        return QN_OK;
    }
    *error = (qn_api_error){.status = 404, .code = code};
    return qn_fail_field(err, QN_USAGE, field, "%s: %.80s is not here: %s", field, id,
                         server->responses == NULL
                             ? "this server keeps no responses (--responses-store 0): send earlier items as input"
                             : "it was never kept, was deleted, or gave way to newer ones: send its items as input, or "
                               "start the server with a larger --responses-store");
}

/* ---- telling what is kept ---- */

/* Texts one behind the other, from a response that is held. */
typedef struct telling {
    qn_response_store *store;
    qn_stored_response *held;
    qn_buffer head, tail;
    size_t count, next, at; /* of the pieces; the next one, and what of it is told */
    qn_stored_text pieces[2 * MAX_ITEMS + 2];
} telling;

static void close_telling(void *state)
{
    telling *t = state;
    qn_response_store_release(t->store, t->held);
    qn_buffer_free(&t->head);
    qn_buffer_free(&t->tail);
    qn_free(t);
}

static bool pull(void *state, qn_http_exchange *exchange, qn_buffer *out)
{
    (void)exchange;
    telling *t = state;
    while (t->next < t->count && out->size < PIECE_BYTES) {
        const qn_stored_text *piece = &t->pieces[t->next];
        size_t bytes = qn_min_size(piece->bytes - t->at, PIECE_BYTES - out->size);
        qn_buffer_append(out, piece->text + t->at, bytes);
        t->at += bytes;
        if (t->at == piece->bytes) {
            t->next++;
            t->at = 0;
        }
    }
    return t->next < t->count;
}

static void add_piece(telling *t, const char *text, size_t bytes)
{
    if (bytes > 0) {
        t->pieces[t->count++] = (qn_stored_text){.text = text, .bytes = bytes};
    }
}

/* Takes the hold; NULL: out of memory. */
static telling *new_telling(qn_server *server, qn_stored_response *held)
{
    telling *t = qn_alloc_zero(1, sizeof *t);
    if (t == NULL) {
        qn_response_store_release(server->responses, held);
        return NULL;
    }
    t->store = server->responses;
    t->held = held;
    return t;
}

static void reply_telling(qn_http_reply *reply, telling *t)
{
    reply->status = 200;
    reply->content_type = "application/json";
    reply->stream = (qn_http_stream){.state = t, .pull = pull, .close = close_telling};
}

static void reply_no_memory(qn_http_reply *reply)
{
    qn_error err;
    qn_fail_memory(&err, "response", sizeof(telling));
    qn_reply_error(reply, &err);
}

static void reply_response(qn_server *server, qn_stored_response *held, qn_http_reply *reply)
{
    telling *t = new_telling(server, held);
    if (t == NULL) {
        reply_no_memory(reply);
        return;
    }
    qn_stored_text body = qn_stored_body(held);
    add_piece(t, body.text, body.bytes);
    reply_telling(reply, t);
}

/* ---- lists of items ---- */

typedef struct page {
    size_t limit;
    bool ascending;
    const char *after; /* an item's id; NULL: from the beginning */
} page;

typedef struct item {
    qn_stored_text text, id;
} item;

typedef struct item_list {
    item *items;
    size_t count, capacity;
} item_list;

static qn_status read_page(const qn_http_exchange *exchange, page *out, qn_error *err)
{
    const char *limit = qn_http_query(exchange, "limit"), *order = qn_http_query(exchange, "order");
    *out = (page){.limit = DEFAULT_ITEMS, .after = qn_http_query(exchange, "after")};
    if (limit != NULL) {
        char *end = NULL;
        unsigned long value = strtoul(limit, &end, 10);
        if (limit[0] < '0' || limit[0] > '9' || *end != '\0' || value < 1 || value > MAX_ITEMS) {
            return qn_fail_field(err, QN_USAGE, "limit", "limit: %.40s: send 1 to %d", limit, MAX_ITEMS);
        }
        out->limit = value;
    }
    if (order != NULL && strcmp(order, "asc") != 0 && strcmp(order, "desc") != 0) {
        return qn_fail_field(err, QN_USAGE, "order", "order: %.40s: send asc or desc", order);
    }
    out->ascending = order != NULL && strcmp(order, "asc") == 0;
    return QN_OK;
}

static qn_status add_items(item_list *list, qn_stored_text array, qn_error *err)
{
    item next;
    for (size_t at = 0; qn_responses_items_next(array, &at, &next.text, &next.id);) {
        if (!qn_reserve(&list->items, &list->capacity, list->count + 1, sizeof next)) {
            return qn_fail_memory(err, "items", (list->count + 1) * sizeof next);
        }
        list->items[list->count++] = next;
    }
    return QN_OK;
}

/* The conversation before the response, then its own input. */
static qn_status list_items(const qn_stored_response *held, item_list *list, qn_error *err)
{
    qn_stored_text *arrays = NULL;
    size_t count = 0;
    qn_status status = qn_responses_items_before(qn_stored_previous(held), &arrays, &count, err);
    for (size_t i = 0; i < count && status == QN_OK; i++) {
        status = add_items(list, arrays[i], err);
    }
    qn_free(arrays);
    return status == QN_OK ? add_items(list, qn_stored_input(held), err) : status;
}

static const item *item_at(const item_list *list, const page *p, size_t index)
{
    return &list->items[p->ascending ? index : list->count - 1 - index];
}

static qn_status find_start(const item_list *list, const page *p, size_t *out, qn_error *err)
{
    size_t length = p->after != NULL ? strlen(p->after) : 0;
    *out = 0;
    for (size_t i = 0; p->after != NULL && i < list->count; i++) {
        const item *candidate = item_at(list, p, i);
        if (candidate->id.bytes == length && memcmp(candidate->id.text, p->after, length) == 0) {
            *out = i + 1;
            return QN_OK;
        }
    }
    return p->after == NULL ? QN_OK
                            : qn_fail_field(err, QN_USAGE, "after",
                                            "after: %.80s is no item of this response: send the id of one", p->after);
}

static void write_id(qn_buffer *out, const char *name, const item *of)
{
    qn_buffer_format(out, ",\"%s\":", name);
    if (of != NULL) {
        qn_buffer_json_string(out, of->id.text, of->id.bytes);
    } else {
        qn_buffer_text(out, "null");
    }
}

static void fill_telling(telling *t, const item_list *list, const page *p, size_t start)
{
    size_t end = start + qn_min_size(p->limit, list->count - start);
    qn_buffer_text(&t->head, "{\"object\":\"list\",\"data\":[");
    qn_buffer_char(&t->tail, ']');
    write_id(&t->tail, "first_id", end > start ? item_at(list, p, start) : NULL);
    write_id(&t->tail, "last_id", end > start ? item_at(list, p, end - 1) : NULL);
    qn_buffer_format(&t->tail, ",\"has_more\":%s}", end < list->count ? "true" : "false");
    add_piece(t, qn_buffer_string(&t->head), t->head.size);
    for (size_t i = start; i < end; i++) {
        const item *next = item_at(list, p, i);
        add_piece(t, ",", i > start ? 1 : 0);
        add_piece(t, next->text.text, next->text.bytes);
    }
    add_piece(t, qn_buffer_string(&t->tail), t->tail.size);
}

/* Takes the hold. */
static void reply_items(qn_server *server, const qn_http_exchange *exchange, qn_stored_response *held,
                        qn_http_reply *reply)
{
    telling *t = new_telling(server, held);
    if (t == NULL) {
        reply_no_memory(reply);
        return;
    }
    item_list list = {0};
    page p;
    size_t start = 0;
    qn_error err;
    qn_status status = read_page(exchange, &p, &err);
    if (status == QN_OK) {
        status = list_items(held, &list, &err);
    }
    if (status == QN_OK) {
        status = find_start(&list, &p, &start, &err);
    }
    if (status == QN_OK) {
        fill_telling(t, &list, &p, start);
        status = t->head.failed || t->tail.failed ? qn_fail_memory(&err, "items", t->tail.size) : QN_OK;
    }
    qn_free(list.items);
    if (status == QN_OK) {
        reply_telling(reply, t);
    } else {
        close_telling(t);
        qn_reply_error(reply, &err);
    }
}

/* ---- paths ---- */

/* The response of the path, held; and its id. False: the reply is an error. */
static bool find(qn_server *server, const qn_http_request *request, char id[QN_RESPONSE_ID_BYTES],
                 qn_stored_response **out, qn_http_reply *reply)
{
    qn_api_error error = {0};
    qn_error err;
    snprintf(id, QN_RESPONSE_ID_BYTES, "%.*s", (int)qn_min_size(strcspn(request->rest, "/"), QN_RESPONSE_ID_BYTES),
             request->rest);
    if (qn_responses_find(server, request->exchange, id, "response_id", "response_not_found", out, &error, &err) ==
        QN_OK) {
        return true;
    }
    qn_reply_api_error(reply, error, &err);
    return false;
}

/* Whether the path's response is kept; its id. False: the reply is an error. */
static bool is_kept(qn_server *server, const qn_http_request *request, char id[QN_RESPONSE_ID_BYTES],
                    qn_http_reply *reply)
{
    qn_stored_response *held = NULL;
    bool found = find(server, request, id, &held, reply);
    qn_response_store_release(server->responses, held);
    return found;
}

static qn_status check_stream(const qn_http_exchange *exchange, qn_error *err)
{
    const char *stream = qn_http_query(exchange, "stream");
    if (stream == NULL || strcmp(stream, "false") == 0 || strcmp(stream, "0") == 0) {
        return QN_OK;
    }
    if (strcmp(stream, "true") == 0 || strcmp(stream, "1") == 0) {
        return qn_fail_field(err, QN_USAGE, "stream",
                             "stream: only background responses are streamed again: leave it out");
    }
    return qn_fail_field(err, QN_USAGE, "stream", "stream: %.40s: send false, or leave it out", stream);
}

static void report_include(qn_server *server, const qn_http_exchange *exchange)
{
    if (qn_http_query(exchange, "include") != NULL || qn_http_query(exchange, "include[]") != NULL) {
        qn_server_report(server, "include", "responses are told again as they are kept");
    }
}

void qn_handle_stored_response(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    char id[QN_RESPONSE_ID_BYTES];
    qn_stored_response *held = NULL;
    if (!find(server, request, id, &held, reply)) {
        return;
    }
    report_include(server, request->exchange);
    qn_error err;
    if (check_stream(request->exchange, &err) != QN_OK) {
        qn_response_store_release(server->responses, held);
        qn_reply_error(reply, &err);
        return;
    }
    reply_response(server, held, reply);
}

void qn_handle_input_items(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    char id[QN_RESPONSE_ID_BYTES];
    qn_stored_response *held = NULL;
    if (find(server, request, id, &held, reply)) {
        report_include(server, request->exchange);
        reply_items(server, request->exchange, held, reply);
    }
}

void qn_handle_delete_response(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    qn_server *server = context;
    char id[QN_RESPONSE_ID_BYTES];
    if (!is_kept(server, request, id, reply)) {
        return;
    }
    qn_response_store_delete(server->responses, qn_admission_client_key(&server->options.admission, request->exchange),
                             id);
    reply->status = 200;
    reply->content_type = "application/json";
    qn_buffer_text(&reply->body, "{\"id\":");
    qn_buffer_json_string(&reply->body, id, strlen(id));
    qn_buffer_text(&reply->body, ",\"object\":\"response\",\"deleted\":true}");
}

/* A response is known once it is complete: there is nothing to cancel. */
void qn_handle_cancel_response(void *context, const qn_http_request *request, qn_http_reply *reply)
{
    char id[QN_RESPONSE_ID_BYTES];
    if (!is_kept(context, request, id, reply)) {
        return;
    }
    qn_error err;
    qn_fail_field(&err, QN_USAGE, "response_id",
                  "response_id: %.80s is complete, only a background response can be cancelled: to end one that is "
                  "being made, close its connection",
                  id);
    qn_reply_error(reply, &err);
}
