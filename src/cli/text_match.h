/* `quern text match`: does a text match a regex or a grammar, and if not, where does it leave it? */
#ifndef QN_CLI_TEXT_MATCH_H
#define QN_CLI_TEXT_MATCH_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "grammar/grammar.h"

/* What the flags say, one of them; and the grammar of it. Start from {0}. */
typedef struct qn_text_match {
    const char *regex;                               /* itself */
    const char *gbnf_path, *lark_path, *choice_path; /* files; of a choice: a JSON array of strings */
    const char *schema_path;                         /* a file: a JSON Schema of the text */
    qn_grammar *grammar;
} qn_text_match;

bool qn_text_match_is_set(const qn_text_match *match); /* a flag was given */

/* Compiles it. QN_USAGE: none or several of the flags, a regex that is none; QN_BAD_INPUT: a file. */
qn_status qn_text_match_open(qn_text_match *match, qn_error *err);
void qn_text_match_close(qn_text_match *match);

/* Appends true, or {"match":false,"byte":N} with the number of bytes before the first that cannot come; N is the text's
 * length where the text is only a beginning. QN_RESOURCE: out of memory, or too many ways to read the text. */
qn_status qn_text_match_answer(const qn_text_match *match, const char *text, size_t bytes, qn_buffer *out,
                               qn_error *err);

#endif
