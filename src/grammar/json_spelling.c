/* A set of characters inside a string is three alternatives: the characters themselves, their short escapes, and \u
 * with four digits, where the ranges become prefixes of digits as UTF-8 ranges become prefixes of bytes. */
#include "grammar/json_spelling.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/words.h"

enum { LAST_CODE = 0x10FFFF, FIRST_ASTRAL = 0x10000 };

static qn_expr one_of(qn_grammar_builder *b, const char *bytes)
{
    uint64_t set[4] = {0};
    for (; *bytes; bytes++)
        set[(unsigned char)*bytes >> 6] |= UINT64_C(1) << ((unsigned char)*bytes & 63);
    return qn_expr_byte_set(b, set);
}

static qn_expr digits(qn_grammar_builder *b, size_t min, size_t max)
{
    return qn_expr_repeat(b, one_of(b, "0123456789"), min, max);
}

/* Numbers */

static qn_expr integer(qn_grammar_builder *b)
{
    qn_expr long_form = qn_expr_concat2(b, one_of(b, "123456789"), digits(b, 0, QN_JSON_MOST_DIGITS - 1));
    qn_expr magnitude = qn_expr_choice(b, (qn_expr[]){qn_expr_text(b, "0"), long_form}, 2);
    return qn_expr_concat2(b, qn_expr_optional(b, qn_expr_text(b, "-")), magnitude);
}

static qn_expr number(qn_grammar_builder *b, qn_expr whole)
{
    qn_expr fraction = qn_expr_concat2(b, qn_expr_text(b, "."), digits(b, 1, QN_JSON_MOST_DIGITS));
    qn_expr exponent = qn_expr_concat(
        b, (qn_expr[]){one_of(b, "eE"), qn_expr_optional(b, one_of(b, "+-")), digits(b, 1, 4)}, 3);
    return qn_expr_concat(b, (qn_expr[]){whole, qn_expr_optional(b, fraction), qn_expr_optional(b, exponent)}, 3);
}

/* Escapes */

static qn_expr hex_digit(qn_grammar_builder *b, uint32_t first, uint32_t last)
{
    char set[40];
    size_t n = 0;
    for (uint32_t d = first; d <= last; d++) {
        set[n++] = "0123456789abcdef"[d];
        if (d >= 10)
            set[n++] = "ABCDEF"[d - 10];
    }
    set[n] = '\0';
    return one_of(b, set);
}

/* The numbers first..last in `count` digits. */
static qn_expr hex_range(qn_grammar_builder *b, uint32_t first, uint32_t last, unsigned count)
{
    if (count == 1)
        return hex_digit(b, first, last);
    unsigned shift = 4 * (count - 1);
    uint32_t rest = (UINT32_C(1) << shift) - 1, from = first >> shift, to = last >> shift;
    if (from == to)
        return qn_expr_concat2(b, hex_digit(b, from, from), hex_range(b, first & rest, last & rest, count - 1));
    qn_expr options[3];
    size_t n = 0;
    if ((first & rest) != 0) {
        options[n++] = qn_expr_concat2(b, hex_digit(b, from, from), hex_range(b, first & rest, rest, count - 1));
        from++;
    }
    bool part = (last & rest) != rest;
    if (part)
        options[n++] = qn_expr_concat2(b, hex_digit(b, to, to), hex_range(b, 0, last & rest, count - 1));
    if (from + (part ? 1 : 0) <= to)
        options[n++] = qn_expr_concat2(b, hex_digit(b, from, part ? to - 1 : to),
                                       qn_expr_repeat(b, hex_digit(b, 0, 15), count - 1, count - 1));
    return qn_expr_choice(b, options, n);
}

static qn_expr unit(qn_grammar_builder *b, uint32_t first, uint32_t last)
{
    return qn_expr_concat2(b, qn_expr_text(b, "\\u"), hex_range(b, first, last, 4));
}

/* Characters first..last beyond U+FFFF as surrogate pairs. */
static qn_expr pairs(qn_grammar_builder *b, uint32_t first, uint32_t last)
{
    enum { HIGH = 0xD800, LOW = 0xDC00, MASK = 0x3FF };
    first -= FIRST_ASTRAL;
    last -= FIRST_ASTRAL;
    uint32_t from = first >> 10, to = last >> 10;
    if (from == to)
        return qn_expr_concat2(b, unit(b, HIGH + from, HIGH + to), unit(b, LOW + (first & MASK), LOW + (last & MASK)));
    qn_expr options[3];
    size_t n = 0;
    if ((first & MASK) != 0) {
        options[n++] = qn_expr_concat2(b, unit(b, HIGH + from, HIGH + from), unit(b, LOW + (first & MASK), LOW + MASK));
        from++;
    }
    bool part = (last & MASK) != MASK;
    if (part)
        options[n++] = qn_expr_concat2(b, unit(b, HIGH + to, HIGH + to), unit(b, LOW, LOW + (last & MASK)));
    if (from + (part ? 1 : 0) <= to)
        options[n++] = qn_expr_concat2(b, unit(b, HIGH + from, HIGH + (part ? to - 1 : to)), unit(b, LOW, LOW + MASK));
    return qn_expr_choice(b, options, n);
}

