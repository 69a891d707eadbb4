/* The items of a conversation as the Responses API tells them again: as JSON texts that are kept (response_store.h).
 *
 * Every item is an object whose first member is its id, of letters, digits, '_' and '-', so that lists of items are
 * walked without being parsed. */
#ifndef QN_SERVER_RESPONSES_ITEMS_H
#define QN_SERVER_RESPONSES_ITEMS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "server/response_store.h"

/* Appends a request's input, one that qn_responses_input_translate has accepted, as an array: with what the model was
 * shown of it, and nothing else. Items without an id of their own get one that tells the response, whose id begins with
 * "resp_". */
void qn_responses_items_write(const json_t *input, const char *response_id, qn_buffer *out);

/* The response that an item was made for, by the item's id: what stands behind the first '_' begins with the response's
 * own 32 digits. False: the id is not of that kind. */
bool qn_responses_items_origin(const char *item_id, char out[QN_RESPONSE_ID_BYTES]);

/* The next item of an array of kept items, and its id; *at is 0 at first. False: there is none. */
bool qn_responses_items_next(qn_stored_text array, size_t *at, qn_stored_text *item, qn_stored_text *id);

/* All that came before what follows `last`: the arrays of input and output of the conversation's responses up to it,
 * from its beginning on. `last` is held; NULL gives none. The caller releases *out with qn_free. QN_RESOURCE. */
qn_status qn_responses_items_before(const qn_stored_response *last, qn_stored_text **out, size_t *count, qn_error *err);

/* The same as one list of values, for qn_responses_input_translate. QN_RESOURCE. */
qn_status qn_responses_items_parse(const qn_stored_text *arrays, size_t count, json_t **out, qn_error *err);

#endif
