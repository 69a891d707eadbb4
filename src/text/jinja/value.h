/* The values of a template: Python's, as far as templates can make them.
 *
 * A value is a small struct passed by copy; what it points to lives in the arena of the rendering (or of the compiled
 * template, for constants) and never changes once made, except namespaces, cyclers, joiners, loops and iterators. */
#ifndef QN_TEXT_JINJA_VALUE_H
#define QN_TEXT_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text/span.h"

typedef enum qn_value_kind {
    QN_VALUE_MISSING, /* no value at all: an unset variable, an argument not given; never seen by a template */
    QN_VALUE_UNDEFINED,
    QN_VALUE_NONE,
    QN_VALUE_BOOL,
    QN_VALUE_INT,     /* fits int64_t */
    QN_VALUE_BIG_INT, /* does not */
    QN_VALUE_FLOAT,
    QN_VALUE_STRING,
    QN_VALUE_LIST,
    QN_VALUE_TUPLE,
    QN_VALUE_DICT,
    QN_VALUE_RANGE,
    QN_VALUE_VIEW, /* dict.keys(), .values(), .items() */
    QN_VALUE_ITERATOR,
    QN_VALUE_NAMESPACE,
    QN_VALUE_MACRO,
    QN_VALUE_LOOP,
    QN_VALUE_FUNCTION,
    QN_VALUE_METHOD,
    QN_VALUE_CYCLER,
    QN_VALUE_JOINER
} qn_value_kind;

typedef struct qn_str qn_str;           /* str.h */
typedef struct qn_integer qn_integer;   /* integer.h */
typedef struct qn_dict qn_dict;         /* dict.h */
typedef struct qn_iterator qn_iterator; /* iterate.h */
typedef struct qn_macro qn_macro;       /* call.h */
typedef struct qn_loop qn_loop;         /* loop.h */
typedef struct qn_function qn_function; /* arguments.h */
typedef struct qn_undefined qn_undefined;
typedef struct qn_list qn_list;
typedef struct qn_range qn_range;
typedef struct qn_view qn_view;
typedef struct qn_method qn_method;
typedef struct qn_cycler qn_cycler;
typedef struct qn_joiner qn_joiner;

typedef struct qn_value {
    qn_value_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const qn_integer *big;
        const qn_str *string;
        const qn_undefined *undefined;
        const qn_list *list; /* LIST and TUPLE */
        const qn_dict *dict;
        const qn_range *range;
        const qn_view *view;
        qn_iterator *iterator;
        qn_dict *names; /* NAMESPACE */
        const qn_macro *macro;
        qn_loop *loop;
        const qn_function *function;
        const qn_method *method;
        qn_cycler *cycler;
        qn_joiner *joiner;
    };
} qn_value;

/* What to say when an undefined value is used; see Undefined in Jinja2's runtime. */
struct qn_undefined {
    const char *hint;   /* the whole message, or NULL */
    const qn_str *name; /* the variable or attribute that was not there */
    qn_value object;    /* where it was looked for; MISSING: a variable */
    qn_value item;      /* a subscript that is not a string; MISSING otherwise */
};

/* Free places behind a list that was made by +, for the first to append to it (as qn_room in str.h). */
typedef struct qn_list_room {
    qn_value *end;
    size_t left;
} qn_list_room;

struct qn_list {
    size_t count;
    const qn_value *items;
    qn_list_room *room;   /* NULL: none */
    bool pair_with_names; /* a tuple made by `groupby`: .grouper and .list name its items */
};

struct qn_range {
    int64_t start, stop, step;
    int64_t count; /* at most QN_TEMPLATE_MAX_RANGE, or the length of a slice of such a range */
};

typedef enum qn_view_kind { QN_VIEW_KEYS, QN_VIEW_VALUES, QN_VIEW_ITEMS } qn_view_kind;

struct qn_view {
    qn_view_kind kind;
    const qn_dict *dict;
};

struct qn_method {
    qn_value self;
    const qn_function *function;
};

struct qn_cycler {
    const qn_list *items;
    size_t position;
};

struct qn_joiner {
    qn_value separator;
    bool used;
};

static inline qn_value qn_missing(void)
{
    return (qn_value){.kind = QN_VALUE_MISSING};
}

static inline qn_value qn_none(void)
{
    return (qn_value){.kind = QN_VALUE_NONE};
}

static inline qn_value qn_bool(bool boolean)
{
    return (qn_value){.kind = QN_VALUE_BOOL, .boolean = boolean};
}

static inline qn_value qn_int(int64_t integer)
{
    return (qn_value){.kind = QN_VALUE_INT, .integer = integer};
}

static inline qn_value qn_float(double real)
{
    return (qn_value){.kind = QN_VALUE_FLOAT, .real = real};
}

static inline qn_value qn_string(const qn_str *string)
{
    return (qn_value){.kind = QN_VALUE_STRING, .string = string};
}

static inline qn_value qn_dictionary(const qn_dict *dict)
{
    return (qn_value){.kind = QN_VALUE_DICT, .dict = dict};
}

static inline bool qn_is_missing(qn_value value)
{
    return value.kind == QN_VALUE_MISSING;
}

static inline bool qn_is_string(qn_value value)
{
    return value.kind == QN_VALUE_STRING;
}

/* bool, int or big int: what Python's isinstance(value, int) says. */
static inline bool qn_is_integer(qn_value value)
{
    return value.kind == QN_VALUE_BOOL || value.kind == QN_VALUE_INT || value.kind == QN_VALUE_BIG_INT;
}

static inline bool qn_is_number(qn_value value)
{
    return qn_is_integer(value) || value.kind == QN_VALUE_FLOAT;
}

static inline bool qn_is_sequence(qn_value value)
{
    return value.kind == QN_VALUE_LIST || value.kind == QN_VALUE_TUPLE;
}

#endif
