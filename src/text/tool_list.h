/* The tools that a request declares, in the shape of OpenAI's `tools`:
 * [{"type": "function", "function": {"name", "description", "parameters", "strict"}}, ...].
 *
 * A list does not change once it is made: any number of threads may read it at once. */
#ifndef QN_TEXT_TOOL_LIST_H
#define QN_TEXT_TOOL_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/argument_type.h"

enum { QN_TOOL_MAX_COUNT = 1024, QN_TOOL_NAME_MAX_BYTES = 128 };

typedef struct qn_tool_list qn_tool_list;

typedef struct qn_tool {
    const char *name;                 /* 1 to 128 of letters, digits, '_', '-', '.'; no two are equal */
    const json_t *parameters;         /* their schema, an object; NULL: none given */
    struct qn_tool_parameters *types; /* for tool_list.c */
} qn_tool;

/* Checks the tools, and reads what type each parameter has. The values of `tools` are kept by reference. QN_USAGE with
 * field "tools": it is no list, is empty or too long, or an entry is not right; the sentence tells which
 * ("tools[2].function.name: ..."). */
qn_status qn_tool_list_new(const json_t *tools, qn_tool_list **out, qn_error *err);
void qn_tool_list_free(qn_tool_list *list); /* NULL is fine */

size_t qn_tool_list_count(const qn_tool_list *list);
const qn_tool *qn_tool_list_at(const qn_tool_list *list, size_t index);
const qn_tool *qn_tool_list_find(const qn_tool_list *list, const char *name, size_t bytes); /* NULL: not declared */

/* Whether the tool's schema names the parameter. */
bool qn_tool_declares(const qn_tool *tool, const char *name, size_t bytes);

/* How the parameter's text is to be read; NULL: nothing is said of it. */
const qn_argument_type *qn_tool_argument_type(const qn_tool *tool, const char *name, size_t bytes);

/* The schema whose `properties` count: `parameters` itself, or what a $ref at its top leads to within it. */
const json_t *qn_tool_object_schema(const json_t *parameters);

#endif
