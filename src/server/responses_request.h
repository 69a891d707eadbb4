/* POST /v1/responses: the request, from its bytes to a checked struct. A pure function of its input.
 *
 * Fields are OpenAI's, and of quern's own those that steer generation, by the same names as everywhere; docs/api.md
 * lists each. A known field that this version can't honour is refused by name. */
#ifndef QN_SERVER_RESPONSES_REQUEST_H
#define QN_SERVER_RESPONSES_REQUEST_H

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

extern const qn_field_table qn_responses_fields;

typedef struct qn_responses_request {
    json_t *document;     /* the body; the pointers below point into it */
    json_t *steering;     /* its generation fields by the names that generation_fields.h knows */
    const char *model;    /* NULL: not said */
    const char *previous; /* previous_response_id; NULL: none */
    bool store;           /* may be kept */
    bool needs_store;     /* it goes on from a response, or its input refers to items */
    json_t *input;        /* with the items that it refers to */
    json_t *messages;     /* in OpenAI's chat shape, instructions first; NULL while needs_store */
    qn_tool_choice tools;
    qn_format_fields form;
    qn_template_kwargs kwargs; /* the defaults, chat_template_kwargs, reasoning.effort and thinking */
    qn_generation_fields generation;
    bool stream;
    qn_unknown_fields unknown;      /* top-level fields never heard of */
    qn_unknown_fields unknown_item; /* the same of items of the input */
} qn_responses_request;

/* QN_USAGE: the client's fault, err->field the parameter ("" when it is the body as a whole); QN_RESOURCE. On success
 * the caller releases *out with qn_responses_request_free. Messages of a request that needs the store are left to
 * qn_responses_request_continue. */
qn_status qn_responses_request_parse(const char *body, size_t bytes, const qn_chat_defaults *defaults,
                                     qn_responses_request *out, qn_error *err);

/* Makes the messages of a request that needs the store: its own instructions, the items of the conversation before
 * (qn_responses_items_parse; NULL: none), and its input. `input`, which the request takes, is that with items in the
 * place of references; NULL: there were none. Errors as above. */
qn_status qn_responses_request_continue(qn_responses_request *request, const json_t *history, json_t *input,
                                        qn_error *err);

void qn_responses_request_free(qn_responses_request *request); /* back to {0}; {0} is fine */

#endif
