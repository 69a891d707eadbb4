/* As Jinja2's LoopContext does, an item is taken from the iterable no earlier than it is needed, since a loop's test
 * may read what its body changes. */
#include "text/jinja/loop.h"

#include "text/jinja/compare.h"
#include "text/jinja/execute.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

/* Whether the item passes the loop's test, evaluated among the test's own variables. */
static qn_status passes(qn_render *r, qn_loop *loop, qn_value item, bool *out)
{
    qn_activation *held = r->activation;
    bool first = !loop->test;
    qn_value result = qn_missing();
    if (first)
        QN_TRY(qn_activation_new(r, loop->outer, loop->code->test_slots, &loop->test));
    r->activation = loop->test;
    if (first)
        qn_enter_scope(r, &loop->code->test_entry);
    qn_status status = qn_assign(r, loop->code->test_target, item);
    if (status == QN_OK)
        status = qn_evaluate(r, loop->code->test, &result);
    r->activation = held;
    *out = qn_value_truth(result);
    return status;
}

/* The next item that passes; MISSING at the end. */
static qn_status pull(qn_render *r, qn_loop *loop, qn_value *out)
{
    for (;;) {
        bool passed = true;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &loop->cursor, out));
        if (qn_is_missing(*out) || !loop->code->test || loop->tested)
            return QN_OK;
        QN_TRY(passes(r, loop, *out, &passed));
        if (passed)
            return QN_OK;
    }
}

static qn_status next_item(qn_render *r, qn_loop *loop, qn_value *out)
{
    *out = loop->after;
    loop->after = qn_missing();
    if (qn_is_missing(*out))
        QN_TRY(pull(r, loop, out));
    if (qn_is_missing(*out))
        return QN_OK;
    ++loop->index0;
    loop->before = loop->current;
    loop->current = *out;
    return QN_OK;
}

static qn_status peek(qn_render *r, qn_loop *loop, qn_value *out)
{
    if (qn_is_missing(loop->after))
        QN_TRY(pull(r, loop, &loop->after));
    *out = loop->after;
    return QN_OK;
}

static qn_status take_rest(qn_render *r, qn_loop *loop, size_t *out)
{
    qn_list_builder rest = {0};
    for (;;) {
        qn_value item;
        QN_TRY(pull(r, loop, &item));
        if (qn_is_missing(item))
            break;
        QN_TRY(qn_list_add(r, &rest, item));
    }
    qn_value list;
    QN_TRY(qn_list_value(r, QN_VALUE_LIST, rest.items, rest.count, &list));
    *out = rest.count;
    loop->tested = true;
    return qn_cursor_start(r, list, &loop->cursor);
}

qn_status qn_loop_length(qn_render *r, qn_loop *loop, size_t *out)
{
    if (loop->length < 0) {
        size_t length;
        if (loop->code->test || !qn_value_length(loop->iterable, &length)) {
            QN_TRY(take_rest(r, loop, &length));
            length += (size_t)(loop->index0 + 1) + !qn_is_missing(loop->after);
        }
        loop->length = (int64_t)length;
    }
    *out = (size_t)loop->length;
    return QN_OK;
}

static qn_status loop_cycle(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    if (arguments->keyword_count > 0)
        return qn_render_fail(r, "cycle: takes no keyword arguments");
    if (arguments->count == 0)
        return qn_render_fail(r, "no items for cycling given");
    *out = arguments->values[(size_t)self.loop->index0 % arguments->count];
    return QN_OK;
}

static qn_status loop_changed(qn_render *r, qn_value self, const qn_arguments *arguments, qn_value *out)
{
    qn_value now;
    bool same = false;
    if (arguments->keyword_count > 0)
        return qn_render_fail(r, "changed: takes no keyword arguments");
    QN_TRY(qn_list_value(r, QN_VALUE_TUPLE, arguments->values, arguments->count, &now));
    if (self.loop->last_changed) {
        qn_value last = {.kind = QN_VALUE_TUPLE, .list = self.loop->last_changed};
        QN_TRY(qn_value_equal(r, last, now, &same));
    }
    if (!same)
        self.loop->last_changed = now.list;
    *out = qn_bool(!same);
    return QN_OK;
}

static const qn_function cycle = {.name = "cycle", .raw = loop_cycle};
static const qn_function changed = {.name = "changed", .raw = loop_changed};

static qn_status loop_method(qn_render *r, qn_loop *loop, const qn_function *function, qn_value *out)
{
    qn_method *method = qn_render_alloc(r, 1, sizeof *method);
    if (!method)
        return qn_render_status(r);
    method->self = (qn_value){.kind = QN_VALUE_LOOP, .loop = loop};
    method->function = function;
    *out = (qn_value){.kind = QN_VALUE_METHOD, .method = method};
    return QN_OK;
}

