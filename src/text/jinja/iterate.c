/* One cursor for every iterable kind, so that loops and filters need not know them. */
#include "text/jinja/iterate.h"

#include <string.h>

#include "text/jinja/compare.h"
#include "text/jinja/dict.h"
#include "text/jinja/str.h"

bool qn_is_iterable(qn_value value)
{
    switch (value.kind) {
    case QN_VALUE_UNDEFINED:
    case QN_VALUE_STRING:
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
    case QN_VALUE_DICT:
    case QN_VALUE_RANGE:
    case QN_VALUE_VIEW:
    case QN_VALUE_ITERATOR:
    case QN_VALUE_LOOP:
        return true;
    default:
        return false;
    }
}

qn_status qn_cursor_start(qn_render *r, qn_value value, qn_cursor *out)
{
    if (!qn_is_iterable(value))
        return qn_render_fail(r, "'%s' object is not iterable", qn_type_name(value));
    if (value.kind == QN_VALUE_LOOP)
        return qn_render_fail(r, "iterating over the loop variable itself is not supported");
    *out = (qn_cursor){.source = value};
    if (qn_is_string(value))
        out->walk.string = value.string;
    return QN_OK;
}

static qn_status next_of_iterator(qn_render *r, qn_iterator *iterator, qn_value *out)
{
    if (iterator->make) {
        const qn_list *items;
        qn_iterator_make *make = iterator->make;
        iterator->make = NULL;
        QN_TRY(qn_render_enter(r)); /* the source may be an iterator over an iterator over ... */
        qn_status status = make(r, iterator->source, &iterator->arguments, &items);
        qn_render_leave(r);
        QN_TRY(status);
        iterator->cursor = (qn_cursor){.source = {.kind = QN_VALUE_LIST, .list = items}};
    }
    return qn_cursor_next(r, &iterator->cursor, out);
}

static qn_status next_of_string(qn_render *r, qn_cursor *cursor, qn_value *out)
{
    size_t start = cursor->walk.offset;
    const qn_str *character;
    if (!qn_walk_next(&cursor->walk))
        return QN_OK;
    QN_TRY(qn_str_wrap(r, cursor->walk.string->data + start, cursor->walk.offset - start, cursor->walk.origin,
                       &character));
    *out = qn_string(character);
    return QN_OK;
}

static qn_status next_of_dict(qn_render *r, const qn_dict *dict, qn_view_kind kind, size_t index, qn_value *out)
{
    if (index >= dict->count)
        return QN_OK;
    const qn_dict_entry *entry = &dict->entries[index];
    if (kind == QN_VIEW_ITEMS)
        return qn_pair(r, entry->key, entry->value, out);
    *out = kind == QN_VIEW_KEYS ? entry->key : entry->value;
    return QN_OK;
}

qn_status qn_cursor_next(qn_render *r, qn_cursor *cursor, qn_value *out)
{
    size_t index = cursor->index++;
    *out = qn_missing();
    switch (cursor->source.kind) {
    case QN_VALUE_STRING:
        return next_of_string(r, cursor, out);
    case QN_VALUE_LIST:
    case QN_VALUE_TUPLE:
        if (index < cursor->source.list->count)
            *out = cursor->source.list->items[index];
        return QN_OK;
    case QN_VALUE_DICT:
        return next_of_dict(r, cursor->source.dict, QN_VIEW_KEYS, index, out);
    case QN_VALUE_VIEW:
        return next_of_dict(r, cursor->source.view->dict, cursor->source.view->kind, index, out);
    case QN_VALUE_RANGE:
        if ((int64_t)index < cursor->source.range->count)
            *out = qn_int(cursor->source.range->start + (int64_t)index * cursor->source.range->step);
        return QN_OK;
    case QN_VALUE_ITERATOR:
        return next_of_iterator(r, cursor->source.iterator, out);
    default:
        return QN_OK;
    }
}

qn_status qn_iterator_new(qn_render *r, qn_iterator_make *make, qn_value source, const qn_arguments *arguments,
                          qn_value *out)
{
    qn_iterator *iterator = qn_render_alloc(r, 1, sizeof *iterator);
    if (!iterator)
        return qn_render_status(r);
    iterator->make = make;
    iterator->source = source;
    if (arguments)
        iterator->arguments = *arguments;
    *out = (qn_value){.kind = QN_VALUE_ITERATOR, .iterator = iterator};
    return QN_OK;
}

qn_status qn_list_add(qn_render *r, qn_list_builder *list, qn_value item)
{
    QN_TRY(qn_render_work(r, 1));
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 8;
        qn_value *items = qn_render_alloc(r, capacity, sizeof *items);
        if (!items)
            return qn_render_status(r);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
    return QN_OK;
}

qn_status qn_list_value(qn_render *r, qn_value_kind kind, const qn_value *items, size_t count, qn_value *out)
{
    qn_list *list = qn_render_alloc(r, 1, sizeof *list);
    if (!list)
        return qn_render_status(r);
    list->items = items;
    list->count = count;
    *out = (qn_value){.kind = kind, .list = list};
    return QN_OK;
}

qn_status qn_pair(qn_render *r, qn_value first, qn_value second, qn_value *out)
{
    qn_value *items = qn_render_alloc(r, 2, sizeof *items);
    if (!items)
        return qn_render_status(r);
    items[0] = first;
    items[1] = second;
    return qn_list_value(r, QN_VALUE_TUPLE, items, 2, out);
}

qn_status qn_collect(qn_render *r, qn_value value, const qn_list **out)
{
    if (qn_is_sequence(value)) {
        *out = value.list;
        return QN_OK;
    }
    qn_cursor cursor;
    qn_list_builder list = {0};
    QN_TRY(qn_cursor_start(r, value, &cursor));
    for (;;) {
        qn_value item;
        QN_TRY(qn_cursor_next(r, &cursor, &item));
        if (qn_is_missing(item))
            break;
        QN_TRY(qn_list_add(r, &list, item));
    }
    qn_value made;
    QN_TRY(qn_list_value(r, QN_VALUE_LIST, list.items, list.count, &made));
    *out = made.list;
    return QN_OK;
}
