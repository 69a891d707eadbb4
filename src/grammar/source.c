#include "grammar/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

qn_status qn_source_check(const qn_source *source, qn_error *err)
{
    if (source->bytes > QN_SOURCE_MAX_BYTES) {
        return qn_fail(err, QN_USAGE, "%s: longer than %d bytes: make it shorter", source->what, QN_SOURCE_MAX_BYTES);
    }
    uint32_t code;
    for (size_t at = 0; at < source->bytes;) {
        size_t length = qn_utf8_decode(source->text + at, source->bytes - at, &code);
        if (length == 0) {
            return qn_source_fail(source, at, err, "invalid UTF-8: save the grammar as UTF-8");
        }
        at += length;
    }
    return QN_OK;
}

qn_status qn_source_fail(const qn_source *source, size_t at, qn_error *err, const char *format, ...)
{
    char reason[512];
    size_t line = 1, column = 1;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < at && i < source->bytes; i++) {
        if (source->text[i] == '\n') {
            line++;
            column = 1;
        } else {
            column += ((unsigned char)source->text[i] & 0xC0) != 0x80;
        }
    }
    return qn_fail(err, QN_USAGE, "%s: line %zu, column %zu: %s", source->what, line, column, reason);
}

char qn_source_peek(const qn_source *source, size_t ahead)
{
    return source->bytes - source->at > ahead ? source->text[source->at + ahead] : '\0';
}

bool qn_source_starts(const qn_source *source, const char *text)
{
    size_t length = strlen(text);
    return source->bytes - source->at >= length && memcmp(source->text + source->at, text, length) == 0;
}

bool qn_source_hex(qn_source *source, size_t digits, uint32_t *code)
{
    uint64_t value = 0;
    char encoded[4];
    for (size_t i = 0; i < digits; i++) {
        char c = qn_source_peek(source, i);
        char lower = (char)(c | 0x20);
        bool decimal = c >= '0' && c <= '9';
        if (!decimal && (lower < 'a' || lower > 'f')) {
            return false;
        }
        value = value * 16 + (uint64_t)(decimal ? c - '0' : lower - 'a' + 10);
    }
    if (value > 0x10FFFF || qn_utf8_encode((uint32_t)value, encoded) == 0) {
        return false;
    }
    source->at += digits;
    *code = (uint32_t)value;
    return true;
}

qn_status qn_source_char(qn_source *source, uint32_t *code, qn_error *err)
{
    static const char letters[] = "ntrfv", meanings[] = "\n\t\r\f\v";
    if (source->text[source->at] != '\\') {
        source->at += qn_utf8_decode(source->text + source->at, source->bytes - source->at, code);
        return QN_OK;
    }
    size_t start = source->at;
    char c = qn_source_peek(source, 1);
    const char *known = c != '\0' ? strchr(letters, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U') {
        size_t digits = c == 'x' ? 2 : (c == 'u' ? 4 : 8);
        source->at += 2;
        return qn_source_hex(source, digits, code)
                   ? QN_OK
                   : qn_source_fail(source, start, err,
                                    "\\%c is not followed by the %zu hexadecimal digits of a character: complete it", c,
                                    digits);
    }
    char lower = (char)(c | 0x20);
    bool punctuation = c > ' ' && c < 0x7F && (c < '0' || c > '9') && (lower < 'a' || lower > 'z');
    if (known == NULL && !punctuation) {
        return qn_source_fail(source, start, err,
                              "unknown escape: there are \\n \\t \\r \\f \\v \\x \\u \\U and escaped punctuation");
    }
    *code = known != NULL ? (uint32_t)meanings[known - letters] : (uint32_t)c;
    source->at += 2;
    return QN_OK;
}

bool qn_source_number(qn_source *source, size_t max, size_t *value)
{
    size_t start = source->at;
    *value = 0;
    for (char c = qn_source_peek(source, 0); c >= '0' && c <= '9'; c = qn_source_peek(source, 0)) {
        *value = *value > max ? max + 1 : *value * 10 + (size_t)(c - '0');
        source->at++;
    }
    *value = *value > max ? max + 1 : *value;
    return source->at > start;
}
