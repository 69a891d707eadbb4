/* Which tools a request declares and what it wants of them, whichever API it speaks; and the grammar that its answer is
 * held to by that and by the form it asks for.
 *
 * With tools, an answer is text and then calls, if any: each of a tool that may be called, in the model's own format,
 * so that no markup ever is where it does not belong. Its arguments keep to the tool's schema where a call is demanded
 * and where the tool is strict; else their keys and texts are the model's. */
#ifndef QN_SERVER_TOOL_CHOICE_H
#define QN_SERVER_TOOL_CHOICE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "server/server_internal.h"
#include "text/answer_grammar.h"
#include "text/tool_list.h"

typedef enum qn_tool_demand {
    QN_TOOLS_AUTO, /* the model decides */
    QN_TOOLS_NONE, /* no calls: the template is shown no tools */
    QN_TOOLS_CALL  /* calls and no text behind the thoughts */
} qn_tool_demand;

typedef struct qn_tool_choice {
    json_t *list;   /* [{"type": "function", "function": {name, description, parameters}}]; NULL: none */
    bool *strict;   /* [of list] whose arguments keep to the schema in any case; NULL with the list */
    bool *callable; /* [of list] what may be called; NULL: everything */
    qn_tool_demand demand;
    bool several; /* calls in one answer; a demand is for exactly one unless the request says otherwise */
    const char *parameters_name; /* what its API calls a tool's schema, for errors; NULL: ".function.parameters" */
    size_t capacity;             /* of strict; for tool_choice.c */
} qn_tool_choice;                /* owns its list and flags */

/* Appends a tool, before any is allowed; shares the values, of which description and parameters may be NULL. QN_USAGE
 * with field "tools": there are QN_TOOL_MAX_COUNT already; QN_RESOURCE. */
qn_status qn_tool_choice_add(qn_tool_choice *choice, const json_t *name, const json_t *description,
                             const json_t *parameters, bool strict, qn_error *err);

/* Only tools that were allowed so may be called; *found: there is one of this name. QN_RESOURCE. */
qn_status qn_tool_choice_allow(qn_tool_choice *choice, const char *name, bool *found, qn_error *err);

void qn_tool_choice_free(qn_tool_choice *choice); /* back to {0}; {0} is fine */

/* The tools that the template is shown, and whose calls are told apart; NULL: none. */
const json_t *qn_tool_choice_shown(const qn_tool_choice *choice);

/* The tools whose calls are told apart in the answer. *out: the caller's; NULL: none. Errors as qn_tool_list_new. */
qn_status qn_tool_choice_tools(const qn_tool_choice *choice, qn_tool_list **out, qn_error *err);

/* *out: a reference of the caller's; NULL: the answer is free. Errors as qn_answer_grammar_new. */
qn_status qn_tool_choice_grammar(const qn_server *server, const qn_tool_choice *choice, const qn_answer_format *format,
                                 qn_answer_grammar **out, qn_error *err);

/* Whether the engine's chat template shows calls with line breaks between their parts, as GLM-4.5's does. */
bool qn_tool_choice_line_breaks(const qn_engine *engine);

#endif
