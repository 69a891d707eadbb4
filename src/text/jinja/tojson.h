/* The tojson filter as transformers defines it: json.dumps(value, ensure_ascii=False, indent, separators, sort_keys).
 */
#ifndef QN_TEXT_JINJA_TOJSON_H
#define QN_TEXT_JINJA_TOJSON_H

#include "text/jinja/arguments.h"

qn_native qn_filter_tojson; /* given: ensure_ascii, indent, separators, sort_keys */

#endif
