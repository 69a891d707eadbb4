/* Filters over sequences. */
#include "text/jinja/access.h"
#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/filter_functions.h"
#include "text/jinja/iterate.h"
#include "text/jinja/operators.h"
#include "text/jinja/repr.h"
#include "text/jinja/str.h"
#include "text/jinja/undefined.h"
#include "text/jinja/character.h"

/* What Jinja2 compares instead of a value: a string in lower case. */
static qn_status without_case(qn_render *r, bool case_sensitive, qn_value *value)
{
    if (case_sensitive || !qn_is_string(*value))
        return QN_OK;
    qn_builder b = qn_builder_start(r);
    qn_builder_cased(&b, value->string, 0, value->string->bytes, QN_CASE_LOWER);
    return qn_builder_value(&b, value);
}

/* The attribute of an item by which it is compared. */
static qn_status comparison_key(qn_render *r, qn_value item, qn_value attribute, qn_value fallback, bool case_sensitive,
                                qn_value *out)
{
    QN_TRY(qn_get_path(r, item, attribute, fallback, out));
    return without_case(r, case_sensitive, out);
}

/* Copies the items of a value, so that they can be moved around. */
static qn_status copy_items(qn_render *r, qn_value value, qn_list_builder *out)
{
    const qn_list *list;
    QN_TRY(qn_collect(r, value, &list));
    for (size_t i = 0; i < list->count; ++i)
        QN_TRY(qn_list_add(r, out, list->items[i]));
    return QN_OK;
}

static qn_status list_of(qn_render *r, const qn_list_builder *list, const qn_list **out)
{
    qn_value made;
    QN_TRY(qn_list_value(r, QN_VALUE_LIST, list->items, list->count, &made));
    *out = made.list;
    return QN_OK;
}

/* An iterator's arguments, kept for when it is asked for its first item. */
static qn_status later(qn_render *r, qn_iterator_make *make, qn_value self, const qn_value *given, size_t count,
                       qn_value *out)
{
    qn_value *kept = qn_render_alloc(r, count, sizeof *kept);
    if (!kept)
        return qn_render_status(r);
    for (size_t i = 0; i < count; ++i)
        kept[i] = given[i];
    return qn_iterator_new(r, make, self, &(qn_arguments){.count = count, .values = kept}, out);
}

qn_status qn_filter_list(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_list *list;
    QN_TRY(qn_collect(r, self, &list));
    return qn_list_value(r, QN_VALUE_LIST, list->items, list->count, out);
}

qn_status qn_filter_first(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    qn_cursor cursor;
    QN_TRY(qn_cursor_start(r, self, &cursor));
    QN_TRY(qn_cursor_next(r, &cursor, out));
    return qn_is_missing(*out) ? qn_undefined_hint(r, "No first item, sequence was empty.", out) : QN_OK;
}

qn_status qn_filter_last(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_list *list;
    if (!qn_is_iterable(self) || self.kind == QN_VALUE_ITERATOR || self.kind == QN_VALUE_LOOP)
        return qn_render_fail(r, "'%s' object is not reversible", qn_type_name(self));
    QN_TRY(qn_collect(r, self, &list));
    if (list->count == 0)
        return qn_undefined_hint(r, "No last item, sequence was empty.", out);
    *out = list->items[list->count - 1];
    return QN_OK;
}

static qn_status reversed(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    (void)arguments;
    const qn_list *list;
    qn_list_builder turned = {0};
    QN_TRY(qn_collect(r, source, &list));
    for (size_t i = list->count; i-- > 0;)
        QN_TRY(qn_list_add(r, &turned, list->items[i]));
    return list_of(r, &turned, out);
}

qn_status qn_filter_reverse(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    const qn_list *list;
    if (qn_is_string(self))
        return qn_get_slice(r, self, qn_missing(), qn_missing(), qn_int(-1), out);
    if (self.kind == QN_VALUE_ITERATOR) { /* not reversible in Python: Jinja2 makes a list of it */
        QN_TRY(reversed(r, self, NULL, &list));
        *out = (qn_value){.kind = QN_VALUE_LIST, .list = list};
        return QN_OK;
    }
    if (!qn_is_iterable(self))
        return qn_render_fail(r, "reverse: argument must be iterable, not '%s'", qn_type_name(self));
    return qn_iterator_new(r, reversed, self, NULL, out);
}

