/* A sorted array: spans arrive in order and are looked up by bisection. */
#include "text/span.h"

#include <assert.h>

#include "base/memory.h"

bool qn_span_list_add(qn_span_list *list, size_t start, size_t end)
{
    assert(start <= end && (list->count == 0 || start >= list->items[list->count - 1].end));
    if (start == end)
        return true;
    if (list->count > 0 && list->items[list->count - 1].end == start) {
        list->items[list->count - 1].end = end;
        return true;
    }
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 16;
        qn_span *items = qn_realloc(list->items, capacity, sizeof *items);
        if (!items)
            return false;
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (qn_span){start, end};
    return true;
}

/* Index of the first span that ends behind `offset`; count when there is none. */
static size_t first_ending_after(const qn_span_list *list, size_t offset)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->items[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool qn_span_list_touches(const qn_span_list *list, size_t start, size_t end)
{
    size_t at = first_ending_after(list, start);
    return start < end && at < list->count && list->items[at].start < end;
}

bool qn_span_list_covers(const qn_span_list *list, size_t start, size_t end)
{
    size_t at = first_ending_after(list, start);
    return start < end && at < list->count && list->items[at].start <= start && list->items[at].end >= end;
}

void qn_span_list_clear(qn_span_list *list)
{
    list->count = 0;
}

void qn_span_list_free(qn_span_list *list)
{
    qn_free(list->items);
    *list = (qn_span_list){0};
}
