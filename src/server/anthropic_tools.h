/* The tools of a request to Anthropic's Messages API, made into OpenAI's shape, which chat templates expect. */
#ifndef QN_SERVER_ANTHROPIC_TOOLS_H
#define QN_SERVER_ANTHROPIC_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "server/request_fields.h"

typedef enum qn_anthropic_choice {
    QN_ANTHROPIC_AUTO, /* the model decides */
    QN_ANTHROPIC_NONE, /* no calls: the template is shown no tools */
    QN_ANTHROPIC_ANY,  /* a call of some tool */
    QN_ANTHROPIC_TOOL  /* a call of `name` */
} qn_anthropic_choice;

typedef struct qn_anthropic_tools {
    json_t *list; /* owned: [{"type": "function", "function": {name, description, parameters}}]; NULL: none */
    qn_anthropic_choice choice;
    const char *name;   /* TOOL: one of the list, in the document */
    bool one_at_a_time; /* disable_parallel_tool_use */
    bool strict;        /* some tool asks that its arguments keep to its schema */
} qn_anthropic_tools;

/* Reads `tools` and `tool_choice` of the document, which must live as long as *out. QN_USAGE with field "tools" or
 * "tool_choice"; QN_RESOURCE. Whatever it returns, qn_anthropic_tools_free releases what there is. */
qn_status qn_anthropic_tools_read(const json_t *document, qn_anthropic_tools *out, qn_unknown_fields *unknown,
                                  qn_error *err);
void qn_anthropic_tools_free(qn_anthropic_tools *tools); /* back to {0}; {0} is fine */

#endif
