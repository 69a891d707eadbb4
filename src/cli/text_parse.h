/* `quern text parse`: what a model emitted to reasoning, content and tool calls, as the server tells them. */
#ifndef QN_CLI_TEXT_PARSE_H
#define QN_CLI_TEXT_PARSE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/tokenizer.h"
#include "text/tool_list.h"

typedef struct qn_text_parse {
    const qn_tokenizer *tokenizer;
    const qn_tool_list *tools; /* NULL: markup of calls is text */
    size_t chunk;              /* bytes of text that become tokens by themselves; 0: a segment as a whole */
    bool stream;               /* deltas, token by token, instead of the whole */
} qn_text_parse;

/* Reads the tools of a request: a list, or an object that has one as `tools`. */
qn_status qn_text_parse_tools(const char *path, qn_tool_list **out, qn_error *err);

/* input: {"output": [segment, ...], "thinking_prompt": bool, "finish": "stop" | "length"}. A segment is text that
 * becomes ordinary tokens, or a list of one special token's name. More fields are fine, so that files of cases go
 * through as they are; their "finish_reason" stands for a missing "finish".
 *
 * Appends {"reasoning", "content", "tool_calls": [{"name", "arguments"}]}; the arguments of a call that was cut are a
 * string, the beginning of their JSON. As deltas: [{"reasoning"}, {"content"}, {"tool_calls": [{"index", "name"}]},
 * {"tool_calls": [{"index", "arguments"}]}, ...]. */
qn_status qn_text_parse_line(const qn_text_parse *parse, const json_t *input, qn_buffer *out, qn_error *err);

#endif
