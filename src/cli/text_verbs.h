/* The verbs of `quern text`: what each makes of one input. */
#ifndef QN_CLI_TEXT_VERBS_H
#define QN_CLI_TEXT_VERBS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "cli/text_match.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"
#include "text/tool_list.h"

/* What a verb works with, and its answer to one input. */
typedef struct qn_text_tool {
    const char *tokenizer_path, *template_path, *tools_path;
    bool jsonl, skip_special, stream;
    qn_tokenizer *tokenizer;
    qn_template *template;
    qn_text_match match;
    qn_tool_list *tools;
    size_t chunk;
    qn_tokens tokens; /* scratch */
    qn_buffer out;
} qn_text_tool;

typedef struct qn_text_verb {
    const char *name;
    bool needs_tokenizer, needs_template, needs_grammar;
    /* Appends the JSON answer to one JSON input. */
    qn_status (*answer)(qn_text_tool *tool, const json_t *input, qn_error *err);
    /* Without --jsonl: appends the plain answer to a plain input. */
    qn_status (*answer_plain)(qn_text_tool *tool, const char *input, size_t bytes, qn_error *err);
    bool decodes, parses; /* which flags it has */
    bool answers_bytes;   /* plain answers are given byte by byte, without a line's end */
} qn_text_verb;

/* The verb of this name; QN_USAGE names those that there are. */
qn_status qn_text_verb_find(const char *name, const qn_text_verb **out, qn_error *err);

#endif
