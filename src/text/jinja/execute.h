/* Statements. */
#ifndef QN_TEXT_JINJA_EXECUTE_H
#define QN_TEXT_JINJA_EXECUTE_H

#include "text/jinja/evaluate.h"

/* Runs the statements; text goes to r->output. They stop early when `break` or `continue` is met: see the signal. */
qn_status qn_execute(qn_render *r, const qn_nodes *statements);

/* The text of a recursive loop, which is a function of its own. */
qn_status qn_loop_text(qn_render *r, const qn_for *code, qn_activation *outer, qn_value iterable, int64_t depth0,
                       qn_value *out);

/* What stopped the statements, which is then forgotten. */
qn_signal qn_take_signal(qn_render *r);

#endif
