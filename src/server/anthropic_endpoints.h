/* What /v1/messages and /v1/messages/count_tokens share: a prompt out of a request's body. */
#ifndef QN_SERVER_ANTHROPIC_ENDPOINTS_H
#define QN_SERVER_ANTHROPIC_ENDPOINTS_H

#include "server/anthropic_request.h"
#include "server/server_internal.h"
#include "text/tokenizer.h"

/* Parses, reports what has no effect, and renders the prompt, which is appended to *prompt. *error, which comes as {0},
 * stays so where qn_api_error_of tells the status. On success the caller releases *out. */
qn_status qn_anthropic_prompt(qn_server *server, const qn_http_request *request, bool counting,
                              qn_anthropic_request *out, qn_tokens *prompt, qn_api_error *error, qn_error *err);

#endif
