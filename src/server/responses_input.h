/* A conversation as OpenAI's Responses API sends it, made into what chat templates expect (chat_messages.h).
 *
 * The input is a string, what the user says, or a list of items. Messages become messages, their text parts joined;
 * function_call_output becomes a message of role tool. An assistant's turn comes as several items, reasoning, message
 * and function_call, and becomes one message with reasoning_content, content and tool_calls. Anything that a text model
 * can't take is refused, never dropped. */
#ifndef QN_SERVER_RESPONSES_INPUT_H
#define QN_SERVER_RESPONSES_INPUT_H

#include <jansson.h>

#include "base/error.h"
#include "server/request_fields.h"

/* Appends to `messages`, an array, which shares values with the input: what `history` has, a list of items that were
 * accepted before (NULL: none), and then the input. QN_USAGE with field "input", the sentence telling the place;
 * QN_RESOURCE. Unknown fields of items are not passed on but reported. */
qn_status qn_responses_input_translate(const json_t *history, const json_t *input, json_t *messages,
                                       qn_unknown_fields *unknown, qn_error *err);

#endif
