/* utf8proc answers for one character at a time; a parse needs sets. So all characters are walked once, and runs of the
 * same category and groups of the same letter are kept. */
#include "grammar/char_property.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"

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

/* Runs in the tables of Unicode 14 are some 3,300; the bound only keeps the walk's array in hand. */
static bool gather_runs(qn_char_properties *p)
{
    size_t count = 0, capacity = 0;
    qn_category_run *runs = NULL;
    for (uint32_t code = 0; code <= QN_CHAR_MAX; code++) {
        const char *category = utf8proc_category_string((utf8proc_int32_t)code);
        if (count > 0 && memcmp(runs[count - 1].category, category, 2) == 0) {
            runs[count - 1].last = code;
            continue;
        }
        if (count == capacity) {
            capacity = capacity > 0 ? capacity * 2 : 4096;
            qn_category_run *grown = qn_realloc(runs, capacity, sizeof *runs);
            if (grown == NULL) {
                qn_free(runs);
                return false;
            }
            runs = grown;
        }
        runs[count++] = (qn_category_run){code, code, {category[0], category[1]}};
    }
    p->runs = runs;
    p->run_count = count;
    return true;
}

static bool is_in_category(const qn_category_run *run, const char *category)
{
    if (strcmp(category, "LC") == 0) {
        return run->category[0] == 'L' && strchr("ult", run->category[1]) != NULL;
    }
    return run->category[0] == category[0] && (category[1] == '\0' || run->category[1] == category[1]);
}

static void add_category(qn_char_properties *p, const char *category, qn_char_set *set)
{
    if (p->runs == NULL && !gather_runs(p)) {
        set->failed = true;
        return;
    }
    for (size_t i = 0; i < p->run_count; i++) {
        if (is_in_category(&p->runs[i], category)) {
            qn_char_set_add(set, p->runs[i].first, p->runs[i].last);
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

bool qn_char_property_add(qn_char_properties *properties, const char *name, size_t bytes, qn_char_set *set)
{
    const char *const before[] = {"gc=", "General_Category="};
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        size_t skip = strlen(before[i]);
        if (bytes > skip && memcmp(name, before[i], skip) == 0) {
            const char *category = find_category(name + skip, bytes - skip);
            if (category != NULL) {
                add_category(properties, category, set);
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
        add_category(properties, "Cn", &rest);
        qn_char_set_complement(&rest);
        qn_char_set_add_ranges(set, rest.ranges, rest.count);
        set->failed = set->failed || rest.failed;
        qn_char_set_free(&rest);
    } else {
        const char *category = find_category(name, bytes);
        if (category == NULL) {
            return false;
        }
        add_category(properties, category, set);
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

static uint32_t fold_of(uint32_t code)
{
    utf8proc_int32_t upper = utf8proc_toupper((utf8proc_int32_t)code);
    return (uint32_t)utf8proc_tolower(upper);
}

static int compare_pairs(const void *left, const void *right)
{
    const qn_case_pair *a = left, *b = right;
    return a->fold != b->fold ? (a->fold > b->fold) - (a->fold < b->fold) : (a->code > b->code) - (a->code < b->code);
}

/* All whose fold is another character, and those folds. Letters with case end below U+1E944. */
static bool gather_pairs(qn_char_properties *p)
{
    enum { LAST = 0x1E943, CAPACITY = 8192 };
    qn_case_pair *pairs = qn_alloc(CAPACITY, sizeof *pairs);
    size_t count = 0;
    if (pairs == NULL) {
        return false;
    }
    for (uint32_t code = 0x80; code <= LAST && count + 2 <= CAPACITY; code++) {
        uint32_t fold = fold_of(code);
        if (fold != code && fold >= 0x80) {
            pairs[count++] = (qn_case_pair){fold, code};
            pairs[count++] = (qn_case_pair){fold, fold};
        }
    }
    qsort(pairs, count, sizeof *pairs, compare_pairs);
    p->pairs = pairs;
    p->pair_count = count;
    return true;
}

static void fold_ascii(qn_char_set *set)
{
    size_t count = set->count;
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

void qn_char_set_fold(qn_char_properties *properties, qn_char_set *set)
{
    qn_char_properties *p = properties;
    size_t count = set->count;
    if (count > 0 && set->ranges[count - 1].last >= 0x80) {
        if (p->pairs == NULL && !gather_pairs(p)) {
            set->failed = true;
            return;
        }
        for (size_t start = 0, end = 0; start < p->pair_count; start = end) {
            bool any = false;
            for (end = start; end < p->pair_count && p->pairs[end].fold == p->pairs[start].fold; end++) {
                any = any || qn_char_ranges_contain(set->ranges, count, p->pairs[end].code);
            }
            for (size_t i = start; i < end && any; i++) {
                qn_char_set_add(set, p->pairs[i].code, p->pairs[i].code);
            }
        }
    }
    fold_ascii(set);
    qn_char_set_normalize(set);
}

void qn_char_properties_free(qn_char_properties *properties)
{
    qn_free(properties->runs);
    qn_free(properties->pairs);
    *properties = (qn_char_properties){0};
}
