/* str() and repr() of values, as Python writes them. */
#ifndef QN_TEXT_JINJA_REPR_H
#define QN_TEXT_JINJA_REPR_H

#include "text/jinja/render.h"
#include "text/jinja/str.h"

/* str(value): a string itself. Fails for values whose text Python makes from an address. */
qn_status qn_value_str(qn_render *r, qn_value value, const qn_str **out);
qn_status qn_value_repr(qn_render *r, qn_value value, const qn_str **out);

/* The same, appended. The status is also the builder's. */
qn_status qn_builder_str_of(qn_builder *b, qn_value value);
qn_status qn_builder_repr_of(qn_builder *b, qn_value value);

/* repr() of a string; with `ascii`, ascii(). */
void qn_builder_quoted(qn_builder *b, const qn_str *s, bool ascii);

enum { QN_FLOAT_TEXT_BYTES = 40 /* 25 are used; compilers can't see that digits and zeros share 17 places */ };

/* repr(real): the fewest digits that read back as the same double, NUL-terminated. */
void qn_float_text(double real, char out[QN_FLOAT_TEXT_BYTES]);

#endif
