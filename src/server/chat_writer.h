/* Tells an answer (answer.h) as /v1/chat/completions does. */
#ifndef QN_SERVER_CHAT_WRITER_H
#define QN_SERVER_CHAT_WRITER_H

#include "server/answer.h"
#include "server/openai_chat.h"

extern const qn_answer_api qn_chat_api;

/* A writer for qn_chat_api. Of the request, nothing is needed afterwards. */
qn_status qn_chat_writer_new(const qn_server *server, const qn_chat_request *chat, const char *request_id, void **out,
                             qn_error *err);

#endif
