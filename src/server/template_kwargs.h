/* Variables for the chat template: what a request says of them, the same in every API that renders a conversation. */
#ifndef QN_SERVER_TEMPLATE_KWARGS_H
#define QN_SERVER_TEMPLATE_KWARGS_H

#include <jansson.h>

#include "base/error.h"
#include "server/request_fields.h"

/* `chat_template_kwargs`, `reasoning_effort`, and what other servers know of templates: a part of these APIs' tables.
 */
extern const qn_field_table qn_template_fields;

/* `chat_template_kwargs` and `reasoning_effort` over the defaults (NULL: none), a new object, the caller's; it shares
 * values with the document. QN_USAGE names the field; QN_RESOURCE. */
qn_status qn_template_kwargs_read(const json_t *document, const json_t *defaults, json_t **out, qn_error *err);

/* Sets a variable that `field` of the document stands for; chat_template_kwargs may say the same but not otherwise.
 * Takes the value; NULL: there was no memory for it. Errors likewise, naming both. */
qn_status qn_template_kwargs_set(json_t *kwargs, const json_t *document, const char *field, const char *name,
                                 json_t *value, qn_error *err);

/* Sets the variable that an effort's word in one of the document's fields stands for: minimal and low (low), medium and
 * high (high), xhigh and max (max) are `reasoning_effort`, of which GLM-5's templates know these three; none is
 * `enable_thinking` false. `name` is how errors call it ("reasoning.effort"); `reasoning_effort` may say the same but
 * not otherwise. */
qn_status qn_template_effort_set(json_t *kwargs, const json_t *document, const char *field, const char *name,
                                 const json_t *word, qn_error *err);

/* Checks template variables: a name that the server sets itself, or an unknown reasoning_effort, is refused. `field`
 * names them in errors. Also for --default-chat-template-kwargs. */
qn_status qn_template_kwargs_check(const json_t *kwargs, const char *field, qn_error *err);

#endif
