/* Operations on strings that methods and filters share; each as the str method of its name. */
#ifndef QN_TEXT_JINJA_TEXT_OPS_H
#define QN_TEXT_JINJA_TEXT_OPS_H

#include "text/jinja/str.h"

/* Steps for searching s, also for the slow case of a needle that almost matches everywhere. */
qn_status qn_text_search_work(qn_render *r, const qn_str *s, const qn_str *needle);

/* `characters` NULL: white space. */
qn_status qn_text_strip(qn_render *r, const qn_str *s, const qn_str *characters, bool left, bool right,
                        const qn_str **out);

/* count < 0: all occurrences. */
qn_status qn_text_replace(qn_render *r, const qn_str *s, const qn_str *before, const qn_str *after, int64_t count,
                          qn_value *out);

/* `separator` NULL: runs of white space; limit < 0: no limit. */
qn_status qn_text_split(qn_render *r, const qn_str *s, const qn_str *separator, int64_t limit, qn_value *out);
qn_status qn_text_split_right(qn_render *r, const qn_str *s, const qn_str *separator, int64_t limit, qn_value *out);
qn_status qn_text_split_lines(qn_render *r, const qn_str *s, bool keep_ends, qn_value *out);

/* `missing` fill characters around s. */
qn_status qn_text_center(qn_render *r, const qn_str *s, size_t missing, const qn_str *fill, qn_value *out);

qn_status qn_text_is_lower(qn_render *r, const qn_str *s, qn_value *out);
qn_status qn_text_is_upper(qn_render *r, const qn_str *s, qn_value *out);

/* HTML escaping as markupsafe does it; the result is Markup. */
qn_status qn_text_escape(qn_render *r, const qn_str *s, qn_value *out);

#endif
