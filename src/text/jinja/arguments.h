/* Calls of what is written in C: filters, tests, methods and global functions. */
#ifndef QN_TEXT_JINJA_ARGUMENTS_H
#define QN_TEXT_JINJA_ARGUMENTS_H

#include "text/jinja/render.h"

typedef struct qn_keyword {
    const qn_str *name;
    qn_value value;
} qn_keyword;

/* What a call passes. The arrays live in the rendering's arena. */
typedef struct qn_arguments {
    size_t count;
    const qn_value *values;
    size_t keyword_count;
    const qn_keyword *keywords;
} qn_arguments;

enum { QN_MAX_PARAMETERS = 5 };

/* `self` is the filtered or tested value, or the method's object; given[i] is the argument for parameter i, MISSING
 * when the call left it out. */
typedef qn_status qn_native(qn_render *r, qn_value self, const qn_value *given, qn_value *out);

/* For functions that take any number of arguments. */
typedef qn_status qn_native_raw(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out);

struct qn_function {
    const char *name;
    qn_native *native;
    const char *parameters[QN_MAX_PARAMETERS]; /* NULL behind the last */
    unsigned required;                         /* how many of them a call must give */
    bool positional;                           /* they cannot be given by name */
    qn_native_raw *raw;                        /* instead of native */
    const char *class_name;                    /* what it prints as, for Python's classes; else NULL */
};

/* Binds the arguments to the parameters as Python does, and calls. */
qn_status qn_function_call(qn_render *r, const qn_function *function, qn_value self, const qn_arguments *arguments,
                           qn_value *out);

/* Arguments by type, for natives: fail with "NAME: PARAMETER must be ..." A MISSING one gives `fallback`. */
qn_status qn_argument_integer(qn_render *r, const char *name, qn_value given, int64_t fallback, int64_t *out);
qn_status qn_argument_string(qn_render *r, const char *name, qn_value given, const qn_str **out); /* not MISSING */

#endif
