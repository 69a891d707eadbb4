/* String and number literals. */
#ifndef QN_TEXT_JINJA_LITERAL_H
#define QN_TEXT_JINJA_LITERAL_H

#include "text/jinja/lexer.h"

/* Read the literal at byte `at` of the source, which starts with a quote that is closed, or with a digit; set *end to
 * the byte behind it, and the token's kind and value. */
qn_status qn_lex_string(qn_compiler *c, size_t at, size_t *end, qn_token *token);
qn_status qn_lex_number(qn_compiler *c, size_t at, size_t *end, qn_token *token);

#endif