qn_status qn_filter_join(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    qn_cursor cursor;
    const qn_str *separator = NULL;
    qn_builder b = qn_builder_start(r);
    if (!qn_is_missing(given[0]))
        QN_TRY(qn_value_str(r, given[0], &separator));
    QN_TRY(qn_cursor_start(r, self, &cursor));
    for (bool first = true;; first = false) {
        qn_value item;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return qn_builder_value(&b, out);
        QN_TRY(qn_get_path(r, item, given[1], qn_missing(), &item));
        if (!first && separator)
            qn_builder_str(&b, separator);
        QN_TRY(qn_builder_str_of(&b, item));
    }
}

static qn_status dict_items(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    (void)arguments;
    qn_list_builder pairs = {0};
    if (source.kind != QN_VALUE_UNDEFINED && source.kind != QN_VALUE_DICT)
        return qn_render_fail(r, "items: can only get item pairs from a mapping, not '%s'", qn_type_name(source));
    for (size_t i = 0; source.kind == QN_VALUE_DICT && i < source.dict->count; ++i) {
        qn_value pair;
        QN_TRY(qn_pair(r, source.dict->entries[i].key, source.dict->entries[i].value, &pair));
        QN_TRY(qn_list_add(r, &pairs, pair));
    }
    return list_of(r, &pairs, out);
}

qn_status qn_filter_items(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    (void)given;
    return qn_iterator_new(r, dict_items, self, NULL, out);
}

qn_status qn_filter_dictsort(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    bool by_value = qn_is_string(given[1]) && qn_str_is(given[1].string, "value");
    bool by_key = qn_is_missing(given[1]) || (qn_is_string(given[1]) && qn_str_is(given[1].string, "key"));
    qn_list_builder pairs = {0}, keys = {0};
    if (!by_key && !by_value)
        return qn_render_fail(r, "dictsort: you can only sort by either \"key\" or \"value\"");
    if (self.kind == QN_VALUE_UNDEFINED)
        return qn_undefined_fail(r, self.undefined);
    if (self.kind != QN_VALUE_DICT)
        return qn_render_fail(r, "dictsort: '%s' object has no attribute 'items'", qn_type_name(self));
    for (size_t i = 0; i < self.dict->count; ++i) {
        const qn_dict_entry *entry = &self.dict->entries[i];
        qn_value pair, key = by_value ? entry->value : entry->key;
        QN_TRY(qn_pair(r, entry->key, entry->value, &pair));
        QN_TRY(without_case(r, qn_value_truth(given[0]), &key));
        QN_TRY(qn_list_add(r, &pairs, pair));
        QN_TRY(qn_list_add(r, &keys, key));
    }
    QN_TRY(qn_values_sort(r, pairs.items, keys.items, pairs.count, qn_value_truth(given[2])));
    return qn_list_value(r, QN_VALUE_LIST, pairs.items, pairs.count, out);
}

/* The values of the attributes "a,b.c" of an item, as a list, which orders by the first that differs. */
static qn_status sort_key(qn_render *r, qn_value item, qn_value attribute, bool case_sensitive, qn_value *out)
{
    qn_list_builder keys = {0};
    qn_value key;
    if (!qn_is_string(attribute)) {
        QN_TRY(comparison_key(r, item, attribute, qn_missing(), case_sensitive, &key));
        QN_TRY(qn_list_add(r, &keys, key));
        return qn_list_value(r, QN_VALUE_LIST, keys.items, keys.count, out);
    }
    const qn_str *paths = attribute.string, *path, comma = {.data = ",", .bytes = 1, .length = 1};
    for (size_t from = 0;;) {
        ptrdiff_t found = qn_str_find(paths, &comma, from, paths->bytes);
        size_t to = found == QN_NOT_FOUND ? paths->bytes : (size_t)found;
        QN_TRY(qn_str_slice(r, paths, from, to, &path));
        QN_TRY(comparison_key(r, item, qn_string(path), qn_missing(), case_sensitive, &key));
        QN_TRY(qn_list_add(r, &keys, key));
        if (found == QN_NOT_FOUND)
            return qn_list_value(r, QN_VALUE_LIST, keys.items, keys.count, out);
        from = to + 1;
    }
}

