/* `tools`, `tool_choice` and `parallel_tool_calls` of OpenAI's APIs. Chat completions nest what is said of a function
 * in an object `function`; the Responses API does not. */
#ifndef QN_SERVER_OPENAI_TOOLS_H
#define QN_SERVER_OPENAI_TOOLS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "server/request_fields.h"
#include "server/tool_choice.h"

/* *out comes as {0}; whatever it returns, qn_tool_choice_free releases what there is. Unknown fields of tools are
 * added to `unknown`. QN_USAGE names the field; QN_RESOURCE. */
qn_status qn_openai_tools_read(const json_t *document, bool nested, qn_tool_choice *out, qn_unknown_fields *unknown,
                               qn_error *err);

#endif
