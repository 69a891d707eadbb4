/* Categories and one-to-one case mappings are utf8proc's; character_tables.c adds what Python has beyond them. */
#include "text/jinja/character.h"

#include <stdio.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja/character_tables.h"

enum { CAPITAL_SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2, SMALL_SIGMA = 0x3C3, DOTTED_CAPITAL_I = 0x130, DOT_ABOVE = 0x307 };

static utf8proc_category_t category(uint32_t code)
{
    return utf8proc_category((utf8proc_int32_t)code);
}

static bool in_ranges(const qn_code_range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code;
}

bool qn_code_is_space(uint32_t code)
{
    if (code < 0x80)
        return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool qn_code_is_alpha(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

bool qn_code_is_decimal(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_ND;
}

bool qn_code_is_digit(uint32_t code)
{
    return qn_code_is_decimal(code) || in_ranges(qn_other_digit, qn_other_digit_count, code);
}

bool qn_code_is_numeric(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO ||
           in_ranges(qn_other_numeric, qn_other_numeric_count, code);
}

bool qn_code_is_alnum(uint32_t code)
{
    return qn_code_is_alpha(code) || qn_code_is_numeric(code);
}

bool qn_code_is_lower(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LL || in_ranges(qn_other_lowercase, qn_other_lowercase_count, code);
}

bool qn_code_is_upper(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LU || in_ranges(qn_other_uppercase, qn_other_uppercase_count, code);
}

bool qn_code_is_title(uint32_t code)
{
    return category(code) == UTF8PROC_CATEGORY_LT;
}

bool qn_code_is_printable(uint32_t code)
{
    switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return code == ' ';
    default:
        return true;
    }
}

bool qn_code_is_name_start(uint32_t code)
{
    return code == '_' || qn_code_is_alpha(code) || category(code) == UTF8PROC_CATEGORY_NL;
}

bool qn_code_is_name_part(uint32_t code)
{
    utf8proc_category_t c = category(code);
    return qn_code_is_name_start(code) || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_MN ||
           c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_PC;
}

unsigned qn_code_decimal_value(uint32_t code)
{
    /* Digits come in runs that start with a zero and are a multiple of ten long. */
    unsigned before = 0;
    while (before < code && qn_code_is_decimal(code - before - 1))
        ++before;
    return before % 10;
}

size_t qn_code_escape(uint32_t code, char out[QN_CODE_ESCAPE_BYTES])
{
    unsigned value = code;
    int bytes = value < 0x100     ? snprintf(out, QN_CODE_ESCAPE_BYTES, "\\x%02x", value)
                : value < 0x10000 ? snprintf(out, QN_CODE_ESCAPE_BYTES, "\\u%04x", value)
                                  : snprintf(out, QN_CODE_ESCAPE_BYTES, "\\U%08x", value);
    return (size_t)bytes;
}

size_t qn_space_prefix(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint32_t code;
        size_t step = qn_utf8_decode(text + at, bytes - at, &code);
        if (step == 0 || !qn_code_is_space(code))
            break;
        at += step;
    }
    return at;
}

size_t qn_space_trimmed(const char *text, size_t bytes)
{
    while (bytes > 0) {
        size_t start = bytes - 1;
        while (start > 0 && ((unsigned char)text[start] & 0xC0) == 0x80)
            --start;
        uint32_t code;
        if (qn_utf8_decode(text + start, bytes - start, &code) == 0 || !qn_code_is_space(code))
            break;
        bytes = start;
    }
    return bytes;
}