qn_status qn_filter_sort(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    qn_list_builder items = {0}, keys = {0};
    QN_TRY(copy_items(r, self, &items));
    for (size_t i = 0; i < items.count; ++i) {
        qn_value key;
        QN_TRY(sort_key(r, items.items[i], given[2], qn_value_truth(given[1]), &key));
        QN_TRY(qn_list_add(r, &keys, key));
    }
    QN_TRY(qn_values_sort(r, items.items, keys.items, items.count, qn_value_truth(given[0])));
    return qn_list_value(r, QN_VALUE_LIST, items.items, items.count, out);
}

/* min and max keep the first of several that are equal. */
static qn_status extreme(qn_render *r, qn_value self, const qn_value *given, const char *better, qn_value *out)
{
    qn_cursor cursor;
    qn_value best_key = qn_missing();
    *out = qn_missing();
    QN_TRY(qn_cursor_start(r, self, &cursor));
    for (;;) {
        qn_value item, key;
        bool wins = true;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            break;
        QN_TRY(comparison_key(r, item, given[1], qn_missing(), qn_value_truth(given[0]), &key));
        if (!qn_is_missing(*out))
            QN_TRY(qn_value_order(r, key, best_key, better, &wins));
        if (wins) {
            *out = item;
            best_key = key;
        }
    }
    return qn_is_missing(*out) ? qn_undefined_hint(r, "No aggregated item, sequence was empty.", out) : QN_OK;
}

qn_status qn_filter_min(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return extreme(r, self, given, "<", out);
}

qn_status qn_filter_max(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return extreme(r, self, given, ">", out);
}

qn_status qn_filter_sum(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    qn_cursor cursor;
    *out = qn_is_missing(given[1]) ? qn_int(0) : given[1];
    if (qn_is_string(*out))
        return qn_render_fail(r, "sum() can't sum strings [use ''.join(seq) instead]");
    QN_TRY(qn_cursor_start(r, self, &cursor));
    for (;;) {
        qn_value item;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return QN_OK;
        QN_TRY(qn_get_path(r, item, given[0], qn_missing(), &item));
        QN_TRY(qn_value_operate(r, QN_OPERATOR_ADD, *out, item, out));
    }
}

static qn_status unique(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    bool case_sensitive = qn_value_truth(arguments->values[0]);
    qn_list_builder items = {0};
    qn_cursor cursor;
    qn_dict *seen;
    QN_TRY(qn_dict_new(r, 0, &seen));
    QN_TRY(qn_cursor_start(r, source, &cursor));
    for (;;) {
        qn_value item, key, found;
        QN_TRY(qn_render_work(r, 1));
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            return list_of(r, &items, out);
        QN_TRY(comparison_key(r, item, arguments->values[1], qn_missing(), case_sensitive, &key));
        QN_TRY(qn_dict_get(r, seen, key, &found));
        if (!qn_is_missing(found))
            continue;
        QN_TRY(qn_dict_set(r, seen, key, qn_none()));
        QN_TRY(qn_list_add(r, &items, item));
    }
}

qn_status qn_filter_unique(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return later(r, unique, self, given, 2, out);
}

