/* The terminals that a grammar in Lark's notation writes out where it uses them: "text", "text"i, "a".."z",
 * /regex/flags.
 *
 * Both begin at the first quote or slash and take all of it. False: r->err tells why. */
#ifndef QN_GRAMMAR_LARK_TERMINAL_H
#define QN_GRAMMAR_LARK_TERMINAL_H

#include <stdbool.h>

#include "grammar/rule_reader.h"

bool qn_lark_read_string(qn_rule_reader *r, qn_expr *out); /* or a range */
bool qn_lark_read_regex(qn_rule_reader *r, qn_expr *out);

/* The regex alone, with its flags (regex.h); what is wrong with it is told at `at`. */
bool qn_lark_build_regex(qn_rule_reader *r, size_t at, const char *regex, size_t bytes, unsigned flags, qn_expr *out);

#endif
