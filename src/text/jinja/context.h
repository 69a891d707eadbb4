/* What a template is given: JSON as values, each string marked with where it came from. */
#ifndef QN_TEXT_JINJA_CONTEXT_H
#define QN_TEXT_JINJA_CONTEXT_H

#include <jansson.h>

#include "text/jinja/str.h"

/* The value shares the JSON's strings. */
qn_status qn_value_from_json(qn_render *r, const json_t *json, qn_origin origin, qn_value *out);

/* The variables of a rendering: the global functions, `trusted` (may be NULL), `request`; later ones win. */
qn_status qn_context_variables(qn_render *r, const json_t *request, const json_t *trusted, const qn_dict **out);

#endif
