/* One answer of /v1/chat/completions in the making: a stream of the engine for each of its choices, read on the
 * connection's thread into one body or into chunks.
 *
 * Whoever waits here waits for news and for the client at once: when the client hangs up, the streams are closed, and
 * the engine drops all choices within a step. */
#ifndef QN_SERVER_CHAT_ANSWER_H
#define QN_SERVER_CHAT_ANSWER_H

#include "engine/stream.h"
#include "server/http.h"
#include "server/openai_chat.h"
#include "server/openai_response.h"
#include "server/server_internal.h"
#include "text/tokenizer.h"

typedef struct qn_chat_answer qn_chat_answer;

/* An answer with no choices yet. What it tells of itself: an id, the time, the model. */
qn_status qn_chat_answer_new(qn_server *server, qn_chat_answer **out, qn_error *err);

/* Submits the request's choices. The prompt is copied where the answer tells its ids; of `chat`, nothing is needed
 * afterwards. All or none: when one is refused, the others are withdrawn. Errors as qn_stream_open. */
qn_status qn_chat_answer_start(qn_chat_answer *answer, const qn_chat_request *chat, const qn_tokens *prompt,
                               qn_error *err);

/* Waits for the end and fills the reply, with an error too. */
void qn_chat_answer_reply(qn_chat_answer *answer, qn_http_exchange *exchange, qn_http_reply *reply);

/* Makes the reply a stream of chunks, which owns the answer from now on. */
void qn_chat_answer_stream(qn_chat_answer *answer, qn_http_reply *reply);

/* Withdraws what is not done. NULL is fine. */
void qn_chat_answer_free(qn_chat_answer *answer);

#endif
