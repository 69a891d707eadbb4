/* GET /openapi.json: every endpoint in OpenAPI 3.1, for people, generators of clients, and tests.
 *
 * openapi.json is its only source; the build puts the version in and makes the text part of the program. The unit test
 * holds it against the table of routes and against the fields that the readers of bodies know. */
#ifndef QN_SERVER_OPENAPI_H
#define QN_SERVER_OPENAPI_H

#include <stddef.h>

extern const char qn_openapi_text[]; /* [qn_openapi_bytes], no NUL at its end */
extern const size_t qn_openapi_bytes;

#endif
