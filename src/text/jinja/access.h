/* Attributes, subscripts and slices, as Jinja2's sandbox resolves them. */
#ifndef QN_TEXT_JINJA_ACCESS_H
#define QN_TEXT_JINJA_ACCESS_H

#include "text/jinja/render.h"

/* object.name: the attribute, else the item of that name, else undefined. */
qn_status qn_get_attribute(qn_render *r, qn_value object, const qn_str *name, qn_value *out);

/* object[key]: the item, else for a string key the attribute of that name, else undefined. */
qn_status qn_get_item(qn_render *r, qn_value object, qn_value key, qn_value *out);

/* object[start:stop:step]; MISSING for what is left out. */
qn_status qn_get_slice(qn_render *r, qn_value object, qn_value start, qn_value stop, qn_value step, qn_value *out);

/* The attribute alone, MISSING when there is none. *unsafe: it exists in Python, but templates may not have it. Fails
 * for one that exists in Python and that quern does not support, and for any attribute of an undefined value. */
qn_status qn_find_attribute(qn_render *r, qn_value object, const qn_str *name, qn_value *out, bool *unsafe);

/* Follows "user.name" or "0.x" through items, as filters with an `attribute` argument do: parts of digits are
 * integers. `fallback` takes the place of undefined items unless it is MISSING or none. */
qn_status qn_get_path(qn_render *r, qn_value object, qn_value path, qn_value fallback, qn_value *out);

#endif
