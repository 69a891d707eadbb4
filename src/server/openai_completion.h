/* POST /v1/completions: the request, from its bytes to a checked struct. A pure function of its input.
 *
 * Fields are OpenAI's and vLLM's; docs/api.md lists each with its class. A prompt's text is the client's own from end
 * to end: what spells a special token is that token. */
#ifndef QN_SERVER_OPENAI_COMPLETION_H
#define QN_SERVER_OPENAI_COMPLETION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "server/format_fields.h"
#include "server/generation_fields.h"
#include "server/openai_fields.h"
#include "text/tokenizer.h"

extern const qn_field_table qn_completion_fields;

enum { QN_COMPLETION_DEFAULT_MAX_TOKENS = 16 };

typedef struct qn_completion_request {
    json_t *document;                /* the body; the pointers below point into it */
    const char *model;               /* NULL: not said */
    const json_t *prompt;            /* a string, a list of strings, of ids, or of lists of ids */
    size_t prompt_count;             /* from 1 on; times generation.n at most what a request may have of choices */
    qn_generation_fields generation; /* max_tokens 0 with a field name: only with echo */
    qn_openai_streaming streaming;
    qn_format_fields form;
    int logprobs; /* -1: not asked for */
    bool echo, return_token_ids;
    qn_unknown_fields unknown;
} qn_completion_request;

/* QN_USAGE: the client's fault, err->field the parameter ("" when it is the body as a whole); QN_RESOURCE. On success
 * the caller releases *out with qn_completion_request_free. */
qn_status qn_completion_request_parse(const char *body, size_t bytes, const qn_generation_limits *limits,
                                      qn_completion_request *out, qn_error *err);
void qn_completion_request_free(qn_completion_request *request); /* back to {0}; {0} is fine */

/* The ids of each prompt into prompts [prompt_count], which come as {0} and are the caller's, on failure too. */
qn_status qn_completion_prompts(const qn_completion_request *request, const qn_tokenizer *tokenizer, qn_tokens *prompts,
                                qn_error *err);

#endif
