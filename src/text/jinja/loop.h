/* For loops at work, and the `loop` variable that looks at them. */
#ifndef QN_TEXT_JINJA_LOOP_H
#define QN_TEXT_JINJA_LOOP_H

#include "text/jinja/evaluate.h"
#include "text/jinja/iterate.h"

struct qn_loop {
    const qn_for *code;
    qn_activation *outer; /* in which the loop stands */
    qn_value iterable;
    qn_cursor cursor;
    qn_activation *test;             /* variables of the loop's test, once it was first run */
    bool tested;                     /* the cursor gives only items that have passed the test */
    int64_t index0;                  /* -1 before the first item */
    int64_t depth0;                  /* of a recursive loop */
    int64_t length;                  /* -1: not asked for yet */
    qn_value before, current, after; /* `after` is set once the next item was looked at */
    const qn_list *last_changed;
};

/* Runs the loop over `iterable`: its body for each item, or its else block. Output goes where the render's goes. */
qn_status qn_loop_run(qn_render *r, const qn_for *code, qn_activation *outer, qn_value iterable, int64_t depth0);

/* loop.length: of what has no length, by taking all that is left. */
qn_status qn_loop_length(qn_render *r, qn_loop *loop, size_t *out);

qn_status qn_loop_attribute(qn_render *r, qn_loop *loop, const qn_str *name, qn_value *out);

/* loop(iterable) in a recursive loop: the text of the loop over it. */
qn_status qn_loop_call(qn_render *r, qn_loop *loop, const qn_arguments *arguments, qn_value *out);

#endif
