/* Categories come as runs in the order of the characters, letters that differ by case as rings: see property_tables.h.
 */
#include "grammar/char_property.h"

#include <string.h>

#include "grammar/property_tables.h"

/* ---- categories ---- */

typedef struct category_name {
    const char *name, *category; /* the category's first letter or both; "LC" is three of them */
} category_name;

static const category_name category_names[] = {
    {"Letter", "L"},
    {"Cased_Letter", "LC"},
    {"Uppercase_Letter", "Lu"},
    {"Lowercase_Letter", "Ll"},
    {"Titlecase_Letter", "Lt"},
    {"Modifier_Letter", "Lm"},
    {"Other_Letter", "Lo"},
    {"Mark", "M"},
    {"Combining_Mark", "M"},
    {"Nonspacing_Mark", "Mn"},
    {"Spacing_Mark", "Mc"},
    {"Enclosing_Mark", "Me"},
    {"Number", "N"},
    {"Decimal_Number", "Nd"},
    {"digit", "Nd"},
    {"Letter_Number", "Nl"},
    {"Other_Number", "No"},
    {"Punctuation", "P"},
    {"punct", "P"},
    {"Connector_Punctuation", "Pc"},
    {"Dash_Punctuation", "Pd"},
    {"Open_Punctuation", "Ps"},
    {"Close_Punctuation", "Pe"},
    {"Initial_Punctuation", "Pi"},
    {"Final_Punctuation", "Pf"},
    {"Other_Punctuation", "Po"},
    {"Symbol", "S"},
    {"Math_Symbol", "Sm"},
    {"Currency_Symbol", "Sc"},
    {"Modifier_Symbol", "Sk"},
    {"Other_Symbol", "So"},
    {"Separator", "Z"},
    {"Space_Separator", "Zs"},
    {"Line_Separator", "Zl"},
    {"Paragraph_Separator", "Zp"},
    {"Other", "C"},
    {"Control", "Cc"},
    {"cntrl", "Cc"},
    {"Format", "Cf"},
    {"Surrogate", "Cs"},
    {"Private_Use", "Co"},
    {"Unassigned", "Cn"},
};
enum { CATEGORY_NAMES = sizeof category_names / sizeof category_names[0] };

static bool is_in_category(const qn_category_run *run, const char *category)
{
    if (strcmp(category, "LC") == 0) {
        return run->category[0] == 'L' && strchr("ult", run->category[1]) != NULL;
    }
    return run->category[0] == category[0] && (category[1] == '\0' || run->category[1] == category[1]);
}

static void add_category(const char *category, qn_char_set *set)
{
    for (size_t i = 0; i < qn_category_run_count; i++) {
        uint32_t first = qn_category_runs[i].first;
        while (i < qn_category_run_count && is_in_category(&qn_category_runs[i], category)) {
            i++;
        }
        uint32_t end = i < qn_category_run_count ? qn_category_runs[i].first : QN_CHAR_MAX + 1;
        if (end > first) {
            qn_char_set_add(set, first, end - 1);
        }
    }
}

static bool same(const char *name, size_t bytes, const char *known)
{
    return strlen(known) == bytes && memcmp(name, known, bytes) == 0;
}

static const char *find_category(const char *name, size_t bytes)
{
    for (size_t i = 0; i < CATEGORY_NAMES; i++) {
        if (same(name, bytes, category_names[i].name) || same(name, bytes, category_names[i].category)) {
            return category_names[i].category;
        }
    }
    return NULL;
}

/* White space of both kinds that there are, Unicode's and ECMA-262's \s; each has one character more. */
static void add_spaces(qn_char_set *set)
{
    static const qn_char_range spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                           {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                           {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    qn_char_set_add_ranges(set, spaces, sizeof spaces / sizeof spaces[0]);
}

bool qn_char_property_add(const char *name, size_t bytes, qn_char_set *set)
{
    const char *const before[] = {"gc=", "General_Category="};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        size_t skip = strlen(before[i]);
        if (bytes > skip && memcmp(name, before[i], skip) == 0) {
            const char *category = find_category(name + skip, bytes - skip);
            if (category != NULL) {
                add_category(category, set);
            }
            return category != NULL;
        }
    }
    if (same(name, bytes, "Any")) {
        qn_char_set_add(set, 0, QN_CHAR_MAX);
    } else if (same(name, bytes, "ASCII")) {
        qn_char_set_add(set, 0, 0x7F);
    } else if (same(name, bytes, "ASCII_Hex_Digit") || same(name, bytes, "AHex")) {
        qn_char_set_add_ranges(set, (qn_char_range[]){{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, 3);
    } else if (same(name, bytes, "White_Space") || same(name, bytes, "space")) {
        add_spaces(set);
        qn_char_set_add(set, 0x85, 0x85);
    } else if (same(name, bytes, "Assigned")) {
        qn_char_set rest = {0};
        add_category("Cn", &rest);
        qn_char_set_complement(&rest);
        qn_char_set_add_ranges(set, rest.ranges, rest.count);
        set->failed = set->failed || rest.failed;
        qn_char_set_free(&rest);
    } else {
        const char *category = find_category(name, bytes);
        if (category == NULL) {
            return false;
        }
        add_category(category, set);
    }
    return true;
}

void qn_char_set_add_digits(qn_char_set *set)
{
    qn_char_set_add(set, '0', '9');
}

void qn_char_set_add_word(qn_char_set *set)
{
    qn_char_set_add_ranges(set, (qn_char_range[]){{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4);
}

void qn_char_set_add_space(qn_char_set *set)
{
    add_spaces(set);
    qn_char_set_add(set, 0xFEFF, 0xFEFF);
}

/* ---- case ---- */

/* The index of the first link whose character is `code` or behind it. */
static size_t find_link(uint32_t code)
{
    size_t low = 0, high = qn_case_link_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (qn_case_links[middle].code < code) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Adds the rings that begin in the range. */
static void add_rings(qn_char_set *set, qn_char_range range)
{
    for (size_t i = find_link(range.first); i < qn_case_link_count && qn_case_links[i].code <= range.last; i++) {
        const qn_case_link *link = &qn_case_links[i];
        for (uint32_t next = link->next; next != link->code; next = qn_case_links[find_link(next)].next) {
            if (next < range.first || next > range.last) {
                qn_char_set_add(set, next, next);
            }
        }
    }
}

/* Of the first `count` ranges. */
static void fold_ascii(qn_char_set *set, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        qn_char_range range = set->ranges[i];
        for (uint32_t code = range.first; code <= range.last && code < 0x80; code++) {
            uint32_t lower = code | 0x20;
            if (lower >= 'a' && lower <= 'z') {
                qn_char_set_add(set, code ^ 0x20, code ^ 0x20);
            }
        }
    }
}

void qn_char_set_fold(qn_char_set *set)
{
    size_t count = set->count;
    for (size_t i = 0; i < count; i++) {
        add_rings(set, set->ranges[i]);
    }
    fold_ascii(set, count);
    qn_char_set_normalize(set);
}
