/* Fields that OpenAI's chat and text completions have in common, besides those of generation_fields.h. */
#ifndef QN_SERVER_OPENAI_FIELDS_H
#define QN_SERVER_OPENAI_FIELDS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "engine/engine.h"
#include "server/request_fields.h"

/* Fields of both, besides those that all APIs have: a part of their tables. */
extern const qn_field_table qn_openai_field_table;

typedef struct qn_openai_streaming {
    bool stream, include_usage, continuous_usage;
} qn_openai_streaming;

/* `stream` and `stream_options`; *out comes as {0}. QN_USAGE names the field. */
qn_status qn_openai_read_streaming(const json_t *document, qn_openai_streaming *out, qn_unknown_fields *unknown,
                                   qn_error *err);

/* `add_generation_prompt` and `continue_final_message`, which exclude each other; without the first the answer is a new
 * message unless the last one is continued. QN_USAGE names the field. */
qn_status qn_openai_read_prompt_end(const json_t *document, qn_prompt_end *out, qn_error *err);

#endif
