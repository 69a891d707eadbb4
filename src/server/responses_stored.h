/* Going back to responses that are kept: by previous_response_id, and by the paths below /v1/responses/. */
#ifndef QN_SERVER_RESPONSES_STORED_H
#define QN_SERVER_RESPONSES_STORED_H

#include "server/response_store.h"
#include "server/server_internal.h"

/* The client's response of this id, held. 404 with code `code` and the way out where it is unknown: never kept,
 * evicted, deleted, or another client's. `field` names the id in the error. */
qn_status qn_responses_find(qn_server *server, const qn_http_exchange *exchange, const char *id, const char *field,
                            const char *code, qn_stored_response **out, qn_api_error *error, qn_error *err);

#endif