static const qn_special_case *special_case(uint32_t code)
{
    size_t low = 0, high = qn_special_cases_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (qn_special_cases[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < qn_special_cases_count && qn_special_cases[low].code == code;
    return found ? &qn_special_cases[low] : NULL;
}

static bool is_cased(uint32_t code)
{
    return qn_code_is_lower(code) || qn_code_is_upper(code) || qn_code_is_title(code);
}

/* Case_Ignorable: by category, and the characters that words may have in their middle. */
static bool is_case_ignorable(uint32_t code)
{
    static const uint32_t inside_words[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                            0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    utf8proc_category_t c = category(code);
    if (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
        c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK)
        return true;
    for (size_t i = 0; i < sizeof inside_words / sizeof inside_words[0]; ++i) {
        if (inside_words[i] == code)
            return true;
    }
    return false;
}

/* Whether the sigma at start..end-1 of text[from..to) ends a word: a cased letter before it, none behind, with
 * ignorable characters passed over (Unicode 3.13, Final_Sigma). */
static bool sigma_is_final(const char *text, size_t from, size_t to, size_t start, size_t end)
{
    uint32_t code;
    bool cased_before = false;
    while (start > from) {
        size_t before = start - 1;
        while (before > from && ((unsigned char)text[before] & 0xC0) == 0x80)
            --before;
        qn_utf8_decode(text + before, start - before, &code);
        start = before;
        if (!is_case_ignorable(code)) {
            cased_before = is_cased(code);
            break;
        }
    }
    if (!cased_before)
        return false;
    while (end < to) {
        end += qn_utf8_decode(text + end, to - end, &code);
        if (!is_case_ignorable(code))
            return !is_cased(code);
    }
    return true;
}

static void append_codes(qn_builder *b, const uint32_t codes[3], qn_origin origin)
{
    for (size_t i = 0; i < 3 && codes[i] != 0; ++i)
        qn_builder_code(b, codes[i], origin);
}

static void append_upper(qn_builder *b, uint32_t code, qn_origin origin)
{
    const qn_special_case *special = special_case(code);
    if (special)
        append_codes(b, special->upper, origin);
    else
        qn_builder_code(b, (uint32_t)utf8proc_toupper((utf8proc_int32_t)code), origin);
}

static void append_title(qn_builder *b, uint32_t code, qn_origin origin)
{
    const qn_special_case *special = special_case(code);
    if (special)
        append_codes(b, special->title, origin);
    else
        qn_builder_code(b, (uint32_t)utf8proc_totitle((utf8proc_int32_t)code), origin);
}

/* The character that ends before `end` of s, within from..to-1. */
static void append_lower(qn_builder *b, const qn_str *s, size_t from, size_t to, const qn_walk *at)
{
    uint32_t code = at->code;
    if (code == CAPITAL_SIGMA) {
        bool final = sigma_is_final(s->data, from, to, at->offset - 2, at->offset);
        qn_builder_code(b, final ? FINAL_SIGMA : SMALL_SIGMA, at->origin);
    } else if (code == DOTTED_CAPITAL_I) {
        qn_builder_code(b, 'i', at->origin);
        qn_builder_code(b, DOT_ABOVE, at->origin);
    } else {
        qn_builder_code(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)code), at->origin);
    }
}

static void append_folded(qn_builder *b, uint32_t code, qn_origin origin)
{
    utf8proc_int32_t folded[4];
    int boundary = UTF8PROC_BOUNDCLASS_START;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)code, folded, 4, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < count && i < 4; ++i)
        qn_builder_code(b, (uint32_t)folded[i], origin);
}

/* The mapping of one character: what is wanted of a string depends on where in it the character stands. */
static qn_case mapping_of(qn_case wanted, uint32_t code, bool first, bool after_cased)
{
    switch (wanted) {
    case QN_CASE_TITLE:
        return after_cased ? QN_CASE_LOWER : QN_CASE_TITLE;
    case QN_CASE_CAPITAL:
        return first ? QN_CASE_TITLE : QN_CASE_LOWER;
    case QN_CASE_SWAP:
        return qn_code_is_upper(code) ? QN_CASE_LOWER : qn_code_is_lower(code) ? QN_CASE_UPPER : QN_CASE_SWAP;
    default:
        return wanted;
    }
}

void qn_builder_cased(qn_builder *b, const qn_str *s, size_t from, size_t to, qn_case wanted)
{
    qn_walk walk = {.string = s, .offset = from};
    bool after_cased = false, first = true;
    if (b->status == QN_OK)
        b->status = qn_render_work(b->render, (to - from) / 4);
    while (b->status == QN_OK && walk.offset < to && qn_walk_next(&walk)) {
        switch (mapping_of(wanted, walk.code, first, after_cased)) {
        case QN_CASE_UPPER:
            append_upper(b, walk.code, walk.origin);
            break;
        case QN_CASE_LOWER:
            append_lower(b, s, from, to, &walk);
            break;
        case QN_CASE_TITLE:
            append_title(b, walk.code, walk.origin);
            break;
        case QN_CASE_FOLD:
            append_folded(b, walk.code, walk.origin);
            break;
        default:
            qn_builder_code(b, walk.code, walk.origin);
        }
        after_cased = is_cased(walk.code);
        first = false;
    }
}
