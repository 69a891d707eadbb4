/* Strings are unescaped by the rules of Python's unicode-escape codec, numbers by those of its int and float. */
#include "text/jinja/literal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/character.h"

typedef struct text {
    char *data;
    size_t bytes;
} text;

static void put(text *t, const char *data, size_t bytes)
{
    memcpy(t->data + t->bytes, data, bytes);
    t->bytes += bytes;
}

static qn_status put_code(qn_compiler *c, text *t, uint32_t code, size_t at)
{
    char encoded[4];
    size_t bytes = qn_utf8_encode(code, encoded);
    if (bytes == 0)
        return qn_compile_fail(c, at, "U+%04X in a string is a surrogate, or no character: write the character itself",
                               (unsigned)code);
    put(t, encoded, bytes);
    return QN_OK;
}

static unsigned hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* \xHH, \uHHHH, \UHHHHHHHH: `digits` hex digits from *at on. */
static qn_status hex_escape(qn_compiler *c, size_t *at, size_t end, size_t digits, text *t)
{
    uint32_t code = 0;
    size_t start = *at;
    for (; *at < start + digits; ++*at) {
        if (*at >= end || !isxdigit((unsigned char)c->source[*at]))
            return qn_compile_fail(c, start - 2, "truncated \\%c escape in a string", c->source[start - 1]);
        code = code << 4 | hex_value(c->source[*at]);
    }
    return put_code(c, t, code, start - 2);
}

/* A backslash before a character beyond ASCII: Python has spelt the character as an escape before it looks for escapes,
 * so that the backslash escapes that escape's own, and the rest stays as text. */
static void escaped_beyond_ascii(qn_compiler *c, size_t *at, size_t end, text *t)
{
    uint32_t code;
    char spelt[QN_CODE_ESCAPE_BYTES];
    *at += qn_utf8_decode(c->source + *at, end - *at, &code);
    put(t, spelt, qn_code_escape(code, spelt));
}

/* What follows a backslash, from *at on. */
static qn_status escape(qn_compiler *c, size_t *at, size_t end, text *t)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    char letter = c->source[*at];
    const char *simple = letter ? strchr(from, letter) : NULL;
    if ((unsigned char)letter >= 0x80) {
        escaped_beyond_ascii(c, at, end, t);
        return QN_OK;
    }
    ++*at;
    if (simple) {
        put(t, &to[simple - from], 1);
    } else if (letter == '\n') {
        /* a line that goes on */
    } else if (letter >= '0' && letter <= '7') {
        uint32_t code = (uint32_t)(letter - '0');
        for (int i = 0; i < 2 && *at < end && c->source[*at] >= '0' && c->source[*at] <= '7'; ++i)
            code = code << 3 | (uint32_t)(c->source[(*at)++] - '0');
        return put_code(c, t, code, *at);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
        return hex_escape(c, at, end, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, t);
    } else if (letter == 'N') {
        return qn_compile_fail(c, *at - 2, "\\N{...} in a string is not supported: write the character itself");
    } else {
        put(t, "\\", 1);
        put(t, &letter, 1);
    }
    return QN_OK;
}

qn_status qn_lex_string(qn_compiler *c, size_t at, size_t *end, qn_token *token)
{
    char quote = c->source[at];
    size_t start = at + 1, stop = start;
    bool plain = true;
    for (; c->source[stop] != quote; ++stop) {
        plain = plain && c->source[stop] != '\\';
        stop += c->source[stop] == '\\';
    }
    *end = stop + 1;
    text t = {.data = NULL};
    if (!plain) {
        t.data = qn_compile_alloc(c, 3 * (stop - start) + 16, 1); /* "\é" grows from 3 bytes to 4 */
        if (!t.data)
            return qn_compile_status(c);
        for (size_t i = start; i < stop;) {
            if (c->source[i] == '\\') {
                ++i;
                QN_TRY(escape(c, &i, stop, &t));
            } else {
                put(&t, &c->source[i++], 1);
            }
        }
    }
    token->kind = QN_TOKEN_STRING;
    const qn_str *s = plain ? qn_compile_str(c, c->source + start, stop - start) : qn_compile_str(c, t.data, t.bytes);
    if (!s)
        return qn_compile_status(c);
    token->value = qn_string(s);
    return QN_OK;
}