/* Attributes that look at the neighbours of the current item. */
static qn_status neighbour(qn_render *r, qn_loop *loop, const qn_str *name, qn_value *out)
{
    if (qn_str_is(name, "previtem")) {
        *out = loop->before;
        return loop->index0 == 0 ? qn_undefined_hint(r, "there is no previous item", out) : QN_OK;
    }
    if (qn_str_is(name, "nextitem")) {
        QN_TRY(peek(r, loop, out));
        return qn_is_missing(*out) ? qn_undefined_hint(r, "there is no next item", out) : QN_OK;
    }
    if (qn_str_is(name, "last")) {
        QN_TRY(peek(r, loop, out));
        *out = qn_bool(qn_is_missing(*out));
    }
    return QN_OK;
}

qn_status qn_loop_attribute(qn_render *r, qn_loop *loop, const qn_str *name, qn_value *out)
{
    size_t length;
    *out = qn_missing();
    if (qn_str_is(name, "index0"))
        *out = qn_int(loop->index0);
    else if (qn_str_is(name, "index"))
        *out = qn_int(loop->index0 + 1);
    else if (qn_str_is(name, "first"))
        *out = qn_bool(loop->index0 == 0);
    else if (qn_str_is(name, "depth0"))
        *out = qn_int(loop->depth0);
    else if (qn_str_is(name, "depth"))
        *out = qn_int(loop->depth0 + 1);
    else if (qn_str_is(name, "cycle"))
        return loop_method(r, loop, &cycle, out);
    else if (qn_str_is(name, "changed"))
        return loop_method(r, loop, &changed, out);
    else if (qn_str_is(name, "length") || qn_str_is(name, "revindex") || qn_str_is(name, "revindex0")) {
        QN_TRY(qn_loop_length(r, loop, &length));
        int64_t done = qn_str_is(name, "length") ? 0 : loop->index0 + qn_str_is(name, "revindex0");
        *out = qn_int((int64_t)length - done);
    } else {
        return neighbour(r, loop, name, out);
    }
    return QN_OK;
}

/* The body for each item. *completed: some run of it came to its end, without `break` or `continue`; Jinja2 runs the
 * else block when none did. */
static qn_status run_items(qn_render *r, qn_loop *loop, bool *completed)
{
    const qn_for *code = loop->code;
    *completed = false;
    for (;;) {
        qn_value item;
        QN_TRY(next_item(r, loop, &item));
        if (qn_is_missing(item))
            return QN_OK;
        QN_TRY(qn_assign(r, code->target, item));
        if (code->has_loop)
            r->activation->slots[code->loop_slot] = (qn_value){.kind = QN_VALUE_LOOP, .loop = loop};
        qn_enter_scope(r, &code->entry);
        QN_TRY(qn_execute(r, &code->body));
        qn_signal signal = qn_take_signal(r);
        if (signal == QN_SIGNAL_BREAK)
            return QN_OK;
        *completed = *completed || signal == QN_SIGNAL_NONE;
    }
}

qn_status qn_loop_run(qn_render *r, const qn_for *code, qn_activation *outer, qn_value iterable, int64_t depth0)
{
    qn_loop *loop = qn_render_alloc(r, 1, sizeof *loop);
    bool completed;
    if (!loop)
        return qn_render_status(r);
    *loop = (qn_loop){.code = code, .outer = outer, .iterable = iterable, .index0 = -1, .depth0 = depth0, .length = -1};
    QN_TRY(qn_cursor_start(r, iterable, &loop->cursor));
    QN_TRY(run_items(r, loop, &completed));
    qn_leave_scope(r, &code->entry);
    if (completed || code->otherwise.count == 0)
        return QN_OK;
    qn_enter_scope(r, &code->otherwise_entry);
    QN_TRY(qn_execute(r, &code->otherwise));
    qn_leave_scope(r, &code->otherwise_entry);
    return QN_OK;
}

qn_status qn_loop_call(qn_render *r, qn_loop *loop, const qn_arguments *arguments, qn_value *out)
{
    if (!loop->code->recursive)
        return qn_render_fail(r, "the loop must have the 'recursive' marker to be called recursively");
    if (arguments->count != 1 || arguments->keyword_count != 0)
        return qn_render_fail(r, "loop: takes exactly one argument");
    return qn_loop_text(r, loop->code, loop->outer, arguments->values[0], loop->depth0 + 1, out);
}
