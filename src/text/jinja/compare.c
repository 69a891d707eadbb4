/* Recursion into lists and dictionaries goes through qn_render_enter: a template can nest values without end. */
#include "text/jinja/compare.h"

#include <math.h>
#include <string.h>

#include "text/jinja/dict.h"
#include "text/jinja/integer.h"
#include "text/jinja/iterate.h"
#include "text/jinja/loop.h"
#include "text/jinja/number.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"

const char *qn_type_name(qn_value value)
{
    switch (value.kind) {
    case QN_VALUE_MISSING:
    case QN_VALUE_UNDEFINED:
        return "Undefined";
    case QN_VALUE_NONE:
        return "NoneType";
    case QN_VALUE_BOOL:
        return "bool";
    case QN_VALUE_INT:
    case QN_VALUE_BIG_INT:
        return "int";
    case QN_VALUE_FLOAT:
        return "float";
    case QN_VALUE_STRING:
        return value.string->markup ? "Markup" : "str";
    case QN_VALUE_LIST:
        return "list";
    case QN_VALUE_TUPLE:
        return "tuple";
    case QN_VALUE_DICT:
        return "dict";
    case QN_VALUE_RANGE:
        return "range";
    case QN_VALUE_VIEW:
        return value.view->kind == QN_VIEW_KEYS     ? "dict_keys"
               : value.view->kind == QN_VIEW_VALUES ? "dict_values"
                                                    : "dict_items";
    case QN_VALUE_ITERATOR:
        return "generator";
    case QN_VALUE_NAMESPACE:
        return "Namespace";
    case QN_VALUE_MACRO:
        return "Macro";
    case QN_VALUE_LOOP:
        return "LoopContext";
    case QN_VALUE_FUNCTION:
        return "function";
    case QN_VALUE_METHOD:
        return "builtin_function_or_method";
    case QN_VALUE_CYCLER:
        return "Cycler";
    case QN_VALUE_JOINER:
        return "Joiner";
    }
    return "object";
}

static qn_status lists_equal(qn_render *r, const qn_list *a, const qn_list *b, bool *out)
{
    *out = a == b;
    if (*out || a->count != b->count)
        return QN_OK;
    for (size_t i = 0; i < a->count; ++i) {
        QN_TRY(qn_value_equal(r, a->items[i], b->items[i], out));
        if (!*out)
            return QN_OK;
    }
    *out = true;
    return QN_OK;
}

/* Whether every entry of a is in b: the key, and with `values` an equal value. */
static qn_status dict_within(qn_render *r, const qn_dict *a, const qn_dict *b, bool values, bool *out)
{
    *out = false;
    for (size_t i = 0; i < a->count; ++i) {
        qn_value other;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_dict_get(r, b, a->entries[i].key, &other));
        if (qn_is_missing(other))
            return QN_OK;
        bool equal = true;
        if (values)
            QN_TRY(qn_value_equal(r, a->entries[i].value, other, &equal));
        if (!equal)
            return QN_OK;
    }
    *out = true;
    return QN_OK;
}

static qn_status dicts_equal(qn_render *r, const qn_dict *a, const qn_dict *b, bool values, bool *out)
{
    *out = a == b;
    return *out || a->count != b->count ? QN_OK : dict_within(r, a, b, values, out);
}

static bool ranges_equal(const qn_range *a, const qn_range *b)
{
    if (a->count != b->count || a->count == 0)
        return a->count == b->count;
    return a->start == b->start && (a->count == 1 || a->step == b->step);
}

static qn_status views_equal(qn_render *r, const qn_view *a, const qn_view *b, bool *out)
{
    *out = a == b;
    if (*out || a->kind != b->kind || a->kind == QN_VIEW_VALUES)
        return QN_OK;
    return dicts_equal(r, a->dict, b->dict, a->kind == QN_VIEW_ITEMS, out);
}

static qn_status compounds_equal(qn_render *r, qn_value a, qn_value b, bool *out)
{
    switch (a.kind) {
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
        return lists_equal(r, a.list, b.list, out);
    case QN_VALUE_DICT:
        return dicts_equal(r, a.dict, b.dict, true, out);
    case QN_VALUE_VIEW:
        return views_equal(r, a.view, b.view, out);
    case QN_VALUE_RANGE:
        *out = ranges_equal(a.range, b.range);
        return QN_OK;
    case QN_VALUE_METHOD:
        *out = a.method->function == b.method->function && qn_value_same(a.method->self, b.method->self);
        return QN_OK;
    default:
        *out = qn_value_same(a, b);
        return QN_OK;
    }
}

