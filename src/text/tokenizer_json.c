#include "text/tokenizer_json.h"

#include <string.h>

#include "base/utf8.h"

enum { DEEPEST_NESTING = 512 };

qn_status qn_json_cursor_fail(const qn_json_cursor *c, const char *reason)
{
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < c->at && i < c->bytes; i++) {
        if (c->text[i] == '\n') {
            line++;
            line_start = i + 1;
        }
    }
    return qn_fail(c->err, QN_BAD_INPUT, "%s at line %zu, byte %zu: the file is damaged", reason, line,
                   c->at - line_start + 1);
}

static void skip_space(qn_json_cursor *c)
{
    while (c->at < c->bytes &&
           (c->text[c->at] == ' ' || c->text[c->at] == '\n' || c->text[c->at] == '\t' || c->text[c->at] == '\r'))
        c->at++;
}

char qn_json_cursor_peek(qn_json_cursor *c)
{
    skip_space(c);
    return c->at < c->bytes ? c->text[c->at] : '\0';
}

/* Reads the character if it is the next one. */
static bool take(qn_json_cursor *c, char expected)
{
    if (qn_json_cursor_peek(c) != expected || c->at >= c->bytes)
        return false;
    c->at++;
    return true;
}

qn_status qn_json_cursor_open(qn_json_cursor *c, char bracket)
{
    if (!take(c, bracket))
        return qn_json_cursor_fail(c, bracket == '{' ? "an object is expected" : "an array is expected");
    c->is_first = true;
    return QN_OK;
}

/* The comma between members or elements, or the closing bracket. */
static qn_status next_or_close(qn_json_cursor *c, char bracket, bool *more)
{
    bool was_first = c->is_first;
    c->is_first = false;
    *more = !take(c, bracket);
    if (*more && !was_first && !take(c, ','))
        return qn_json_cursor_fail(c, "a comma or a closing bracket is expected");
    return QN_OK;
}

qn_status qn_json_cursor_member(qn_json_cursor *c, bool *more, qn_json_slice *key, qn_buffer *storage)
{
    qn_status status = next_or_close(c, '}', more);
    if (status != QN_OK || !*more)
        return status;
    status = qn_json_cursor_string(c, key, storage);
    if (status == QN_OK && !take(c, ':'))
        return qn_json_cursor_fail(c, "a colon is expected");
    return status;
}

qn_status qn_json_cursor_element(qn_json_cursor *c, bool *more)
{
    return next_or_close(c, ']', more);
}

/* Four hex digits; false when they are not there. */
static bool read_unit(qn_json_cursor *c, uint32_t *unit)
{
    *unit = 0;
    if (c->bytes - c->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        char d = c->text[c->at++];
        unsigned value = d >= '0' && d <= '9'   ? (unsigned)(d - '0')
                         : d >= 'a' && d <= 'f' ? (unsigned)(d - 'a') + 10
                         : d >= 'A' && d <= 'F' ? (unsigned)(d - 'A') + 10
                                                : 16;
        if (value == 16)
            return false;
        *unit = *unit << 4 | value;
    }
    return true;
}

