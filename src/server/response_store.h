/* Responses of the Responses API that clients may come back to: bounded, in memory, the least recently used go first.
 *
 * A response is kept as JSON: the items of its input, and itself as its client got it, with the items of its output
 * inside. One that went on from another keeps a reference to that one instead of a copy of its items, so that a
 * conversation costs each item once, however many turns it has. Whoever uses a response uses those before it too:
 * they are marked as used after it, so that the end of a conversation gives way before its beginning, and what gives
 * way frees memory.
 *
 * Each belongs to an owner, the key of its client; an id of somebody else's is unknown. Deleted and evicted responses
 * are unknown at once; their memory lasts while a response that went on from them is kept, or somebody holds them.
 *
 * Bounded: the bytes of all allocations, also those of responses that are only held, never exceed the limit. What does
 * not fit is not kept. All functions may be called from any thread: a mutex inside is held for the time of a look-up,
 * of a walk along one conversation, or of evictions, but not while texts are read, which never change. */
#ifndef QN_SERVER_RESPONSE_STORE_H
#define QN_SERVER_RESPONSE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { QN_RESPONSE_ID_BYTES = 48 }; /* with its NUL */

typedef struct qn_response_store qn_response_store;
typedef struct qn_stored_response qn_stored_response;

typedef struct qn_stored_text {
    const char *text;
    size_t bytes;
} qn_stored_text;

/* limit_bytes >= 1 counts the store's own table too, which is less than 1% of it or some hundred bytes. */
qn_status qn_response_store_new(size_t limit_bytes, qn_response_store **out, qn_error *err);
void qn_response_store_free(qn_response_store *store); /* once nothing is held; NULL is fine */

/* ---- keeping one ---- */

/* Makes room for a response in the making and copies its input, a JSON array. It is held, not known to anybody yet.
 * `previous`, which the caller holds and goes on holding, is the one that it went on from, or NULL. NULL: there is no
 * room or no memory for it. */
qn_stored_response *qn_response_store_open(qn_response_store *store, long owner, const char *id,
                                           qn_stored_response *previous, qn_stored_text input);

/* Copies the complete response, a JSON object of which output_bytes from output_at on are its output, a JSON array; it
 * is known from now on, in place of another of its owner's with its id. Gives up the hold in any case. False: there is
 * no room or no memory for it, and it is not kept. */
bool qn_response_store_keep(qn_response_store *store, qn_stored_response *opened, qn_stored_text body, size_t output_at,
                            size_t output_bytes);

/* ---- using them ---- */

/* The owner's response of this id, held; NULL when unknown. Marks it as used. */
qn_stored_response *qn_response_store_get(qn_response_store *store, long owner, const char *id);

/* Gives up a hold; NULL is fine. */
void qn_response_store_release(qn_response_store *store, qn_stored_response *held);

/* False: unknown. */
bool qn_response_store_delete(qn_response_store *store, long owner, const char *id);

typedef struct qn_response_store_counts {
    size_t count, bytes, limit_bytes; /* known responses; bytes of all allocations */
    uint64_t evicted, refused;        /* known ones that gave way; those that found no room */
} qn_response_store_counts;
qn_response_store_counts qn_response_store_count(qn_response_store *store);

/* ---- of a response that is held, and known or once known; the texts live as long ---- */

qn_stored_response *qn_stored_previous(const qn_stored_response *response); /* NULL: it began a conversation */
qn_stored_text qn_stored_input(const qn_stored_response *response);
qn_stored_text qn_stored_body(const qn_stored_response *response);
qn_stored_text qn_stored_output(const qn_stored_response *response);

#endif