/* Sets of characters */

static int by_first(const void *a, const void *b)
{
    const qn_char_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Sorts, joins and clips in place; returns how many are left. */
static size_t normalise(qn_char_range *ranges, size_t count)
{
    size_t kept = 0;
    qsort(ranges, count, sizeof *ranges, by_first);
    for (size_t i = 0; i < count; i++) {
        qn_char_range r = ranges[i];
        if (r.last > LAST_CODE)
            r.last = LAST_CODE;
        if (r.first > r.last)
            continue;
        if (kept > 0 && r.first <= ranges[kept - 1].last + 1) {
            if (r.last > ranges[kept - 1].last)
                ranges[kept - 1].last = r.last;
        } else {
            ranges[kept++] = r;
        }
    }
    return kept;
}

static bool holds(const qn_char_range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].first <= code && code <= ranges[i].last)
            return true;
    return false;
}

typedef struct piece_list {
    qn_expr *pieces;
    size_t count;
} piece_list;

static void add(piece_list *list, qn_expr piece)
{
    list->pieces[list->count++] = piece;
}

/* What is left of [first, last] without the characters that a string cannot hold raw; at most three ranges. */
static size_t raw_ranges(qn_char_range range, qn_char_range out[3])
{
    static const qn_char_range allowed[] = {{0x20, '"' - 1}, {'"' + 1, '\\' - 1}, {'\\' + 1, LAST_CODE}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        uint32_t first = range.first > allowed[i].first ? range.first : allowed[i].first;
        uint32_t last = range.last < allowed[i].last ? range.last : allowed[i].last;
        if (first <= last && !(first >= 0xD800 && last <= 0xDFFF))
            out[n++] = (qn_char_range){first, last};
    }
    return n;
}

static void add_units(qn_grammar_builder *b, qn_char_range range, piece_list *out)
{
    static const qn_char_range plain[] = {{0, 0xD7FF}, {0xE000, 0xFFFF}};
    for (size_t i = 0; i < 2; i++) {
        uint32_t first = range.first > plain[i].first ? range.first : plain[i].first;
        uint32_t last = range.last < plain[i].last ? range.last : plain[i].last;
        if (first <= last)
            add(out, unit(b, first, last));
    }
    if (range.last >= FIRST_ASTRAL)
        add(out, pairs(b, range.first > FIRST_ASTRAL ? range.first : FIRST_ASTRAL, range.last));
}

static qn_expr spell(qn_grammar_builder *b, const qn_char_range *ranges, size_t count)
{
    static const struct {
        char letter;
        uint32_t code;
    } escapes[] = {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 8}, {'f', 12}, {'n', 10}, {'r', 13}, {'t', 9}};
    qn_char_range *raw = qn_alloc(3 * count, sizeof *raw);
    piece_list list = {qn_alloc(3 * count + 2, sizeof(qn_expr)), 0};
    qn_expr result = QN_NO_WORDS;
    if (!raw || !list.pieces) {
        qn_error err;
        qn_fail_memory(&err, "grammar", 3 * count * sizeof *raw);
        qn_grammar_builder_fail(b, &err);
    } else {
        size_t raw_count = 0, n = 0;
        char letters[9];
        for (size_t i = 0; i < count; i++) {
            raw_count += raw_ranges(ranges[i], raw + raw_count);
            add_units(b, ranges[i], &list);
        }
        if (raw_count > 0)
            add(&list, qn_expr_chars(b, raw, raw_count));
        for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
            if (holds(ranges, count, escapes[i].code))
                letters[n++] = escapes[i].letter;
        letters[n] = '\0';
        if (n > 0)
            add(&list, qn_expr_concat2(b, qn_expr_text(b, "\\"), one_of(b, letters)));
        result = qn_words_choice(b, list.pieces, list.count);
    }
    qn_free(raw);
    qn_free(list.pieces);
    return result;
}

static qn_json_set *find_set(qn_json_spelling *s, const qn_char_range *ranges, size_t count)
{
    for (size_t i = 0; i < s->set_count; i++)
        if (s->sets[i].count == count && memcmp(s->sets[i].ranges, ranges, count * sizeof *ranges) == 0)
            return &s->sets[i];
    return NULL;
}