/* \uXXXX, or two of them that make a character beyond U+FFFF; c->at lies behind the u. */
static bool read_code(qn_json_cursor *c, uint32_t *code)
{
    uint32_t low;
    if (!read_unit(c, code))
        return false;
    if (*code < 0xD800 || *code > 0xDFFF)
        return true;
    if (*code > 0xDBFF || c->bytes - c->at < 2 || memcmp(c->text + c->at, "\\u", 2) != 0)
        return false;
    c->at += 2;
    if (!read_unit(c, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

/* c->at lies behind the backslash. */
static bool read_escape(qn_json_cursor *c, qn_buffer *storage)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (c->at >= c->bytes)
        return false;
    char letter = c->text[c->at++];
    if (letter == 'u') {
        uint32_t code;
        char encoded[4];
        if (!read_code(c, &code))
            return false;
        qn_buffer_append(storage, encoded, qn_utf8_encode(code, encoded));
        return true;
    }
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        qn_buffer_char(storage, meanings[found - letters]);
    return found != NULL;
}

/* Moves over the characters that stand for themselves. */
static bool read_plain(qn_json_cursor *c)
{
    while (c->at < c->bytes) {
        uint8_t byte = (uint8_t)c->text[c->at];
        if (byte == '"' || byte == '\\')
            return true;
        uint32_t code;
        size_t length = byte < 0x20 ? 0 : byte < 0x80 ? 1 : qn_utf8_decode(c->text + c->at, c->bytes - c->at, &code);
        if (length == 0)
            return false;
        c->at += length;
    }
    return false;
}

qn_status qn_json_cursor_string(qn_json_cursor *c, qn_json_slice *out, qn_buffer *storage)
{
    if (!take(c, '"'))
        return qn_json_cursor_fail(c, "a string is expected");
    size_t start = c->at;
    if (!read_plain(c))
        return qn_json_cursor_fail(c, "the string is not valid");
    if (c->text[c->at] == '"') {
        *out = (qn_json_slice){c->text + start, c->at++ - start};
        return QN_OK;
    }
    qn_buffer_clear(storage);
    qn_buffer_append(storage, c->text + start, c->at - start);
    while (c->text[c->at] == '\\') {
        c->at++;
        start = c->at;
        if (!read_escape(c, storage))
            return qn_json_cursor_fail(c, "the escape is not valid");
        start = c->at;
        if (!read_plain(c))
            return qn_json_cursor_fail(c, "the string is not valid");
        qn_buffer_append(storage, c->text + start, c->at - start);
    }
    c->at++;
    if (storage->failed)
        return qn_fail_memory(c->err, "a string", storage->size);
    *out = (qn_json_slice){qn_buffer_string(storage), storage->size};
    return QN_OK;
}

qn_status qn_json_cursor_integer(qn_json_cursor *c, int64_t *out)
{
    bool negative = take(c, '-'); /* which skips white space before it, or before the digits */
    size_t start = c->at;
    int64_t value = 0;
    while (c->at < c->bytes && c->text[c->at] >= '0' && c->text[c->at] <= '9' && c->at - start < 18)
        value = value * 10 + (c->text[c->at++] - '0');
    bool leading_zero = c->at - start > 1 && c->text[start] == '0';
    bool goes_on = c->at < c->bytes && strchr("0123456789.eE", c->text[c->at]) && c->text[c->at] != '\0';
    if (c->at == start || leading_zero || goes_on)
        return qn_json_cursor_fail(c, "an integer is expected");
    *out = negative ? -value : value;
    return QN_OK;
}

/* Moves over a string without looking into it; c->at lies on its quote. */
static bool skip_string(qn_json_cursor *c)
{
    for (c->at++; c->at < c->bytes; c->at++) {
        char byte = c->text[c->at];
        if (byte == '\\') {
            c->at++;
        } else if (byte == '"') {
            c->at++;
            return true;
        }
    }
    c->at = c->bytes;
    return false;
}

qn_status qn_json_cursor_skip(qn_json_cursor *c, qn_json_slice *out)
{
    skip_space(c);
    size_t start = c->at, depth = 0;
    while (c->at < c->bytes) {
        char byte = c->text[c->at];
        if (byte == '"') {
            if (!skip_string(c))
                return qn_json_cursor_fail(c, "the string does not end");
            if (depth == 0)
                break;
            continue;
        }
        bool opens = byte == '{' || byte == '[', closes = byte == '}' || byte == ']';
        bool separates = byte == ',' || byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
        if (depth == 0 && (closes || separates))
            break; /* the end of a number or a word */
        c->at++;
        if (opens && ++depth > DEEPEST_NESTING)
            return qn_json_cursor_fail(c, "the nesting is too deep");
        if (closes && --depth == 0)
            break;
    }
    if (c->at == start || depth > 0)
        return qn_json_cursor_fail(c, "a value is expected");
    *out = (qn_json_slice){c->text + start, c->at - start};
    return QN_OK;
}

qn_status qn_json_cursor_end(qn_json_cursor *c)
{
    skip_space(c);
    return c->at == c->bytes ? QN_OK : qn_json_cursor_fail(c, "something follows the end");
}
