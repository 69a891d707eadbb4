/* Goes from a set over all characters of plain text at once, to the few sets where they lead, and on from these: until
 * they lead to where they came from (a string without an end), all end together (a bounded one is full), or the longest
 * plain token is through. */
#include "grammar/plain_text.h"

#include <string.h>

#include "grammar/char_kinds.h"
#include "grammar/vocabulary_trie.h"

enum { MOST_SETS = 64, ASCII = 128 };

typedef struct frontier {
    uint32_t sets[MOST_SETS]; /* ascending */
    size_t count;
    bool is_top;
    bool lacks; /* some character leads nowhere, or to where stacks have to be looked at */
    bool leads; /* some character leads somewhere */
} frontier;

static void add(const qn_set_table *table, frontier *f, uint32_t set)
{
    const qn_set_entry *entry = &table->sets[set];
    f->leads |= set != QN_SET_EMPTY;
    bool too_much = f->is_top && (entry->waits || entry->count > QN_SET_WIDE || entry->depth > QN_SET_DEEP);
    if (set == QN_SET_EMPTY || too_much) {
        f->lacks = true;
        return;
    }
    size_t i = f->count;
    while (i > 0 && f->sets[i - 1] > set)
        i--;
    if (i > 0 && f->sets[i - 1] == set)
        return;
    if (f->count == MOST_SETS) {
        f->lacks = true;
        return;
    }
    memmove(&f->sets[i + 1], &f->sets[i], (f->count - i) * sizeof *f->sets);
    f->sets[i] = set;
    f->count++;
}

/* Where the bytes from `first` to `last` lead from all sets of `from`. */
static void add_range(qn_set_table *table, const frontier *from, unsigned first, unsigned last, frontier *to)
{
    for (size_t i = 0; i < from->count; i++) {
        unsigned before = UINT32_MAX;
        for (unsigned b = first; b <= last; b++) {
            if (b < ASCII && !qn_is_plain_ascii((uint8_t)b))
                continue;
            uint8_t class_of = table->classes.of[b];
            if (class_of != before)
                add(table, to, qn_set_table_next(table, from->sets[i], (uint8_t)b));
            before = class_of;
        }
    }
}

/* Where whole characters lead; those of several bytes by their forms. */
static void cross(qn_set_table *table, const frontier *from, frontier *to)
{
    size_t count;
    const qn_char_form *forms = qn_char_forms(&count);
    *to = (frontier){.is_top = from->is_top};
    add_range(table, from, 0, ASCII - 1, to);
    for (size_t i = 0; i < count && !(to->lacks && to->leads); i++) {
        frontier inner = {.is_top = from->is_top}, next;
        add_range(table, from, forms[i].first, forms[i].last, &inner);
        to->leads |= inner.leads;
        to->lacks |= inner.lacks;
        if (inner.lacks)
            continue;
        for (unsigned more = 0; more < forms[i].more; more++, inner = next) {
            next = (frontier){.is_top = from->is_top};
            add_range(table, &inner, more == 0 ? forms[i].from : 0x80, more == 0 ? forms[i].until : 0xBF, &next);
            to->lacks |= next.lacks;
        }
        bool is_second = forms[i].more == 0;
        add_range(table, &inner, is_second ? forms[i].from : 0x80, is_second ? forms[i].until : 0xBF, to);
    }
}

static bool find_reach(qn_set_table *table, uint32_t set, bool is_top, size_t *chars)
{
    frontier now = {.sets = {set}, .count = 1, .is_top = is_top}, next;
    for (*chars = 0; *chars < QN_PLAIN_MAX_CHARS; ++*chars) {
        cross(table, &now, &next);
        if (table->failed || table->exhausted || (next.lacks && next.leads))
            return false;
        if (next.lacks)
            return true;
        if (next.count == now.count && memcmp(next.sets, now.sets, now.count * sizeof *now.sets) == 0)
            *chars = QN_PLAIN_MAX_CHARS - 1;
        now = next;
    }
    return true;
}

bool qn_plain_text_reach(qn_set_table *table, uint32_t set, bool is_top, size_t *chars)
{
    bool was_exhausted = table->exhausted; /* what only this search looks at does not count */
    table->exhausted = false;
    bool found = find_reach(table, set, is_top, chars);
    table->exhausted = was_exhausted;
    return found;
}