static qn_status batch(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    int64_t count;
    qn_value fill = arguments->values[1], row_value;
    qn_list_builder rows = {0}, row = {0};
    const qn_list *items;
    QN_TRY(qn_argument_integer(r, "batch: linecount", arguments->values[0], 0, &count));
    QN_TRY(qn_collect(r, source, &items));
    for (size_t i = 0; i < items->count; ++i) {
        if ((int64_t)row.count == count) {
            QN_TRY(qn_list_value(r, QN_VALUE_LIST, row.items, row.count, &row_value));
            QN_TRY(qn_list_add(r, &rows, row_value));
            row = (qn_list_builder){0};
        }
        QN_TRY(qn_list_add(r, &row, items->items[i]));
    }
    if (row.count > 0) {
        bool fills = !qn_is_missing(fill) && fill.kind != QN_VALUE_NONE;
        while (fills && (int64_t)row.count < count)
            QN_TRY(qn_list_add(r, &row, fill));
        QN_TRY(qn_list_value(r, QN_VALUE_LIST, row.items, row.count, &row_value));
        QN_TRY(qn_list_add(r, &rows, row_value));
    }
    return list_of(r, &rows, out);
}

qn_status qn_filter_batch(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return later(r, batch, self, given, 2, out);
}

static qn_status columns(qn_render *r, qn_value source, const qn_arguments *arguments, const qn_list **out)
{
    int64_t slices;
    qn_value fill = arguments->values[1];
    qn_list_builder made = {0};
    const qn_list *items;
    QN_TRY(qn_collect(r, source, &items));
    QN_TRY(qn_argument_integer(r, "slice: slices", arguments->values[0], 0, &slices));
    if (slices == 0)
        return qn_render_fail(r, "integer division or modulo by zero");
    size_t at = 0;
    for (int64_t i = 0; i < slices; ++i) {
        bool longer = i < (int64_t)items->count % slices;
        size_t size = (size_t)((int64_t)items->count / slices) + longer;
        qn_list_builder column = {0};
        for (size_t end = at + size; at < end; ++at)
            QN_TRY(qn_list_add(r, &column, items->items[at]));
        if (!longer && !qn_is_missing(fill) && fill.kind != QN_VALUE_NONE)
            QN_TRY(qn_list_add(r, &column, fill));
        qn_value value;
        QN_TRY(qn_list_value(r, QN_VALUE_LIST, column.items, column.count, &value));
        QN_TRY(qn_list_add(r, &made, value));
    }
    return list_of(r, &made, out);
}

qn_status qn_filter_slice(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    return later(r, columns, self, given, 2, out);
}

/* (key, [items]), whose parts also have the names `grouper` and `list`. */
static qn_status add_group(qn_render *r, qn_list_builder *groups, qn_value key, const qn_value *items, size_t count)
{
    qn_value members, *parts = qn_render_alloc(r, 2, sizeof *parts);
    qn_list *group = parts ? qn_render_alloc(r, 1, sizeof *group) : NULL;
    if (!group)
        return qn_render_status(r);
    QN_TRY(qn_list_value(r, QN_VALUE_LIST, items, count, &members));
    parts[0] = key;
    parts[1] = members;
    *group = (qn_list){.count = 2, .items = parts, .pair_with_names = true};
    return qn_list_add(r, groups, (qn_value){.kind = QN_VALUE_TUPLE, .list = group});
}

qn_status qn_filter_groupby(qn_render *r, qn_value self, const qn_value *given, qn_value *out)
{
    bool case_sensitive = qn_value_truth(given[2]);
    qn_list_builder items = {0}, keys = {0}, groups = {0};
    QN_TRY(copy_items(r, self, &items));
    for (size_t i = 0; i < items.count; ++i) {
        qn_value key;
        QN_TRY(comparison_key(r, items.items[i], given[0], given[1], case_sensitive, &key));
        QN_TRY(qn_list_add(r, &keys, key));
    }
    QN_TRY(qn_values_sort(r, items.items, keys.items, items.count, false));
    for (size_t start = 0, end; start < items.count; start = end) {
        qn_value key;
        bool equal = true;
        for (end = start + 1; end < items.count; ++end) {
            QN_TRY(qn_value_equal(r, keys.items[end], keys.items[start], &equal));
            if (!equal)
                break;
        }
        QN_TRY(qn_get_path(r, items.items[start], given[0], given[1], &key));
        QN_TRY(add_group(r, &groups, key, items.items + start, end - start));
    }
    return qn_list_value(r, QN_VALUE_LIST, groups.items, groups.count, out);
}
