/* The forms are those of Unicode, table 3-7, cut where a kind begins or ends. */
#include "grammar/char_kinds.h"

const qn_char_form *qn_char_forms(size_t *count)
{
    static const qn_char_form forms[] = {
        {QN_KIND_CYRILLIC, 0xD0, 0xD1, 0x80, 0xBF, 0},    {QN_KIND_OTHER_TWO, 0xC2, 0xCF, 0x80, 0xBF, 0},
        {QN_KIND_OTHER_TWO, 0xD2, 0xDF, 0x80, 0xBF, 0},   {QN_KIND_IDEOGRAPH, 0xE4, 0xE4, 0xB8, 0xBF, 1},
        {QN_KIND_IDEOGRAPH, 0xE5, 0xE9, 0x80, 0xBF, 1},   {QN_KIND_HANGUL, 0xEA, 0xEA, 0xB0, 0xBF, 1},
        {QN_KIND_HANGUL, 0xEB, 0xEC, 0x80, 0xBF, 1},      {QN_KIND_HANGUL, 0xED, 0xED, 0x80, 0x9D, 1},
        {QN_KIND_OTHER_THREE, 0xE0, 0xE0, 0xA0, 0xBF, 1}, {QN_KIND_OTHER_THREE, 0xE1, 0xE3, 0x80, 0xBF, 1},
        {QN_KIND_OTHER_THREE, 0xE4, 0xE4, 0x80, 0xB7, 1}, {QN_KIND_OTHER_THREE, 0xEA, 0xEA, 0x80, 0xAF, 1},
        {QN_KIND_OTHER_THREE, 0xED, 0xED, 0x9E, 0x9F, 1}, {QN_KIND_OTHER_THREE, 0xEE, 0xEF, 0x80, 0xBF, 1},
        {QN_KIND_FOUR, 0xF0, 0xF0, 0x90, 0xBF, 2},        {QN_KIND_FOUR, 0xF1, 0xF3, 0x80, 0xBF, 2},
        {QN_KIND_FOUR, 0xF4, 0xF4, 0x80, 0x8F, 2}};
    *count = sizeof forms / sizeof *forms;
    return forms;
}

unsigned qn_ascii_kind(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z')
        return QN_KIND_LOWER + byte - 'a';
    if (byte >= 'A' && byte <= 'Z')
        return QN_KIND_UPPER + byte - 'A';
    if (byte >= '0' && byte <= '9')
        return QN_KIND_DIGIT;
    switch (byte) {
    case ' ':
        return QN_KIND_SPACE;
    case '_':
        return QN_KIND_UNDERSCORE;
    case '-':
    case '.':
        return QN_KIND_DASH_OR_POINT;
    default:
        return QN_KIND_OTHER_ASCII;
    }
}

unsigned qn_char_kind(const uint8_t *bytes, size_t count)
{
    size_t form_count;
    const qn_char_form *forms = qn_char_forms(&form_count);
    if (bytes[0] < 0x80)
        return qn_ascii_kind(bytes[0]);
    for (size_t i = 0; i < form_count && count > 1; i++)
        if (bytes[0] >= forms[i].first && bytes[0] <= forms[i].last && bytes[1] >= forms[i].from &&
            bytes[1] <= forms[i].until)
            return count >= forms[i].more + 2u ? forms[i].kind : QN_KIND_CUT;
    return QN_KIND_CUT;
}
