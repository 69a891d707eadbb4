/* Well-formed UTF-8 as table 3-7 of the Unicode Standard lists it: the second byte's range depends on the first, which
 * is what shuts out overlong forms (E0, F0), surrogates (ED) and code points beyond U+10FFFF (F4). */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Length of the character that `lead` starts and the range of its second byte; 0 when nothing starts so. */
static size_t lead_length(uint8_t lead, uint8_t *low, uint8_t *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0)
            *low = 0xA0;
        if (lead == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0)
            *low = 0x90;
        if (lead == 0xF4)
            *high = 0x8F;
        return 4;
    }
    return 0;
}

/* How many bytes of text[0..bytes) are a valid start of one character; *length: how many the whole one has. */
static size_t valid_prefix(const uint8_t *text, size_t bytes, size_t *length)
{
    *length = 0;
    if (bytes == 0)
        return 0;
    uint8_t low, high;
    *length = lead_length(text[0], &low, &high);
    if (*length == 0)
        return 0;
    size_t have = 1;
    while (have < *length && have < bytes && text[have] >= low && text[have] <= high) {
        low = 0x80;
        high = 0xBF;
        have++;
    }
    return have;
}

size_t qn_utf8_decode(const char *text, size_t bytes, uint32_t *out)
{
    const uint8_t *in = (const uint8_t *)text;
    size_t length;
    if (valid_prefix(in, bytes, &length) != length || length == 0)
        return 0;
    static const uint8_t lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t code = in[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++)
        code = code << 6 | (in[i] & 0x3Fu);
    *out = code;
    return length;
}

size_t qn_utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(lead[length] | code);
    return length;
}

bool qn_utf8_valid(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        if ((uint8_t)text[at] < 0x80) {
            at++;
            continue;
        }
        uint32_t code;
        size_t length = qn_utf8_decode(text + at, bytes - at, &code);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

size_t qn_utf8_incomplete_tail(const char *text, size_t bytes)
{
    for (size_t tail = 1; tail <= 3 && tail <= bytes; tail++) {
        const uint8_t *start = (const uint8_t *)text + (bytes - tail);
        if ((*start & 0xC0) == 0x80)
            continue; /* inside a character: its first byte lies further ahead */
        size_t length;
        size_t have = valid_prefix(start, tail, &length);
        return have == tail && have < length ? tail : 0;
    }
    return 0;
}

size_t qn_utf8_printable(const char *text, size_t bytes, char *out, size_t capacity)
{
    size_t at = 0, written = 0;
    while (at < bytes) {
        char piece[8];
        uint32_t code;
        size_t length = qn_utf8_decode(text + at, bytes - at, &code), piece_bytes = length;
        if (length == 0 || code < 0x20 || code == 0x7F) {
            piece_bytes = (size_t)snprintf(piece, sizeof piece, "\\x%02x", (unsigned)(uint8_t)text[at]);
            length = 1;
        } else {
            memcpy(piece, text + at, length);
        }
        if (written + piece_bytes >= capacity)
            break;
        memcpy(out + written, piece, piece_bytes);
        written += piece_bytes;
        at += length;
    }
    out[written] = '\0';
    return at;
}
