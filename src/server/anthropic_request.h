/* POST /v1/messages and /v1/messages/count_tokens: the request, from its bytes to a checked struct. A pure function of
 * its input.
 *
 * Fields are Anthropic's, and of quern's own those that steer generation (generation_fields.h) by the same names as
 * everywhere; docs/api.md lists each. A known field that this version can't honour is refused by name. */
#ifndef QN_SERVER_ANTHROPIC_REQUEST_H
#define QN_SERVER_ANTHROPIC_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "server/format_fields.h"
#include "server/generation_fields.h"
#include "server/openai_chat.h"
#include "server/request_fields.h"
#include "server/template_kwargs.h"
#include "server/tool_choice.h"

extern const qn_field_table qn_anthropic_fields;

typedef struct qn_anthropic_request {
    json_t *document;  /* the body; the pointers below point into it */
    json_t *steering;  /* its generation fields by the names that generation_fields.h knows */
    const char *model; /* NULL: not said */
    json_t *messages;  /* in OpenAI's shape (anthropic_messages.h) */
    qn_tool_choice tools;
    qn_format_fields form;
    qn_template_kwargs kwargs; /* the defaults, chat_template_kwargs, reasoning_effort, thinking and output_config */
    qn_generation_fields generation;
    bool stream;
    bool prefill;                      /* the last message is the assistant's: the answer goes on with it */
    bool hides_thoughts;               /* thinking.display: "omitted" */
    qn_unknown_fields unknown;         /* top-level fields never heard of */
    qn_unknown_fields unknown_message; /* the same of messages and their blocks */
    qn_unknown_fields unknown_tool;    /* the same of tools */
} qn_anthropic_request;

/* `counting`: for count_tokens, which needs no max_tokens. QN_USAGE: the client's fault, err->field the parameter (""
 * when it is the body as a whole); QN_RESOURCE. On success the caller releases *out with qn_anthropic_request_free. */
qn_status qn_anthropic_request_parse(const char *body, size_t bytes, bool counting, const qn_chat_defaults *defaults,
                                     qn_anthropic_request *out, qn_error *err);
void qn_anthropic_request_free(qn_anthropic_request *request); /* back to {0}; {0} is fine */

#endif
