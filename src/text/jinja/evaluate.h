/* Expressions to values. */
#ifndef QN_TEXT_JINJA_EVALUATE_H
#define QN_TEXT_JINJA_EVALUATE_H

#include "text/jinja/arguments.h"
#include "text/jinja/node.h"

/* The variables of a function at work: of the template itself, a macro, a recursive loop, or a loop's test. Python
 * keeps such functions as closures, and so is this: an activation outlives its call for those who were made in it. */
typedef struct qn_activation {
    struct qn_activation *outer; /* of the function around it in the template's text */
    qn_value slots[];
} qn_activation;

qn_status qn_activation_new(qn_render *r, qn_activation *outer, uint32_t slots, qn_activation **out);

/* The variable, in the render's current activation. */
qn_value *qn_variable_at(qn_render *r, qn_variable variable);

/* What entering a scope does to its variables, and leaving it. */
void qn_enter_scope(qn_render *r, const qn_scope_entry *entry);
void qn_leave_scope(qn_render *r, const qn_scope_entry *entry);

/* A failure is told with the line and column of the innermost expression at which it arose. */
qn_status qn_evaluate(qn_render *r, const qn_node *node, qn_value *out);

/* Puts the position before the error's sentence unless it is there already. Returns `status`. */
qn_status qn_place_error(qn_render *r, const qn_node *node, qn_status status);

/* Assigns to a name, a namespace's attribute, or a tuple of such. */
qn_status qn_assign(qn_render *r, const qn_node *target, qn_value value);

/* The arguments of a call, evaluated. */
qn_status qn_evaluate_arguments(qn_render *r, const qn_call_arguments *written, qn_arguments *out);

#endif
