/* Going through values, and making lists. */
#ifndef QN_TEXT_JINJA_ITERATE_H
#define QN_TEXT_JINJA_ITERATE_H

#include "text/jinja/arguments.h"
#include "text/jinja/str.h"

/* A place within an iterable value. Several may walk the same value, but an iterator has one place shared by all. */
typedef struct qn_cursor {
    qn_value source;
    size_t index;
    qn_walk walk; /* of a string */
} qn_cursor;

bool qn_is_iterable(qn_value value);

/* Fails for what is not iterable. */
qn_status qn_cursor_start(qn_render *r, qn_value value, qn_cursor *out);

/* The next item, MISSING at the end. */
qn_status qn_cursor_next(qn_render *r, qn_cursor *cursor, qn_value *out);

/* What Python's generators are here: the items are computed at once, when the first one is asked for (so that an error
 * in them comes no sooner than in Python), and given out once. */
typedef qn_status qn_iterator_make(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out);

struct qn_iterator {
    qn_cursor cursor;
    qn_iterator_make *make; /* NULL once the items are there */
    qn_value source;
    qn_arguments arguments;
};

qn_status qn_iterator_new(qn_render *r, qn_iterator_make *make, qn_value source, const qn_arguments *arguments,
                          qn_value *out);

/* A growing list. Start from {0}. */
typedef struct qn_list_builder {
    size_t count, capacity;
    qn_value *items;
} qn_list_builder;

qn_status qn_list_add(qn_render *r, qn_list_builder *list, qn_value item);

/* A list or tuple of items that stay where they are. */
qn_status qn_list_value(qn_render *r, qn_value_kind kind, const qn_value *items, size_t count, qn_value *out);
qn_status qn_pair(qn_render *r, qn_value first, qn_value second, qn_value *out); /* a tuple */

/* list(value). The list is value's own when it is one already. */
qn_status qn_collect(qn_render *r, qn_value value, const qn_list **out);

#endif
