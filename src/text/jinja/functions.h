/* The global functions: range, dict, namespace, cycler, joiner, and transformers' raise_exception and strftime_now. */
#ifndef QN_TEXT_JINJA_FUNCTIONS_H
#define QN_TEXT_JINJA_FUNCTIONS_H

#include "text/jinja/render.h"

/* Sets a variable for each of them. */
qn_status qn_functions_install(qn_render *r, qn_dict *variables);

#endif
