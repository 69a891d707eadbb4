/* A conversation as Anthropic's Messages API sends it, made into what chat templates expect: OpenAI's shape, which
 * chat_messages.h makes as well.
 *
 * `system` (a string or text blocks) becomes the first message. A user's tool_result blocks become messages of role
 * tool; the text between them stays a user's. An assistant's thinking blocks become reasoning_content, its tool_use
 * blocks tool_calls, in their order. Blocks of text are joined as they are. redacted_thinking is another model's secret
 * and left out; anything else that a text model can't take is refused, never dropped. */
#ifndef QN_SERVER_ANTHROPIC_MESSAGES_H
#define QN_SERVER_ANTHROPIC_MESSAGES_H

#include <jansson.h>

#include "base/error.h"
#include "server/request_fields.h"

/* *out: a new array, the caller's, which shares values with the input. Either input may be NULL (absent), but there
 * must be messages, 1 to QN_CHAT_MAX_MESSAGES. QN_USAGE with field "messages" or "system", the sentence telling the
 * place; QN_RESOURCE. Unknown fields of messages and blocks are not passed on but reported. */
qn_status qn_anthropic_messages_translate(const json_t *system, const json_t *messages, json_t **out,
                                          qn_unknown_fields *unknown, qn_error *err);

#endif
