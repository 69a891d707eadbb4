/* A rendered conversation cut right after its last message's text, so that the model goes on with that message instead
 * of a new one (vLLM's continue_final_message). */
#ifndef QN_TEXT_CHAT_CONTINUE_H
#define QN_TEXT_CHAT_CONTINUE_H

#include <jansson.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/span.h"

/* `text` and `spans` come from qn_chat_render of `messages` without a generation prompt, and are cut. The last message
 * must be an assistant's, with a text and without calls behind it. A template that trims the text's end is followed.
 * QN_USAGE, field "continue_final_message", where that is not so or the template does not show the text. */
qn_status qn_chat_cut_after_final(const json_t *messages, qn_buffer *text, qn_span_list *spans, qn_error *err);

#endif
