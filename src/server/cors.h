/* Which web pages of other origins may use the server: the rules of cross-origin resource sharing (the Fetch standard,
 * section 3.2), which browsers enforce on what a server's headers allow.
 *
 * Methods and headers of a preflight are compared as browsers send them; "*" in a list allows all. */
#ifndef QN_SERVER_CORS_H
#define QN_SERVER_CORS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

typedef struct qn_cors {
    json_t *origins, *methods, *headers; /* arrays of strings */
    bool any_origin, any_method, any_header;
    bool credentials;
    char *method_list, *header_list; /* as the answers to preflights tell them */
} qn_cors;

/* The lists are JSON, of strings; methods and headers may be NULL: all. Errors (QN_USAGE) name vLLM's flags: no such
 * list, an origin with more than scheme, host and port, or credentials for every origin, with which any page could do
 * what its visitor may. */
qn_status qn_cors_open(const char *origins, const char *methods, const char *headers, bool credentials, qn_cors *out,
                       qn_error *err);
void qn_cors_close(qn_cors *cors); /* {0} is fine */

/* The value of Access-Control-Allow-Origin for a page of this origin; NULL: none, it may not read the answer. */
const char *qn_cors_origin(const qn_cors *cors, const char *origin);

/* May it send this method with these headers (names with commas between; NULL: none)? */
bool qn_cors_allows_method(const qn_cors *cors, const char *method);
bool qn_cors_allows_headers(const qn_cors *cors, const char *names);

#endif
