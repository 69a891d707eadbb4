/* GLM's native format of tool calls as an expression of a grammar: what an answer that has to call may be.
 *
 *   <tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>...</tool_call>
 *
 * with a line break behind NAME and each closing tag in the older dialect (GLM-4.5). The six tags are letters, by the
 * ids of the tokenizer's added tokens; NAME is one of the tools, each KEY a property of its parameters in any order and
 * at most once, with all that are required; VALUE is held to the property's schema (QN_SCHEMA_ARGUMENT in
 * grammar/json_schema.h: a string is bare). Keys that a tool does not declare are never called with. A tool that is not
 * held to its schema is called with any keys and any text as values.
 *
 * `parameters` may be a $ref that leads to the schema in it whose properties count. Of that schema properties,
 * required, minProperties, maxProperties and type are enforced; another keyword that asks something of the arguments
 * together (anyOf, dependentRequired, ...) is refused by name, and so are bounds that no call can keep, and a property
 * whose name no call can tell: an empty one, or one with white space around. */
#ifndef QN_TEXT_TOOL_GRAMMAR_H
#define QN_TEXT_TOOL_GRAMMAR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"

typedef struct qn_call_rules {
    const json_t *tools;  /* OpenAI's list, as qn_tool_list_new takes it (tool_list.h) */
    const bool *callable; /* [of tools] what may be called; NULL: all */
    const bool *held;     /* [of tools] whose arguments keep to the schema, the others' being free; NULL: all */
    size_t min, max;      /* calls, max at least 1 and possibly QN_UNBOUNDED */
    bool line_breaks;     /* the older dialect */
} qn_call_rules;

/* QN_USAGE with field "tools": a schema that cannot be enforced, with its place. QN_BAD_INPUT: the tokenizer lacks one
 * of the tags. QN_RESOURCE. The tools need not live longer than the call. */
qn_status qn_tool_calls_expr(qn_grammar_builder *b, const qn_tokenizer *tokenizer, const qn_call_rules *rules,
                             qn_expr *out, qn_error *err);

#endif
