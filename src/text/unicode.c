#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

static const qn_unicode_range *find_range(const qn_unicode_range *table, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && table[low].first <= code ? &table[low] : NULL;
}

const char *qn_unicode_category(uint32_t code)
{
    const qn_unicode_range *range = find_range(qn_unicode_new_categories, qn_unicode_new_category_count, code);
    return range ? range->category : utf8proc_category_string((utf8proc_int32_t)code);
}

bool qn_unicode_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= 0x09 && code <= 0x0D);
    return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool qn_unicode_is_number(uint32_t code)
{
    if (code < 0x80)
        return code >= '0' && code <= '9';
    return qn_unicode_category(code)[0] == 'N';
}

/* The symbols with the property Other_Alphabetic: circled and squared letters. Its other members are marks. */
static bool is_alphabetic_symbol(uint32_t code)
{
    return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
           (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

bool qn_unicode_is_word(uint32_t code)
{
    const char *category = qn_unicode_category(code);
    if (category[0] == 'L' || category[0] == 'M')
        return true;
    if (strcmp(category, "Nd") == 0 || strcmp(category, "Nl") == 0 || strcmp(category, "Pc") == 0)
        return true;
    return code == 0x200C || code == 0x200D || is_alphabetic_symbol(code);
}

bool qn_unicode_is_left_alone(uint32_t code)
{
    return code >= qn_unicode_left_alone[0].first &&
           find_range(qn_unicode_left_alone, qn_unicode_left_alone_count, code) != NULL;
}

void qn_unicode_append_new(const char *category, qn_buffer *out)
{
    for (size_t i = 0; i < qn_unicode_new_category_count; i++) {
        const qn_unicode_range *range = &qn_unicode_new_categories[i];
        if (strncmp(range->category, category, strlen(category)) == 0)
            qn_buffer_format(out, "\\x{%X}-\\x{%X}", (unsigned)range->first, (unsigned)range->last);
    }
}
