/* Finds out which variable each name of a template is.
 *
 * Jinja2 decides this before it runs a template: it gives every scope (the template, a loop's body, a macro, a block)
 * its own variables, by rules of its own about what an assignment shadows, and turns macros and recursive loops into
 * functions that see the variables around them. Those rules decide what a template prints, so they are followed to the
 * letter (jinja2/idtracking.py and compiler.py, version 3.1). */
#ifndef QN_TEXT_JINJA_SCOPE_H
#define QN_TEXT_JINJA_SCOPE_H

#include "text/jinja/compiler.h"

/* Fills in the variables, scope entries, filters and tests of the tree. *entry and *slots are the template's own. Fails
 * for what Jinja2 finds wrong at this stage (`break` outside a loop, unknown filters) and for filters that are not
 * supported. */
qn_status qn_resolve_names(qn_compiler *c, const qn_nodes *body, qn_scope_entry *entry, uint32_t *slots);

#endif
