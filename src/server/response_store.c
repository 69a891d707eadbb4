/* A hash table of fixed size with chains, a list in the order of use, and references between responses.
 *
 * A response has one reference for being known, one of each response that went on from it and is still there, and one
 * of each holder; the last one frees it. */
#include "server/response_store.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/size.h"

enum {
    BYTES_PER_BUCKET = 1024, /* of the limit: about a small response */
    MAX_BUCKETS = 1 << 20,
};

struct qn_stored_response {
    qn_stored_response *previous;      /* referenced; NULL: none */
    qn_stored_response *next_in_chain; /* while known: of its bucket */
    qn_stored_response *newer, *older; /* while known: in the order of use */
    size_t references;
    size_t bytes; /* of its two allocations */
    long owner;
    bool known;
    char id[QN_RESPONSE_ID_BYTES];
    char *body; /* the second allocation; NULL while it is in the making */
    size_t body_bytes, output_at, output_bytes;
    size_t input_bytes;
    char input[];
};

struct qn_response_store {
    size_t limit;
    pthread_mutex_t mutex; /* of all below, and of all but the texts of responses */
    size_t bytes, count;
    uint64_t evicted, refused;
    qn_stored_response *newest, *oldest;
    size_t bucket_count; /* a power of two; never changes */
    qn_stored_response *buckets[];
};

qn_status qn_response_store_new(size_t limit_bytes, qn_response_store **out, qn_error *err)
{
    size_t buckets = 1;
    while (buckets < MAX_BUCKETS && buckets * BYTES_PER_BUCKET < limit_bytes) {
        buckets *= 2;
    }
    size_t bytes = sizeof(qn_response_store) + buckets * sizeof(qn_stored_response *);
    qn_response_store *store = qn_alloc_zero(bytes, 1);
    if (store == NULL) {
        return qn_fail_memory(err, "responses store", bytes);
    }
    pthread_mutex_init(&store->mutex, NULL);
    store->limit = limit_bytes;
    store->bytes = bytes;
    store->bucket_count = buckets;
    *out = store;
    return QN_OK;
}

/* ---- with the mutex held ---- */

static qn_stored_response **bucket_of(qn_response_store *store, const char *id)
{
    return &store->buckets[qn_hash_bytes(id, strlen(id)).low & (store->bucket_count - 1)];
}

static qn_stored_response *find(qn_response_store *store, long owner, const char *id)
{
    qn_stored_response *r = *bucket_of(store, id);
    while (r != NULL && (r->owner != owner || strcmp(r->id, id) != 0)) {
        r = r->next_in_chain;
    }
    return r;
}

static void unlink_use(qn_response_store *store, qn_stored_response *r)
{
    *(r->newer != NULL ? &r->newer->older : &store->newest) = r->older;
    *(r->older != NULL ? &r->older->newer : &store->oldest) = r->newer;
}

static void link_newest(qn_response_store *store, qn_stored_response *r)
{
    r->newer = NULL;
    r->older = store->newest;
    *(r->older != NULL ? &r->older->newer : &store->oldest) = r;
    store->newest = r;
}

/* Those before it last, so that each is newer than those that went on from it. */
static void mark_used(qn_response_store *store, qn_stored_response *r)
{
    for (; r != NULL; r = r->previous) {
        if (r->known) {
            unlink_use(store, r);
            link_newest(store, r);
        }
    }
}

static void drop(qn_response_store *store, qn_stored_response *r)
{
    while (r != NULL && --r->references == 0) {
        qn_stored_response *previous = r->previous;
        store->bytes -= r->bytes;
        qn_free(r->body);
        qn_free(r);
        r = previous;
    }
}

static void forget(qn_response_store *store, qn_stored_response *r)
{
    qn_stored_response **at = bucket_of(store, r->id);
    while (*at != r) {
        at = &(*at)->next_in_chain;
    }
    *at = r->next_in_chain;
    unlink_use(store, r);
    r->known = false;
    store->count--;
    drop(store, r);
}

static void learn(qn_response_store *store, qn_stored_response *r)
{
    qn_stored_response *namesake = find(store, r->owner, r->id);
    if (namesake != NULL) {
        forget(store, namesake);
    }
    qn_stored_response **bucket = bucket_of(store, r->id);
    r->next_in_chain = *bucket;
    *bucket = r;
    r->known = true;
    store->count++;
    link_newest(store, r);
    mark_used(store, r);
}

/* Makes room, by evictions where it is needed, and counts the bytes. What `r`, which is to grow or to be, can't be
 * without is room that no eviction makes, so where that is too much nobody gives way. */
static bool take_room(qn_response_store *store, const qn_stored_response *r, size_t bytes)
{
    size_t needed = sizeof *store + store->bucket_count * sizeof(qn_stored_response *);
    for (; r != NULL; r = r->previous) {
        needed += r->bytes;
    }
    if (needed > store->limit || bytes > store->limit - needed) {
        store->refused++;
        return false;
    }
    while (bytes > store->limit - store->bytes && store->oldest != NULL) {
        forget(store, store->oldest);
        store->evicted++;
    }
    if (bytes > store->limit - store->bytes) {
        store->refused++;
        return false;
    }
    store->bytes += bytes;
    return true;
}

