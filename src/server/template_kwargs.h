/* Variables for the chat template: what a request says of them, the same in every API that renders a conversation.
 *
 * Several fields say the same thing: whether the model thinks, how much, and whether the template still shows earlier
 * thoughts. Each reader below notes which field said what, so that one that says otherwise is refused by both names,
 * whichever comes first. A request goes over the server's defaults, and is no contradiction to them. */
#ifndef QN_SERVER_TEMPLATE_KWARGS_H
#define QN_SERVER_TEMPLATE_KWARGS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "server/request_fields.h"

/* `chat_template_kwargs`, `reasoning_effort`, and what other servers know of templates: a part of these APIs' tables.
 */
extern const qn_field_table qn_template_fields;

typedef struct qn_template_kwargs {
    json_t *values;    /* what the template is given: an object, which shares values with document and defaults */
    const json_t *own; /* the document's chat_template_kwargs; NULL: none */
    /* Names of fields, which live as long as the program; NULL: none said so. */
    const char *thinks, *silent;    /* what asked for thoughts, and what for none */
    const char *effort, *effort_by; /* "low", "high", "max", "" (none), and what asked for it */
} qn_template_kwargs;

/* `chat_template_kwargs` and `reasoning_effort` over the defaults (NULL: none). QN_USAGE names the field; QN_RESOURCE.
 * The document has to live as long as *out, which the caller releases with qn_template_kwargs_free, after errors too.
 */
qn_status qn_template_kwargs_read(const json_t *document, const json_t *defaults, qn_template_kwargs *out,
                                  qn_error *err);
void qn_template_kwargs_free(qn_template_kwargs *kwargs); /* back to {0}; {0} is fine */

/* `field` of the document says, by what errors call `name` ("thinking.type"), whether the model is to think.
 * enable_thinking is set only where that changes something: some templates always think and never read it, which is for
 * the log to tell those only who asked for no thoughts. Errors likewise. */
qn_status qn_template_think_set(qn_template_kwargs *kwargs, const char *field, const char *name, bool thinks,
                                qn_error *err);

/* What an effort is about: OpenAI's of thoughts, so that to ask for one is to ask for these; Anthropic's of the answer
 * as a whole, with and without thoughts. */
typedef enum qn_effort_of { QN_EFFORT_OF_THOUGHTS, QN_EFFORT_OF_ANSWER } qn_effort_of;

/* The variable that an effort's word stands for: minimal and low (low), medium and high (high), xhigh and max (max) are
 * `reasoning_effort`, of which GLM-5's templates know these three; none asks for no thoughts. Errors likewise. */
qn_status qn_template_effort_set(qn_template_kwargs *kwargs, const char *field, const char *name, const json_t *word,
                                 qn_effort_of of, qn_error *err);

/* `thinking` as z.ai's API has it: `type` enabled or disabled, `clear_thinking` the template variable of that name.
 * Errors likewise. */
qn_status qn_template_thinking_read(const json_t *document, qn_template_kwargs *kwargs, qn_unknown_fields *unknown,
                                    qn_error *err);

/* Checks template variables: a name that the server sets itself, or an unknown reasoning_effort, is refused. `field`
 * names them in errors. Also for --default-chat-template-kwargs. */
qn_status qn_template_kwargs_check(const json_t *kwargs, const char *field, qn_error *err);

#endif
