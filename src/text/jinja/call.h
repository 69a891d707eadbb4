/* Calls, and macros. */
#ifndef QN_TEXT_JINJA_CALL_H
#define QN_TEXT_JINJA_CALL_H

#include "text/jinja/evaluate.h"

struct qn_macro {
    const qn_str *name; /* NULL for the body of a call block */
    const qn_macro_code *code;
    qn_activation *closure; /* what its body sees around it */
};

qn_status qn_macro_new(qn_render *r, const qn_macro_code *code, qn_value *out);

qn_status qn_macro_attribute(qn_render *r, const qn_macro *macro, const qn_str *name, qn_value *out);

/* callee(arguments). Fails for what cannot be called. */
qn_status qn_call(qn_render *r, qn_value callee, const qn_arguments *arguments, qn_value *out);

#endif
