/* The chat template of a checkpoint, and conversations rendered with it.
 *
 * Knows templates and JSON, no tokens: the engine encodes the text, and the spans tell it which bytes a client wrote. A
 * qn_chat never changes once open; any number of threads may render with it. */
#ifndef QN_TEXT_CHAT_H
#define QN_TEXT_CHAT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/span.h"

typedef struct qn_chat qn_chat;

/* Takes the template of `template_path`, or with NULL that of the directory: chat_template.jinja, else `chat_template`
 * of tokenizer_config.json (a string, or a list of {name, template} with one named "default"). The special tokens that
 * tokenizer_config.json names (bos_token, eos_token, ...; strings or objects with `content`) become variables.
 * QN_BAD_INPUT when there is no template, or none that can be used. */
qn_status qn_chat_open(const char *model_dir, const char *template_path, qn_chat **out, qn_error *err);
void qn_chat_free(qn_chat *chat); /* NULL is fine */

/* Renders a conversation as transformers-based servers do: `messages` (an array of objects), `tools` (an array, or NULL
 * for none: the template then sees none) and `kwargs` (an object of further variables, or NULL) all come from the
 * request. Arguments of tool calls in the history that are JSON text are parsed first; an empty text is {}.
 * Appends to `text`, and to `request_spans` (empty, or NULL) the ranges of it that came from the request.
 * QN_USAGE, the field named, for what the template or its variables refuse; on failure the outputs are as before. */
qn_status qn_chat_render(const qn_chat *chat, const json_t *messages, const json_t *tools, const json_t *kwargs,
                         bool add_generation_prompt, qn_buffer *text, qn_span_list *request_spans, qn_error *err);

/* Whether the template may read the variable: a keyword that it never reads changes nothing. */
bool qn_chat_reads(const qn_chat *chat, const char *name);

#endif
