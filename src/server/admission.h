/* Who may use the server, and how much: looked at for each request's head, before its body is read.
 *
 * With keys, a request must bring one, as `Authorization: Bearer KEY` or as `x-api-key: KEY`; else it gets 401. With a
 * rate limit, a client that sends more gets 429: a client is a key, or where there are none an address. */
#ifndef QN_SERVER_ADMISSION_H
#define QN_SERVER_ADMISSION_H

#include <stdbool.h>

#include "server/api_keys.h"
#include "server/http.h"
#include "server/rate_limit.h"

typedef struct qn_admission {
    const qn_api_keys *keys; /* NULL: everybody may */
    qn_rate_limit *rate;     /* NULL: as much as they like */
} qn_admission;

/* Fills the reply with the refusal where it returns false. */
bool qn_admission_check(const qn_admission *admission, const qn_http_request *head, qn_http_reply *reply);

/* Whose a request is, once it was admitted: the index of its key, the same for as long as the server runs; without keys
 * QN_API_KEY_NONE, everybody's. */
long qn_admission_client_key(const qn_admission *admission, const qn_http_exchange *exchange);

/* The key in the value of an Authorization header: what follows "Bearer", in any case, and spaces; NULL for another
 * scheme. */
const char *qn_bearer_token(const char *authorization);

#endif
