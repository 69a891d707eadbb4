/* Attributes that Python's built-in types have. */
#ifndef QN_TEXT_JINJA_METHODS_H
#define QN_TEXT_JINJA_METHODS_H

#include "text/jinja/arguments.h"

/* The methods that templates may call, by type. NULL: this type has none of that name. */
const qn_function *qn_string_method(const qn_str *name);
const qn_function *qn_collection_method(qn_value_kind kind, const qn_str *name);

/* Whether Python's type has the attribute and Jinja2's sandbox hides it (underscores, methods that change the object) /
 * or shows it while quern does not support it. */
bool qn_attribute_is_unsafe(qn_value_kind kind, const qn_str *name);
bool qn_attribute_is_unsupported(qn_value_kind kind, const qn_str *name);

#endif
