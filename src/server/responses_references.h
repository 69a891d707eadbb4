/* Items of a request that are named instead of sent, {"type": "item_reference", "id": ...}, as some clients do with
 * what they got before: each stands for an item of a kept response of the client's own, of its output or its input. The
 * id of an item tells the response that it was made for (responses_items.h). */
#ifndef QN_SERVER_RESPONSES_REFERENCES_H
#define QN_SERVER_RESPONSES_REFERENCES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "server/response_store.h"

typedef struct qn_references {
    qn_response_store *store;
    struct qn_reference *items; /* one each, in the order of the input, with what holds it */
    size_t count, capacity;
    size_t cost; /* of reading them all, as qn_request_body_cost counts */
} qn_references;

bool qn_references_has(const json_t *input); /* whether some item is a reference */

/* Finds and holds what the input refers to; `store` NULL: nothing is kept. QN_USAGE with field "input": an id that is
 * unknown (*unknown is true then), or items of too many bytes together; QN_RESOURCE. Whatever it returns,
 * qn_references_free releases what there is. */
qn_status qn_references_find(qn_response_store *store, long owner, const json_t *input, qn_references *out,
                             bool *unknown, qn_error *err);

/* The input with the items in their places, a new list that shares the others. QN_RESOURCE. */
qn_status qn_references_read(const qn_references *references, const json_t *input, json_t **out, qn_error *err);

void qn_references_free(qn_references *references); /* back to {0}; {0} is fine */

#endif