qn_expr qn_json_chars(qn_json_spelling *s, const qn_char_range *ranges, size_t count)
{
    qn_char_range *sorted = qn_alloc(count, sizeof *sorted);
    if (!sorted) {
        qn_error err;
        qn_fail_memory(&err, "grammar", count * sizeof *sorted);
        qn_grammar_builder_fail(s->b, &err);
        return QN_NO_WORDS;
    }
    if (count > 0)
        memcpy(sorted, ranges, count * sizeof *sorted);
    count = normalise(sorted, count);
    const qn_json_set *known = find_set(s, sorted, count);
    if (known) {
        qn_free(sorted);
        return known->expr;
    }
    qn_expr expr = spell(s->b, sorted, count);
    /* The complement of a few characters is large: built once, however often it occurs. */
    if (count > 0 && sorted[count - 1].last == LAST_CODE)
        expr = qn_words_shared(s->b, "JSON characters", expr);
    qn_json_set *slot = &s->sets[s->next_set];
    s->next_set = (s->next_set + 1) % QN_JSON_CACHED_SETS;
    if (s->set_count < QN_JSON_CACHED_SETS)
        s->set_count++;
    qn_free(slot->ranges);
    *slot = (qn_json_set){sorted, count, expr};
    return expr;
}

qn_expr qn_json_char(qn_json_spelling *s, uint32_t code)
{
    return qn_json_chars(s, &(qn_char_range){code, code}, 1);
}

/* Values */

qn_expr qn_json_enclosed(qn_json_spelling *s, char open, qn_expr inside, bool may_be_empty, char close)
{
    qn_grammar_builder *b = s->b;
    qn_expr filled = qn_words_concat2(b, inside, s->gap);
    if (filled == QN_NO_WORDS && !may_be_empty)
        return QN_NO_WORDS;
    if (filled == QN_NO_WORDS)
        filled = qn_expr_empty(b);
    else if (may_be_empty)
        filled = qn_expr_optional(b, filled);
    return qn_expr_concat(b, (qn_expr[]){qn_expr_bytes(b, &open, 1), s->gap, filled, qn_expr_bytes(b, &close, 1)}, 4);
}

static qn_expr list_of(qn_json_spelling *s, qn_expr part)
{
    qn_grammar_builder *b = s->b;
    return qn_expr_concat2(b, part, qn_expr_repeat(b, qn_expr_concat2(b, s->comma, part), 0, QN_UNBOUNDED));
}

static void spell_values(qn_json_spelling *s)
{
    qn_grammar_builder *b = s->b;
    qn_rule value = qn_rule_declare(b, "JSON value");
    s->any_value = qn_expr_rule(b, value);
    s->any_array = qn_words_shared(b, "JSON array", qn_json_enclosed(s, '[', list_of(s, s->any_value), true, ']'));
    qn_expr member = qn_words_shared(b, "JSON member",
                                     qn_expr_concat(b, (qn_expr[]){s->any_string, s->colon, s->any_value}, 3));
    s->any_object = qn_words_shared(b, "JSON object", qn_json_enclosed(s, '{', list_of(s, member), true, '}'));
    qn_rule_define(b, value,
                   qn_expr_choice(b,
                                  (qn_expr[]){s->any_string, s->any_number, s->any_object, s->any_array,
                                              qn_expr_text(b, "true"), qn_expr_text(b, "false"),
                                              qn_expr_text(b, "null")},
                                  7));
}

void qn_json_spelling_init(qn_json_spelling *s, qn_grammar_builder *b, bool any_whitespace)
{
    *s = (qn_json_spelling){.b = b};
    qn_expr comma = qn_expr_text(b, ","), colon = qn_expr_text(b, ":");
    if (any_whitespace) {
        s->gap = qn_words_shared(b, "JSON white space",
                                 qn_expr_repeat(b, one_of(b, " \t\n\r"), 0, QN_JSON_MOST_SPACES));
        s->comma = qn_expr_concat(b, (qn_expr[]){s->gap, comma, s->gap}, 3);
        s->colon = qn_expr_concat(b, (qn_expr[]){s->gap, colon, s->gap}, 3);
    } else {
        qn_expr space = qn_expr_optional(b, qn_expr_text(b, " "));
        s->gap = qn_expr_empty(b);
        s->comma = qn_expr_concat2(b, comma, space);
        s->colon = qn_expr_concat2(b, colon, space);
    }
    s->quote = qn_expr_text(b, "\"");
    s->any_char = qn_json_chars(s, &(qn_char_range){0, LAST_CODE}, 1);
    qn_expr chars = qn_expr_repeat(b, s->any_char, 0, QN_UNBOUNDED);
    s->any_string = qn_words_shared(b, "JSON string", qn_words_concat(b, (qn_expr[]){s->quote, chars, s->quote}, 3));
    qn_expr whole = integer(b);
    s->any_integer = qn_words_shared(b, "JSON integer", whole);
    s->any_number = qn_words_shared(b, "JSON number", number(b, whole));
    spell_values(s);
}

void qn_json_spelling_free(qn_json_spelling *s)
{
    for (size_t i = 0; i < s->set_count; i++)
        qn_free(s->sets[i].ranges);
    s->set_count = 0;
}
