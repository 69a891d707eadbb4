/* Equality, order, truth and identity of values, by Python's rules. */
#ifndef QN_TEXT_JINJA_COMPARE_H
#define QN_TEXT_JINJA_COMPARE_H

#include "text/jinja/render.h"

/* Python's name of the value's type: 'int', 'NoneType', ... */
const char *qn_type_name(qn_value value);

qn_status qn_value_equal(qn_render *r, qn_value a, qn_value b, bool *out);

/* a < b and its kin; `operation` is one of "<", "<=", ">", ">=". Fails where Python raises TypeError. */
qn_status qn_value_order(qn_render *r, qn_value a, qn_value b, const char *operation, bool *out);

/* a is b. */
bool qn_value_same(qn_value a, qn_value b);

/* item in container. */
qn_status qn_value_contains(qn_render *r, qn_value container, qn_value item, bool *out);

bool qn_value_truth(qn_value value);

/* len(value), or false where Python has none. */
bool qn_value_length(qn_value value, size_t *out);

/* Python's sorted(): stable; `keys` (as many as items) decide and move along. */
qn_status qn_values_sort(qn_render *r, qn_value *items, qn_value *keys, size_t count, bool reverse);

#endif
