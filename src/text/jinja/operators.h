/* The arithmetic operators on values of any type. */
#ifndef QN_TEXT_JINJA_OPERATORS_H
#define QN_TEXT_JINJA_OPERATORS_H

#include "text/jinja/number.h"

/* a + b and its kin: numbers, and what Python also allows: joining and repeating strings, lists and tuples, and
 * formatting with %. */
qn_status qn_value_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out);

qn_status qn_value_negate(qn_render *r, qn_value value, qn_value *out);
qn_status qn_value_plus(qn_render *r, qn_value value, qn_value *out);

#endif
