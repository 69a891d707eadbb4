/* A conversation as the API sends it, made into what chat templates expect.
 *
 * developer becomes system; content parts of type text are joined into one string; an assistant's `reasoning` becomes
 * `reasoning_content`. Anything that a text model can't take (images, audio, files) is refused, never dropped. The
 * arguments of tool calls are passed on, an object or a string: text/chat.h reads what the string holds. */
#ifndef QN_SERVER_CHAT_MESSAGES_H
#define QN_SERVER_CHAT_MESSAGES_H

#include <jansson.h>

#include "base/error.h"
#include "server/request_fields.h"

enum { QN_CHAT_MAX_MESSAGES = 65536 };

/* *out: a new array, the caller's. The input is not changed; the output shares values with it. QN_USAGE with field
 * "messages", the sentence telling which message; QN_RESOURCE. Unknown fields of messages are not passed on but
 * reported. */
qn_status qn_chat_messages_normalise(const json_t *messages, json_t **out, qn_unknown_fields *unknown, qn_error *err);

#endif
