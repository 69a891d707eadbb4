/* What the clients' requests and the question for the models have in common: curl handles and errors. */
#ifndef QN_BENCH_SERVE_HTTP_H
#define QN_BENCH_SERVE_HTTP_H

#include <curl/curl.h>

#include "base/buffer.h"
#include "base/error.h"

/* A handle that speaks HTTP straight to the server; curl_easy_cleanup frees. NULL with err filled: QN_RESOURCE. */
CURL *qn_serve_easy_new(qn_error *err);

/* Headers of a JSON request; curl_slist_free_all frees. NULL with err filled: QN_RESOURCE. */
struct curl_slist *qn_serve_headers_new(qn_error *err);

/* Fills err with what the server said with a status other than 200: error.message of its JSON, or the body's start.
 * Returns QN_FAILED. */
qn_status qn_serve_http_error(long http, const qn_buffer *body, qn_error *err);

#endif
