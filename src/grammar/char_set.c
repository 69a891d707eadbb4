/* Ranges are gathered in any order and sorted once: a class of n parts costs n log n. */
#include "grammar/char_set.h"

#include <stdlib.h>

#include "base/memory.h"

void qn_char_set_add(qn_char_set *set, uint32_t first, uint32_t last)
{
    if (set->failed) {
        return;
    }
    if (set->count == set->capacity) {
        size_t capacity = set->capacity > 0 ? set->capacity * 2 : 8;
        qn_char_range *grown = qn_realloc(set->ranges, capacity, sizeof *grown);
        if (grown == NULL) {
            set->failed = true;
            return;
        }
        set->ranges = grown;
        set->capacity = capacity;
    }
    set->ranges[set->count++] = (qn_char_range){first, last};
}

void qn_char_set_add_ranges(qn_char_set *set, const qn_char_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_char_set_add(set, ranges[i].first, ranges[i].last);
    }
}

static int compare_ranges(const void *left, const void *right)
{
    const qn_char_range *a = left, *b = right;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->last > b->last) - (a->last < b->last);
}

/* At most one range becomes two by this. */
static void split_surrogates(qn_char_set *set)
{
    size_t count = set->count, kept = 0;
    uint32_t behind_last = 0;
    for (size_t i = 0; i < count; i++) {
        qn_char_range range = set->ranges[i];
        if (range.last > QN_SURROGATE_LAST && range.first <= QN_SURROGATE_LAST && range.last > behind_last) {
            behind_last = range.last;
        }
        if (range.first >= QN_SURROGATE_FIRST && range.first <= QN_SURROGATE_LAST) {
            continue;
        }
        if (range.first < QN_SURROGATE_FIRST && range.last >= QN_SURROGATE_FIRST) {
            range.last = QN_SURROGATE_FIRST - 1;
        }
        set->ranges[kept++] = range;
    }
    set->count = kept;
    if (behind_last > 0) {
        qn_char_set_add(set, QN_SURROGATE_LAST + 1, behind_last);
    }
}

void qn_char_set_normalize(qn_char_set *set)
{
    split_surrogates(set);
    if (set->failed || set->count == 0) {
        return;
    }
    qsort(set->ranges, set->count, sizeof *set->ranges, compare_ranges);
    size_t last = 0;
    for (size_t i = 1; i < set->count; i++) {
        qn_char_range *into = &set->ranges[last];
        if (set->ranges[i].first <= into->last || set->ranges[i].first == into->last + 1) {
            into->last = set->ranges[i].last > into->last ? set->ranges[i].last : into->last;
        } else {
            set->ranges[++last] = set->ranges[i];
        }
    }
    set->count = last + 1;
}

void qn_char_set_complement(qn_char_set *set)
{
    qn_char_set_normalize(set);
    qn_char_set rest = {.failed = set->failed};
    uint32_t next = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].first > next) {
            qn_char_set_add(&rest, next, set->ranges[i].first - 1);
        }
        next = set->ranges[i].last + 1;
    }
    if (next <= QN_CHAR_MAX) {
        qn_char_set_add(&rest, next, QN_CHAR_MAX);
    }
    qn_char_set_normalize(&rest);
    qn_char_set_free(set);
    *set = rest;
}

bool qn_char_ranges_contain(const qn_char_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && ranges[low].first <= code;
}

void qn_char_set_free(qn_char_set *set)
{
    qn_free(set->ranges);
    *set = (qn_char_set){0};
}
