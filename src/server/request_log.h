/* What the log says of requests, where an operator asks for it (--log-requests); without that, nothing.
 *
 * Of each request that is to be answered by the model: a line when the engine has taken it (id, path, tokens,
 * parameters, and the text of the prompt), a line when a choice is over (how it ended, how many tokens, with
 * --enable-log-outputs also their text), and one when it was refused or left before its end. Texts are JSON strings;
 * what does not fit a line of the log is cut. */
#ifndef QN_SERVER_REQUEST_LOG_H
#define QN_SERVER_REQUEST_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "engine/stream.h"
#include "server/http.h"
#include "text/tokenizer.h"

typedef struct qn_request_log {
    bool requests, outputs;
    size_t max_characters; /* of a prompt or an output; 0: no text */
} qn_request_log;

/* Appends what there is to say of a request: `choices` answers to each of the prompts, with the parameters in `base`.
 */
void qn_request_log_describe(const qn_request_log *log, const qn_tokenizer *tokenizer, const qn_request *base,
                             const qn_tokens *prompts, size_t prompt_count, size_t choices, qn_buffer *out);

/* One line each. `description` is the above. */
void qn_request_log_taken(const qn_http_request *request, bool stream, const qn_buffer *description);
void qn_request_log_refused(const qn_http_request *request, unsigned status);
void qn_request_log_choice(const qn_request_log *log, const qn_tokenizer *tokenizer, const char *id, size_t index,
                           const qn_result *result);
void qn_request_log_left(const char *id, size_t over, size_t choices);

#endif