qn_status qn_value_equal(qn_render *r, qn_value a, qn_value b, bool *out)
{
    *out = false;
    if (qn_is_number(a) && qn_is_number(b)) {
        *out = qn_number_compare(a, b) == QN_NUMBER_EQUAL;
        return QN_OK;
    }
    if (a.kind != b.kind)
        return QN_OK;
    if (a.kind == QN_VALUE_STRING) {
        QN_TRY(qn_text_work(r, a.string->bytes == b.string->bytes ? a.string->bytes : 0));
        *out = qn_str_equal(a.string, b.string);
        return QN_OK;
    }
    if (a.kind == QN_VALUE_UNDEFINED || a.kind == QN_VALUE_NONE) {
        *out = true;
        return QN_OK;
    }
    QN_TRY(qn_render_work(r, 1));
    QN_TRY(qn_render_enter(r));
    qn_status status = compounds_equal(r, a, b, out);
    qn_render_leave(r);
    return status;
}

static bool wanted(const char *operation, int order)
{
    bool holds = operation[0] == '<' ? order < 0 : order > 0;
    return holds || (operation[1] == '=' && order == 0);
}

/* Lists order by their first difference. */
static qn_status order_lists(qn_render *r, const qn_list *a, const qn_list *b, const char *operation, bool *out)
{
    size_t common = a->count < b->count ? a->count : b->count;
    for (size_t i = 0; i < common; ++i) {
        bool equal;
        QN_TRY(qn_value_equal(r, a->items[i], b->items[i], &equal));
        if (!equal)
            return qn_value_order(r, a->items[i], b->items[i], operation, out);
    }
    *out = wanted(operation, a->count < b->count ? -1 : a->count > b->count);
    return QN_OK;
}

qn_status qn_value_order(qn_render *r, qn_value a, qn_value b, const char *operation, bool *out)
{
    QN_TRY(qn_render_work(r, 1));
    if (qn_is_number(a) && qn_is_number(b)) {
        qn_number_order order = qn_number_compare(a, b);
        *out = order != QN_NUMBER_UNORDERED && wanted(operation, (int)order);
        return QN_OK;
    }
    if (qn_is_string(a) && qn_is_string(b)) {
        size_t common = a.string->bytes < b.string->bytes ? a.string->bytes : b.string->bytes;
        QN_TRY(qn_text_work(r, common));
        *out = wanted(operation, qn_str_compare(a.string, b.string));
        return QN_OK;
    }
    if (qn_is_sequence(a) && a.kind == b.kind) {
        QN_TRY(qn_render_enter(r));
        qn_status status = order_lists(r, a.list, b.list, operation, out);
        qn_render_leave(r);
        return status;
    }
    if (a.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, a.undefined);
    if (b.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, b.undefined);
    return qn_render_fail(r, "'%s' is not supported between '%s' and '%s'", operation, qn_type_name(a),
                          qn_type_name(b));
}

bool qn_value_same(qn_value a, qn_value b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case QN_VALUE_MISSING:
    case QN_VALUE_NONE:
        return true;
    case QN_VALUE_BOOL:
        return a.boolean == b.boolean;
    case QN_VALUE_INT: /* CPython keeps one object for each of these */
        return a.integer == b.integer && a.integer >= -5 && a.integer <= 256;
    case QN_VALUE_FLOAT:
        return false;
    default: /* the rest are pointers */
        return a.string == b.string;
    }
}

static qn_status list_contains(qn_render *r, const qn_list *list, qn_value item, bool *out)
{
    *out = false;
    for (size_t i = 0; i < list->count && !*out; ++i) {
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_value_equal(r, list->items[i], item, out));
    }
    return QN_OK;
}

static qn_status text_contains(qn_render *r, const qn_str *text, qn_value item, bool *out)
{
    if (!qn_is_string(item))
        return qn_render_fail(r, "'in <string>' requires string as left operand, not '%s'", qn_type_name(item));
    QN_TRY(qn_text_work(r, text->bytes));
    *out = qn_str_find(text, item.string, 0, text->bytes) != QN_NOT_FOUND;
    return QN_OK;
}

static qn_status items_contain(qn_render *r, const qn_dict *dict, qn_value item, bool *out)
{
    qn_value value;
    *out = false;
    if (item.kind != QN_VALUE_TUPLE || item.list->count != 2)
        return QN_OK;
    QN_TRY(qn_dict_get(r, dict, item.list->items[0], &value));
    return qn_is_missing(value) ? QN_OK : qn_value_equal(r, value, item.list->items[1], out);
}

