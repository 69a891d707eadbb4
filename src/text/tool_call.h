/* GLM's tool calls, from markup and text to events, while they arrive:
 *
 *   <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>
 *
 * with or without newlines between the parts (GLM-4.5 writes them, GLM-4.7 and later do not). The caller recognises
 * markup by token id; text that merely spells it is text. The name is told once it is whole. A string's value streams
 * as it comes, JSON-escaped; what may be JSON is told when it is complete. All pieces of a call's arguments are one
 * JSON object, with its keys in the order of the answer; of two values for one key the first counts.
 *
 * What models get wrong is put right where that takes no guess:
 * - a missing <arg_key>: a declared tool's name is split off the text before </arg_key>;
 * - a missing </arg_key>, <arg_value> or </arg_value> before the markup or text that must follow it;
 * - </tool_call> within a value ends the call, unless text follows or </arg_value>: then the value quotes it;
 * - a missing </tool_call>, before another <tool_call> or at the end of the answer;
 * - {"name": ..., "arguments": {...}} in place of all this, or a declared tool's name and an object;
 * - text between arguments is dropped, and a call that never gets a name.
 * Any other text in a call that is not one is given back to be shown.
 *
 * One thread at a time. */
#ifndef QN_TEXT_TOOL_CALL_H
#define QN_TEXT_TOOL_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/output_events.h"
#include "text/tool_list.h"

typedef enum qn_call_markup {
    QN_MARKUP_CALL_BEGIN,
    QN_MARKUP_CALL_END,
    QN_MARKUP_KEY_BEGIN,
    QN_MARKUP_KEY_END,
    QN_MARKUP_VALUE_BEGIN,
    QN_MARKUP_VALUE_END,
    QN_MARKUP_COUNT
} qn_call_markup;

extern const char *const qn_call_markup_text[QN_MARKUP_COUNT]; /* "<tool_call>" */

typedef struct qn_tool_calls qn_tool_calls;

/* Tools and events outlive it. Text held until it is decided is at most 16 MiB: beyond, QN_RESOURCE. */
qn_status qn_tool_calls_new(const qn_tool_list *tools, qn_output_events *events, qn_tool_calls **out, qn_error *err);
void qn_tool_calls_free(qn_tool_calls *calls); /* NULL is fine */

bool qn_tool_calls_inside(const qn_tool_calls *calls); /* of a call: what comes belongs to it */

/* Markup, of which only CALL_BEGIN may come outside of a call. */
qn_status qn_tool_calls_markup(qn_tool_calls *calls, qn_call_markup markup, qn_error *err);

/* Text inside of a call, whole characters. */
qn_status qn_tool_calls_text(qn_tool_calls *calls, const char *text, size_t bytes, qn_error *err);

/* <think> or </think> inside of a call: text of a value, dropped elsewhere. Where it follows a </tool_call> that could
 * have been a quote, the call ends and the markup is the caller's. */
qn_status qn_tool_calls_think(qn_tool_calls *calls, const char *text, qn_error *err);

/* The end of the answer inside of a call. `cut`: by a limit, so that the call stays as far as it came; else it ends. */
qn_status qn_tool_calls_finish(qn_tool_calls *calls, bool cut, qn_error *err);

/* Text inside of the last call that turned out to be none, since qn_tool_calls_clear_refused; it is content. */
const qn_buffer *qn_tool_calls_refused(const qn_tool_calls *calls);
void qn_tool_calls_clear_refused(qn_tool_calls *calls);

#endif
