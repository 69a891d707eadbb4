/* Lark's grammar notation, as far as it has meaning for a matcher.
 *
 *   start: pair ("," pair)*          rules in small letters; `start` is where a grammar starts
 *   pair: KEY "=" value -> pair      aliases, ?rule, !rule and priorities shape a tree: they are read and change
 * nothing value: "yes"i | /[a-z]+/i | "0".."9" | NUMBER ~ 2..3 | [value] KEY: LETTER+                     terminals in
 * capitals %import common.NUMBER            also: %import common (LETTER, WS), %import common.INT -> N %ignore WS may
 * stand before, between and behind terminals
 *
 * It is a grammar of characters: there is no lexer that would prefer the longest terminal, a literal or a priority, so
 * a text matches if any way to cut it does. Regexes are those of regex.h without anchors, with flags i, s, x and m; a
 * rule may begin with itself (rule_table.h). Templates, %declare, %override, %extend and imports from elsewhere are
 * refused.
 *
 * Errors are QN_USAGE, "lark: line 2, column 5: what: what to do"; QN_RESOURCE out of memory. Bounds: source.h. */
#ifndef QN_GRAMMAR_LARK_H
#define QN_GRAMMAR_LARK_H

#include <stddef.h>

#include "grammar/grammar.h"

enum { QN_LARK_MAX_REPEATS = 1000000 };

qn_status qn_lark_expr(qn_grammar_builder *b, const char *text, size_t bytes, qn_expr *out, qn_error *err);

/* The regex of a terminal of Lark's module `common`; NULL: there is none of this name. */
const char *qn_lark_common(const char *name, size_t bytes);

#endif