/* By going through it, as Python does where there is no better way. */
static qn_status walk_contains(qn_render *r, qn_value container, qn_value item, bool *out)
{
    qn_cursor cursor;
    QN_TRY(qn_cursor_start(r, container, &cursor));
    for (*out = false; !*out;) {
        qn_value next;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &next));
        if (qn_is_missing(next))
            return QN_OK;
        QN_TRY(qn_value_equal(r, next, item, out));
    }
    return QN_OK;
}

qn_status qn_value_contains(qn_render *r, qn_value container, qn_value item, bool *out)
{
    qn_value found;
    switch (container.kind) {
    case QN_VALUE_STRING:
        return text_contains(r, container.string, item, out);
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
        return list_contains(r, container.list, item, out);
    case QN_VALUE_DICT:
        QN_TRY(qn_dict_get(r, container.dict, item, &found));
        *out = !qn_is_missing(found);
        return QN_OK;
    case QN_VALUE_VIEW:
        if (container.view->kind == QN_VIEW_KEYS)
            return qn_value_contains(r, qn_dictionary(container.view->dict), item, out);
        if (container.view->kind == QN_VIEW_ITEMS)
            return items_contain(r, container.view->dict, item, out);
        return walk_contains(r, container, item, out);
    case QN_VALUE_UNDEFINED:
    case QN_VALUE_RANGE:
    case QN_VALUE_ITERATOR:
        return walk_contains(r, container, item, out);
    default:
        return qn_render_fail(r, "argument of type '%s' is not iterable", qn_type_name(container));
    }
}

bool qn_value_length(qn_value value, size_t *out)
{
    switch (value.kind) {
    case QN_VALUE_UNDEFINED:
        *out = 0;
        return true;
    case QN_VALUE_STRING:
        *out = value.string->length;
        return true;
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
        *out = value.list->count;
        return true;
    case QN_VALUE_DICT:
        *out = value.dict->count;
        return true;
    case QN_VALUE_VIEW:
        *out = value.view->dict->count;
        return true;
    case QN_VALUE_RANGE:
        *out = (size_t)value.range->count;
        return true;
    default:
        return false;
    }
}

bool qn_value_truth(qn_value value)
{
    size_t length;
    switch (value.kind) {
    case QN_VALUE_MISSING:
    case QN_VALUE_UNDEFINED:
    case QN_VALUE_NONE:
        return false;
    case QN_VALUE_BOOL:
        return value.boolean;
    case QN_VALUE_INT:
        return value.integer != 0;
    case QN_VALUE_FLOAT:
        return value.real != 0;
    default:
        return qn_value_length(value, &length) ? length > 0 : true;
    }
}

/* Merges the sorted halves of items[0..count) by way of scratch; true order is kept between equals. */
static qn_status merge(qn_render *r, qn_value *items, qn_value *keys, qn_value *scratch, size_t middle, size_t count)
{
    qn_value *spare_keys = scratch + count;
    size_t left = 0, right = middle, at = 0;
    while (left < middle && right < count) {
        bool right_first;
        QN_TRY(qn_value_order(r, keys[right], keys[left], "<", &right_first));
        size_t from = right_first ? right++ : left++;
        scratch[at] = items[from];
        spare_keys[at++] = keys[from];
    }
    while (at < count) {
        size_t from = left < middle ? left++ : right++;
        scratch[at] = items[from];
        spare_keys[at++] = keys[from];
    }
    memcpy(items, scratch, count * sizeof *items);
    memcpy(keys, spare_keys, count * sizeof *keys);
    return QN_OK;
}

static qn_status sort_part(qn_render *r, qn_value *items, qn_value *keys, qn_value *scratch, size_t count)
{
    if (count < 2)
        return QN_OK;
    size_t middle = count / 2;
    QN_TRY(sort_part(r, items, keys, scratch, middle));
    QN_TRY(sort_part(r, items + middle, keys + middle, scratch, count - middle));
    return merge(r, items, keys, scratch, middle, count);
}

static void turn_around(qn_value *items, size_t count)
{
    for (size_t i = 0; i < count / 2; ++i) {
        qn_value held = items[i];
        items[i] = items[count - 1 - i];
        items[count - 1 - i] = held;
    }
}

qn_status qn_values_sort(qn_render *r, qn_value *items, qn_value *keys, size_t count, bool reverse)
{
    qn_value *scratch = qn_render_alloc(r, count, 2 * sizeof *scratch);
    if (!scratch)
        return qn_render_status(r);
    /* Turned before and after, a reversed sort too keeps equals in their order. */
    if (reverse) {
        turn_around(items, count);
        turn_around(keys, count);
    }
    QN_TRY(sort_part(r, items, keys, scratch, count));
    if (reverse) {
        turn_around(items, count);
        turn_around(keys, count);
    }
    return QN_OK;
}
