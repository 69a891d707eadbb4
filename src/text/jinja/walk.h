/* Going through a syntax tree. */
#ifndef QN_TEXT_JINJA_WALK_H
#define QN_TEXT_JINJA_WALK_H

#include "text/jinja/compiler.h"

typedef qn_status qn_node_visitor(void *context, qn_node *node);

/* Calls `visit` for each direct part of an expression, in the order of the source's evaluation; stops at a failure. */
qn_status qn_walk_parts(qn_node *node, qn_node_visitor *visit, void *context);

/* Which of the names the statements read, at any depth, before (in the order of the text) they set them: a bit for each
 * name. This is Jinja2's find_undeclared, which decides what `loop`, `caller`, `kwargs` and `varargs` are. */
unsigned qn_reads_undeclared(const qn_nodes *statements, qn_symbol *const *names, size_t count);

#endif
