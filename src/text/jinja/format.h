/* Formatting: `"..." % values`, str.format and format specifications. */
#ifndef QN_TEXT_JINJA_FORMAT_H
#define QN_TEXT_JINJA_FORMAT_H

#include "text/jinja/arguments.h"
#include "text/jinja/str.h"

/* format % values */
qn_status qn_format_percent(qn_render *r, const qn_str *format, qn_value values, qn_value *out);

/* format(value, spec), appended to b. */
qn_status qn_format_value(qn_builder *b, qn_value value, const qn_str *spec);

/* str.format and str.format_map, with attributes and items looked up as the sandbox does. */
qn_native_raw qn_method_format;
qn_native_raw qn_method_format_map;

/* How a formatted number is laid out in its field. */
typedef struct qn_field {
    const qn_str *fill; /* NULL: a space */
    char align;         /* '<', '>', '^', '=' (fill behind the sign), or 0: '>' */
    char sign;          /* '+', ' ' or '-': how a number that is not negative starts */
    bool alternate, zero;
    char grouping;     /* ',', '_' or 0 */
    int64_t width;     /* characters; 0: as long as the text */
    int64_t precision; /* -1: none */
    char type;         /* 0: none */
} qn_field;

enum { QN_MAX_PRECISION = 1000 };

/* The digits of |real| by type e, f, g or their capitals, or 0 (repr, with the precision if there is one). */
qn_status qn_format_real(qn_render *r, double real, const qn_field *field, const qn_str **out);

/* Appends sign, prefix and digits in the field. `digits` may hold a point and an exponent: grouping is of what comes
 * before them. */
void qn_format_number(qn_builder *b, const qn_field *field, bool negative, const char *prefix, const qn_str *digits);

/* Appends text in the field; align 0 is '<'. */
void qn_format_text(qn_builder *b, const qn_field *field, const qn_str *text);

#endif
