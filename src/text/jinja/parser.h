/* From tokens to the syntax tree, by Jinja2's grammar: parse_statement.c has the tags, parse_expression.c the
 * operators, parse_postfix.c what follows a value, parse_primary.c values and tuples, parser.c what all of them use. */
#ifndef QN_TEXT_JINJA_PARSER_H
#define QN_TEXT_JINJA_PARSER_H

#include "text/jinja/lexer.h"

typedef struct qn_parser {
    qn_compiler *compiler;
    const qn_token *at; /* the token to be read next */
    size_t nesting;     /* levels of recursion, bounded for the stack's sake */
} qn_parser;

/* The whole template. */
qn_status qn_parse(qn_compiler *c, qn_nodes *out);

/* What ends a tuple without parentheses, besides the end of a tag and ')'. */
typedef enum qn_tuple_end { QN_TUPLE_END_TAG, QN_TUPLE_END_IN, QN_TUPLE_END_RECURSIVE } qn_tuple_end;

typedef struct qn_tuple_rules {
    bool names_only;   /* an assignment's target */
    bool namespaces;   /* ns.name is a target too */
    bool no_condition; /* `a if b else c` is not taken */
    bool parentheses;  /* it stands in parentheses, so that it may be empty */
    qn_tuple_end end;
} qn_tuple_rules;

qn_status qn_parse_expression(qn_parser *p, qn_node **out);
qn_status qn_parse_condition(qn_parser *p, qn_node **out); /* an expression without `a if b else c` */
qn_status qn_parse_tuple(qn_parser *p, qn_tuple_rules rules, qn_node **out);
qn_status qn_parse_target(qn_parser *p, qn_tuple_rules rules, qn_node **out);
qn_status qn_parse_name_target(qn_parser *p, qn_node **out);

/* Filters behind a value: with value NULL, of a block's text. `inline_first`: the first has no '|' before it. *out is
 * NULL when there is none. */
qn_status qn_parse_filters(qn_parser *p, qn_node *value, bool inline_first, qn_node **out);

/* Parts of an expression. The last two go on with a value that has been read. */
qn_status qn_parse_primary(qn_parser *p, bool namespaces, qn_node **out);
qn_status qn_parse_postfix(qn_parser *p, qn_node **node);
qn_status qn_parse_filters_and_tests(qn_parser *p, qn_node **node);

/* Helpers of all files. */
qn_status qn_parser_fail(qn_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
qn_status qn_parser_new(qn_parser *p, qn_node_kind kind, size_t offset, qn_node **out);
qn_status qn_parser_constant(qn_parser *p, qn_value value, size_t offset, qn_node **out);
qn_status qn_parser_name(qn_parser *p, const qn_token *token, qn_node **out);
qn_status qn_parser_token_str(qn_parser *p, const qn_token *token, const qn_str **out);
void qn_parser_describe(const qn_parser *p, char *out, size_t room); /* the token that the parser is at */
bool qn_parser_is_name(const qn_token *token, const char *name);
qn_status qn_parser_expect(qn_parser *p, qn_token_kind kind);
bool qn_parser_at(const qn_parser *p, qn_token_kind kind);
bool qn_parser_at_name(const qn_parser *p, const char *name);
bool qn_parser_skip(qn_parser *p, qn_token_kind kind);
bool qn_parser_skip_name(qn_parser *p, const char *name);
qn_status qn_parser_enter(qn_parser *p); /* one level deeper, or the error that it is too deep */
void qn_parser_leave(qn_parser *p);

/* Sets node->height from the parts it has, and fails when the tree becomes too deep to be walked. */
qn_status qn_parser_finish(qn_parser *p, qn_node *node, qn_node *const *parts, size_t count);

#endif
