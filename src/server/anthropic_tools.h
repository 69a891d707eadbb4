/* The tools of a request to Anthropic's Messages API, made into OpenAI's shape, which chat templates expect. */
#ifndef QN_SERVER_ANTHROPIC_TOOLS_H
#define QN_SERVER_ANTHROPIC_TOOLS_H

#include <jansson.h>

#include "base/error.h"
#include "server/request_fields.h"
#include "server/tool_choice.h"

/* Reads `tools` and `tool_choice` of the document into *out, which comes as {0}. QN_USAGE with field "tools" or
 * "tool_choice"; QN_RESOURCE. Whatever it returns, qn_tool_choice_free releases what there is. */
qn_status qn_anthropic_tools_read(const json_t *document, qn_tool_choice *out, qn_unknown_fields *unknown,
                                  qn_error *err);

#endif
