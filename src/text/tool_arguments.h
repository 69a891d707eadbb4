/* One call's arguments as one JSON object, told piece by piece while an answer gives them (text/tool_call.h).
 *
 * A value that can only be a string streams; one that may be JSON is held until it is complete. What it
 * is follows from the parameter's type (text/argument_type.h). Of two values for one key the first counts; one without
 * a key is dropped. Internal to this room; one thread at a time. */
#ifndef QN_TEXT_TOOL_ARGUMENTS_H
#define QN_TEXT_TOOL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/output_events.h"
#include "text/tool_list.h"

enum { QN_TOOL_HELD_MAX_BYTES = 16 << 20 }; /* of text that can't be told yet */

typedef struct qn_tool_arguments qn_tool_arguments;

/* The events outlive it. */
qn_status qn_tool_arguments_new(qn_output_events *events, qn_tool_arguments **out, qn_error *err);
void qn_tool_arguments_free(qn_tool_arguments *arguments); /* NULL is fine */

/* A call begins: its number, and its tool, which outlives the call; NULL: not declared. QN_RESOURCE: no memory. */
qn_status qn_tool_arguments_begin(qn_tool_arguments *arguments, size_t call, const qn_tool *tool, qn_error *err);
/* It is over, and no value is open: tells the end of the object. */
void qn_tool_arguments_end(qn_tool_arguments *arguments);

/* The key of the values that follow. */
void qn_tool_arguments_set_key(qn_tool_arguments *arguments, const char *key, size_t bytes);

/* A value: its begin, its text in pieces of whole characters, its end. QN_RESOURCE: no memory. */
qn_status qn_tool_arguments_begin_value(qn_tool_arguments *arguments, qn_error *err);
qn_status qn_tool_arguments_text(qn_tool_arguments *arguments, const char *text, size_t bytes, qn_error *err);
qn_status qn_tool_arguments_end_value(qn_tool_arguments *arguments, qn_error *err);

bool qn_tool_arguments_has_text(const qn_tool_arguments *arguments); /* some of the value has come */

/* A buffer could not grow, or what is held is too long; bytes held, for the message. */
bool qn_tool_arguments_failed(const qn_tool_arguments *arguments);
size_t qn_tool_arguments_held_bytes(const qn_tool_arguments *arguments);

#endif
