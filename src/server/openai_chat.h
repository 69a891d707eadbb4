/* POST /v1/chat/completions: the request, from its bytes to a checked struct. A pure function of its input.
 *
 * Fields are OpenAI's and vLLM's; docs/api.md lists each with its class. A known field that this version can't honour
 * is refused by name unless its value is the one that asks for nothing. */
#ifndef QN_SERVER_OPENAI_CHAT_H
#define QN_SERVER_OPENAI_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "server/format_fields.h"
#include "server/generation_fields.h"
#include "server/openai_fields.h"
#include "server/request_fields.h"
#include "server/template_kwargs.h"
#include "server/tool_choice.h"

extern const qn_field_table qn_chat_fields;

typedef struct qn_chat_defaults {
    qn_generation_limits limits;
    const json_t *kwargs; /* object: template variables under the request's own; NULL: none */
} qn_chat_defaults;

typedef struct qn_chat_request {
    json_t *document;          /* the body; the pointers below point into it */
    const char *model;         /* NULL: not said */
    json_t *messages;          /* normalised (chat_messages.h) */
    qn_template_kwargs kwargs; /* the defaults, chat_template_kwargs, reasoning_effort and thinking */
    qn_generation_fields generation;
    qn_format_fields form;
    qn_tool_choice tools;
    int logprobs; /* -1: not asked for; else top_logprobs */
    qn_prompt_end prompt_end;
    bool include_reasoning; /* tell the model's thoughts */
    bool echo;              /* the answer's content begins with the last message's, where that is the assistant's */
    bool stream, include_usage, continuous_usage, return_token_ids;
    qn_unknown_fields unknown;         /* top-level fields never heard of */
    qn_unknown_fields unknown_message; /* the same of messages */
} qn_chat_request;

/* QN_USAGE: the client's fault, err->field the parameter ("" when it is the body as a whole); QN_RESOURCE. On success
 * the caller releases *out with qn_chat_request_free. */
qn_status qn_chat_request_parse(const char *body, size_t bytes, const qn_chat_defaults *defaults, qn_chat_request *out,
                                qn_error *err);
void qn_chat_request_free(qn_chat_request *request); /* back to {0}; {0} is fine */

#endif