/* Behind digits that pass `valid`, with single underscores before them (not before the first unless `leading`). */
static size_t digits_end(const qn_compiler *c, size_t at, const char *valid, bool leading)
{
    for (;;) {
        size_t next = at + (leading && at < c->bytes && c->source[at] == '_');
        char digit = next < c->bytes ? c->source[next] : '\0';
        if (!digit || !strchr(valid, tolower((unsigned char)digit)))
            return at;
        at = next + 1;
        leading = true;
    }
}

/* The literal without underscores, NUL-terminated. */
static char *clean_digits(qn_compiler *c, size_t at, size_t end)
{
    char *digits = qn_compile_alloc(c, end - at + 1, 1);
    size_t count = 0;
    for (size_t i = at; digits && i < end; ++i) {
        if (c->source[i] != '_')
            digits[count++] = c->source[i];
    }
    return digits;
}

/* Behind the float at `at`; `at` itself when there is none. After a dot there is none, so that a.0.1 are two items. */
static size_t float_end(const qn_compiler *c, size_t at)
{
    static const char decimal[] = "0123456789";
    size_t whole = digits_end(c, at, decimal, false), end = whole;
    if (at > 0 && c->source[at - 1] == '.')
        return at;
    if (whole < c->bytes && c->source[whole] == '.') {
        size_t part = digits_end(c, whole + 1, decimal, false);
        end = part > whole + 1 ? part : whole;
    }
    if (end < c->bytes && (c->source[end] == 'e' || c->source[end] == 'E')) {
        size_t sign = end + 1;
        sign += sign < c->bytes && (c->source[sign] == '+' || c->source[sign] == '-');
        size_t exponent = digits_end(c, sign, decimal, false);
        end = exponent > sign ? exponent : end;
    }
    return end > whole ? end : at;
}

static qn_status lex_float(qn_compiler *c, size_t at, size_t end, qn_token *token)
{
    const char *digits = clean_digits(c, at, end);
    if (!digits)
        return qn_compile_status(c);
    token->kind = QN_TOKEN_FLOAT;
    token->value = qn_float(strtod(digits, NULL));
    return isfinite(token->value.real) ? QN_OK : qn_compile_fail(c, at, "this number is too large");
}

/* Base and first digit of the integer at `at`; decimal zeros may only be followed by zeros. */
static size_t integer_end(const qn_compiler *c, size_t at, unsigned *base, size_t *first)
{
    static const char digits_of[] = "0123456789abcdef";
    char valid[17] = "";
    char letter = (char)tolower(at + 1 < c->bytes ? (unsigned char)c->source[at + 1] : 0);
    *base = 10;
    *first = at;
    if (c->source[at] == '0' && (letter == 'b' || letter == 'o' || letter == 'x')) {
        unsigned named = letter == 'b' ? 2 : letter == 'o' ? 8 : 16;
        memcpy(valid, digits_of, named);
        size_t end = digits_end(c, at + 2, valid, true);
        if (end > at + 2) {
            *base = named;
            *first = at + 2;
            return end;
        }
    }
    return digits_end(c, at, c->source[at] == '0' ? "0" : "0123456789", false);
}

qn_status qn_lex_number(qn_compiler *c, size_t at, size_t *end, qn_token *token)
{
    unsigned base;
    size_t first;
    int64_t narrow;
    qn_integer wide;
    *end = float_end(c, at);
    if (*end > at)
        return lex_float(c, at, *end, token);
    *end = integer_end(c, at, &base, &first);
    const char *digits = clean_digits(c, first, *end);
    if (!digits)
        return qn_compile_status(c);
    token->kind = QN_TOKEN_INTEGER;
    if (!qn_integer_parse(digits, strlen(digits), base, &wide))
        return qn_compile_fail(c, at, "this number has more than %d bits", QN_INTEGER_BITS);
    token->value = qn_int(0);
    if (qn_integer_fits(&wide, &narrow)) {
        token->value.integer = narrow;
        return QN_OK;
    }
    qn_integer *kept = qn_compile_alloc(c, 1, sizeof *kept);
    if (!kept)
        return qn_compile_status(c);
    *kept = wide;
    token->value = (qn_value){.kind = QN_VALUE_BIG_INT, .big = kept};
    return QN_OK;
}
