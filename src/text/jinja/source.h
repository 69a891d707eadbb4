/* What the interpreter asks of the template it runs. */
#ifndef QN_TEXT_JINJA_SOURCE_H
#define QN_TEXT_JINJA_SOURCE_H

#include "base/error.h"
#include "text/jinja/template.h"

/* Puts "NAME line L, column C: " before the sentence in err. */
void qn_template_place(const qn_template *t, size_t offset, qn_error *err);

#endif
