/* Numbers go to number.c; here is what + * % mean for the others. */
#include "text/jinja/operators.h"

#include <string.h>

#include "text/jinja/compare.h"
#include "text/jinja/format.h"
#include "text/jinja/iterate.h"
#include "text/jinja/str.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/undefined.h"

/* Shorter lists are copied rather than grown in place. */
enum { LEAST_ITEMS_WITH_ROOM = 32 };

static qn_status join_strings(qn_render *r, qn_value a, qn_value b, qn_value *out)
{
    bool markup = a.string->markup || b.string->markup;
    /* Markup escapes what it is joined with. */
    if (markup && !a.string->markup)
        QN_TRY(qn_text_escape(r, a.string, &a));
    if (markup && !b.string->markup)
        QN_TRY(qn_text_escape(r, b.string, &b));
    qn_builder builder = qn_builder_extend(r, a.string);
    const qn_str *joined;
    qn_builder_str(&builder, b.string);
    QN_TRY(qn_builder_finish(&builder, &joined));
    QN_TRY(qn_str_mark(r, joined, markup, &joined));
    *out = qn_string(joined);
    return QN_OK;
}

/* A copy of the list's items with free places behind them. */
static qn_status copy_with_room(qn_render *r, const qn_list *list, size_t more, qn_list_room **out)
{
    size_t capacity = list->count + more;
    if (capacity >= LEAST_ITEMS_WITH_ROOM)
        capacity *= 2;
    qn_value *items = qn_render_alloc(r, capacity, sizeof *items);
    *out = items ? qn_render_alloc(r, 1, sizeof **out) : NULL;
    if (!*out)
        return qn_render_status(r);
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof *items);
    **out = (qn_list_room){items + list->count, capacity - list->count};
    return qn_render_work(r, list->count / 4);
}

static qn_status join_lists(qn_render *r, qn_value a, qn_value b, qn_value *out)
{
    qn_list_room *room = a.list->room;
    qn_list *joined = qn_render_alloc(r, 1, sizeof *joined);
    if (!joined)
        return qn_render_status(r);
    if (!room || room->end != a.list->items + a.list->count || room->left < b.list->count)
        QN_TRY(copy_with_room(r, a.list, b.list->count, &room));
    QN_TRY(qn_render_work(r, b.list->count / 4 + 1));
    if (b.list->count > 0)
        memcpy(room->end, b.list->items, b.list->count * sizeof *room->end);
    *joined = (qn_list){.count = a.list->count + b.list->count, .items = room->end - a.list->count, .room = room};
    room->end += b.list->count;
    room->left -= b.list->count;
    *out = (qn_value){.kind = a.kind, .list = joined};
    return QN_OK;
}

static qn_status repeat(qn_render *r, qn_value value, qn_value times, qn_value *out)
{
    int64_t count;
    QN_TRY(qn_argument_integer(r, "repeating", times, 0, &count));
    size_t copies = count > 0 ? (size_t)count : 0;
    if (qn_is_string(value)) {
        qn_builder b = qn_builder_start(r);
        qn_builder_repeat(&b, value.string, copies);
        return qn_builder_value(&b, out);
    }
    size_t total;
    if (__builtin_mul_overflow(copies, value.list->count, &total))
        return qn_render_fail(r, "the list grows too long");
    qn_value *items = qn_render_alloc(r, total, sizeof *items);
    if (!items)
        return qn_render_status(r);
    QN_TRY(qn_render_work(r, total / 4 + 1));
    for (size_t i = 0; i < total; ++i)
        items[i] = value.list->items[i % value.list->count];
    return qn_list_value(r, value.kind, items, total, out);
}

static bool is_repeatable(qn_value value)
{
    return qn_is_sequence(value) || qn_is_string(value);
}

static qn_status fail_operands(qn_render *r, qn_operator operation, qn_value a, qn_value b)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (a.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, a.undefined);
    if (b.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, b.undefined);
    return qn_render_fail(r, "unsupported operand types for %s: '%s' and '%s'", signs[operation], qn_type_name(a),
                          qn_type_name(b));
}

static bool is_markup(qn_value value)
{
    return qn_is_string(value) && value.string->markup;
}

qn_status qn_value_operate(qn_render *r, qn_operator operation, qn_value a, qn_value b, qn_value *out)
{
    if (qn_is_number(a) && qn_is_number(b))
        return qn_number_operate(r, operation, a, b, out);
    if (operation == QN_OPERATOR_ADD && qn_is_string(a) && qn_is_string(b))
        return join_strings(r, a, b, out);
    if (operation == QN_OPERATOR_ADD && qn_is_sequence(a) && a.kind == b.kind)
        return join_lists(r, a, b, out);
    if ((is_markup(a) || is_markup(b)) && operation != QN_OPERATOR_ADD)
        return qn_render_fail(r, "operators other than + on the results of `safe` and `escape` are not supported");
    if (operation == QN_OPERATOR_MODULO && qn_is_string(a))
        return qn_format_percent(r, a.string, b, out);
    if (operation == QN_OPERATOR_MULTIPLY && is_repeatable(a) && qn_is_integer(b))
        return repeat(r, a, b, out);
    if (operation == QN_OPERATOR_MULTIPLY && is_repeatable(b) && qn_is_integer(a))
        return repeat(r, b, a, out);
    return fail_operands(r, operation, a, b);
}

static qn_status fail_operand(qn_render *r, const char *sign, qn_value value)
{
    if (value.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, value.undefined);
    return qn_render_fail(r, "bad operand type for unary %s: '%s'", sign, qn_type_name(value));
}

qn_status qn_value_negate(qn_render *r, qn_value value, qn_value *out)
{
    return qn_is_number(value) ? qn_number_negate(r, value, out) : fail_operand(r, "-", value);
}

qn_status qn_value_plus(qn_render *r, qn_value value, qn_value *out)
{
    if (!qn_is_number(value))
        return fail_operand(r, "+", value);
    *out = value.kind == QN_VALUE_BOOL ? qn_int(value.boolean) : value;
    return QN_OK;
}
