/* Undefined values: what stands for a variable, attribute or item that is not there. They print as nothing, iterate as
 * empty and are false; any other use is an error that tells what was missing. */
#ifndef QN_TEXT_JINJA_UNDEFINED_H
#define QN_TEXT_JINJA_UNDEFINED_H

#include "text/jinja/render.h"

qn_status qn_undefined_variable(qn_render *r, const qn_str *name, qn_value *out);
qn_status qn_undefined_item(qn_render *r, qn_value object, qn_value item, qn_value *out); /* attribute or subscript */
qn_status qn_undefined_hint(qn_render *r, const char *hint, qn_value *out); /* `hint` must outlive the rendering */

/* An attribute that exists in Python but is not open to templates. */
qn_status qn_undefined_unsafe(qn_render *r, qn_value object, const qn_str *name, qn_value *out);

/* Fails with the message of the undefined value. */
qn_status qn_undefined_fail(qn_render *r, const qn_undefined *undefined);

#endif
