/* The filters and tests of Jinja2, by name. */
#ifndef QN_TEXT_JINJA_FILTERS_H
#define QN_TEXT_JINJA_FILTERS_H

#include "text/jinja/arguments.h"

typedef struct qn_filter {
    qn_function function;
    bool takes_markup; /* does to Markup what it does to plain text; the others refuse it */
    bool unsupported;  /* Jinja2 has it, quern does not; named so that it can be told from a misspelt one */
} qn_filter;

/* NULL: Jinja2 has none of that name. */
const qn_filter *qn_filter_find(const qn_str *name);

qn_status qn_filter_apply(qn_render *r, const qn_filter *filter, qn_value value, const qn_arguments *arguments,
                          qn_value *out);

const qn_function *qn_test_find(const qn_str *name);

/* Applies it; Jinja2's tests all give a truth. */
qn_status qn_test_apply(qn_render *r, const qn_function *test, qn_value value, const qn_arguments *arguments,
                        bool *out);

#endif