/* ---- keeping one ---- */

static bool reserve(qn_response_store *store, const qn_stored_response *r, size_t bytes)
{
    pthread_mutex_lock(&store->mutex);
    bool fits = take_room(store, r, bytes);
    pthread_mutex_unlock(&store->mutex);
    return fits;
}

static void unreserve(qn_response_store *store, size_t bytes)
{
    pthread_mutex_lock(&store->mutex);
    store->bytes -= bytes;
    store->refused++;
    pthread_mutex_unlock(&store->mutex);
}

static void reference(qn_response_store *store, qn_stored_response *r)
{
    pthread_mutex_lock(&store->mutex);
    r->references++;
    pthread_mutex_unlock(&store->mutex);
}

qn_stored_response *qn_response_store_open(qn_response_store *store, long owner, const char *id,
                                           qn_stored_response *previous, qn_stored_text input)
{
    size_t bytes, id_bytes = strlen(id);
    assert(id_bytes < QN_RESPONSE_ID_BYTES);
    if (!qn_size_add(sizeof(qn_stored_response), input.bytes, &bytes) || !reserve(store, previous, bytes)) {
        return NULL;
    }
    qn_stored_response *r = qn_alloc(bytes, 1);
    if (r == NULL) {
        unreserve(store, bytes);
        return NULL;
    }
    *r = (qn_stored_response){
        .previous = previous, .references = 1, .bytes = bytes, .owner = owner, .input_bytes = input.bytes};
    memcpy(r->id, id, id_bytes + 1);
    memcpy(r->input, input.text, input.bytes);
    if (previous != NULL) {
        reference(store, previous);
    }
    return r;
}

static char *copy_body(qn_response_store *store, const qn_stored_response *opened, qn_stored_text body)
{
    if (!reserve(store, opened, body.bytes)) {
        return NULL;
    }
    char *copy = qn_alloc(body.bytes, 1);
    if (copy == NULL) {
        unreserve(store, body.bytes);
        return NULL;
    }
    memcpy(copy, body.text, body.bytes);
    return copy;
}

bool qn_response_store_keep(qn_response_store *store, qn_stored_response *opened, qn_stored_text body, size_t output_at,
                            size_t output_bytes)
{
    assert(output_at <= body.bytes && output_bytes <= body.bytes - output_at);
    char *copy = copy_body(store, opened, body);
    if (copy == NULL) {
        qn_response_store_release(store, opened);
        return false;
    }
    pthread_mutex_lock(&store->mutex);
    opened->body = copy;
    opened->body_bytes = body.bytes;
    opened->output_at = output_at;
    opened->output_bytes = output_bytes;
    opened->bytes += body.bytes;
    learn(store, opened); /* which takes over the caller's reference */
    pthread_mutex_unlock(&store->mutex);
    return true;
}

/* ---- using them ---- */

qn_stored_response *qn_response_store_get(qn_response_store *store, long owner, const char *id)
{
    pthread_mutex_lock(&store->mutex);
    qn_stored_response *r = find(store, owner, id);
    if (r != NULL) {
        r->references++;
        mark_used(store, r);
    }
    pthread_mutex_unlock(&store->mutex);
    return r;
}

void qn_response_store_release(qn_response_store *store, qn_stored_response *held)
{
    if (held != NULL) {
        pthread_mutex_lock(&store->mutex);
        drop(store, held);
        pthread_mutex_unlock(&store->mutex);
    }
}

bool qn_response_store_delete(qn_response_store *store, long owner, const char *id)
{
    pthread_mutex_lock(&store->mutex);
    qn_stored_response *r = find(store, owner, id);
    if (r != NULL) {
        forget(store, r);
    }
    pthread_mutex_unlock(&store->mutex);
    return r != NULL;
}

qn_response_store_counts qn_response_store_count(qn_response_store *store)
{
    pthread_mutex_lock(&store->mutex);
    qn_response_store_counts counts = {.count = store->count,
                                       .bytes = store->bytes,
                                       .limit_bytes = store->limit,
                                       .evicted = store->evicted,
                                       .refused = store->refused};
    pthread_mutex_unlock(&store->mutex);
    return counts;
}

void qn_response_store_free(qn_response_store *store)
{
    if (store == NULL) {
        return;
    }
    while (store->oldest != NULL) {
        forget(store, store->oldest);
    }
    pthread_mutex_destroy(&store->mutex);
    qn_free(store);
}

/* ---- of a response that is held ---- */

qn_stored_response *qn_stored_previous(const qn_stored_response *response)
{
    return response->previous;
}

qn_stored_text qn_stored_input(const qn_stored_response *response)
{
    return (qn_stored_text){.text = response->input, .bytes = response->input_bytes};
}

qn_stored_text qn_stored_body(const qn_stored_response *response)
{
    return (qn_stored_text){.text = response->body, .bytes = response->body_bytes};
}

qn_stored_text qn_stored_output(const qn_stored_response *response)
{
    return (qn_stored_text){.text = response->body + response->output_at, .bytes = response->output_bytes};
}
