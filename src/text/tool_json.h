/* Small questions about the text inside of a tool call: its white space, and calls that a model wrote as JSON. */
#ifndef QN_TEXT_TOOL_JSON_H
#define QN_TEXT_TOOL_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/tool_list.h"

/* A stretch of somebody's text. */
typedef struct qn_tool_text {
    const char *text;
    size_t bytes;
} qn_tool_text;

qn_tool_text qn_tool_json_trim(const char *text, size_t bytes);
qn_tool_text qn_tool_json_trim_start(const char *text, size_t bytes);
qn_tool_text qn_tool_json_first_word(qn_tool_text text); /* up to white space */

/* Could the text go on so that it is JSON? Never false where it could; nothing but white space could. */
bool qn_tool_json_may_begin(const char *text, size_t bytes);

/* A call in JSON. */
typedef struct qn_tool_json {
    qn_tool_text name; /* empty: it is none */
    qn_tool_text arguments;
    json_t *value; /* for tool_json.c */
} qn_tool_json;

/* Reads {"name": NAME, "arguments": OBJECT} ("parameters" too; the object may be missing, null, or JSON in a string) or
 * NAME OBJECT with the name of a declared tool. Text that is neither gives an empty name. What is found points into
 * `text` and `value`. QN_RESOURCE only. */
qn_status qn_tool_json_read(qn_tool_text text, const qn_tool_list *tools, qn_tool_json *out, qn_error *err);
void qn_tool_json_free(qn_tool_json *json);

#endif
