/* Tells an answer (answer.h) as /v1/completions does. */
#ifndef QN_SERVER_COMPLETION_WRITER_H
#define QN_SERVER_COMPLETION_WRITER_H

#include "server/answer.h"
#include "server/openai_completion.h"

extern const qn_answer_api qn_completion_api;

/* A writer for qn_completion_api. Of the request, nothing is needed afterwards. The answer keeps its prompts where they
 * are told: with echo and return_token_ids. */
qn_status qn_completion_writer_new(const qn_server *server, const qn_completion_request *request,
                                   const char *request_id, void **out, qn_error *err);

#endif
