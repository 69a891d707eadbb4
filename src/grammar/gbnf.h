/* GBNF, the grammar notation of llama.cpp, which vLLM calls EBNF.
 *
 *   root  ::= "[" item ("," item)* "]"     a rule a line; `root` is the start
 *   item  ::= [0-9]{1,3} | "x" [^a-z"] .   literals, classes, any character
 *
 * Literals and classes take \n \t \r \xHH \uHHHH \UHHHHHHHH and escaped punctuation; items take * + ? {m} {m,} {m,n}
 * {,n}; # begins a comment. An expression goes on over lines inside parentheses, behind | and ::=, and where the next
 * line begins with |. Names are letters, digits, - and _. A rule may begin with itself (rule_table.h).
 *
 * Errors are QN_USAGE, "gbnf: line 2, column 5: what: what to do": syntax, a name that is defined twice or not at all,
 * no `root`; QN_RESOURCE out of memory. Bounds: source.h. */
#ifndef QN_GRAMMAR_GBNF_H
#define QN_GRAMMAR_GBNF_H

#include <stddef.h>

#include "grammar/grammar.h"

enum { QN_GBNF_MAX_REPEATS = 1000000 };

qn_status qn_gbnf_expr(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err);

#endif
