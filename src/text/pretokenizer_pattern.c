/* A recursive descent over the pattern that writes the PCRE2 form as it goes. It is strict on purpose: a construct is
 * accepted only where Oniguruma and PCRE2 are known to agree on which text it matches.
 *
 * Two places need more than syntax. Under (?i:...) Oniguruma also matches a single character whose folding is several
 * ("ss" matches U+00DF), which PCRE2 does not: only ASCII is let through there, and none of the pairs that such
 * characters fold to. And a repeated group that can match nothing is left differently by the two engines. */
#include "text/pretokenizer_pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode.h"

enum { DEEPEST_GROUP = 64, LARGEST_REPEAT = 1000 };

typedef struct pattern {
    const char *text;
    size_t bytes, at;
    unsigned depth;
    bool caseless;
    uint32_t previous; /* the literal just before, 0 when there is none: for pairs that fold to one character */
    qn_buffer *out;
    qn_error *err;
} pattern;

/* What has been read, as the quantifier behind it sees it. */
typedef struct atom {
    bool can_be_empty;
    bool is_lookaround;
} atom;

static const char white_space[] = "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}"
                                  "\\x{202F}\\x{205F}\\x{3000}";

static qn_status refuse(pattern *p, size_t at, const char *reason)
{
    size_t shown = p->bytes - at < 12 ? p->bytes - at : 12;
    while (shown > 0 && shown < p->bytes - at && ((uint8_t)p->text[at + shown] & 0xC0) == 0x80)
        shown--;
    return qn_fail(p->err, QN_BAD_INPUT, "split pattern at byte %zu (\"%.*s\"): %s: quern cannot use this tokenizer",
                   at, (int)shown, p->text + at, reason);
}

static bool at_end(const pattern *p)
{
    return p->at >= p->bytes;
}

static bool looking_at(const pattern *p, const char *text)
{
    size_t length = strlen(text);
    return p->bytes - p->at >= length && memcmp(p->text + p->at, text, length) == 0;
}

static bool looking_at_one_of(const pattern *p, const char *characters)
{
    return !at_end(p) && p->text[p->at] != '\0' && strchr(characters, p->text[p->at]);
}

static bool skip(pattern *p, const char *text)
{
    if (!looking_at(p, text))
        return false;
    p->at += strlen(text);
    return true;
}

static uint32_t next_character(pattern *p)
{
    uint32_t code = 0;
    p->at += qn_utf8_decode(p->text + p->at, p->bytes - p->at, &code);
    return code;
}

static void write_character(uint32_t code, qn_buffer *out)
{
    qn_buffer_format(out, "\\x{%X}", (unsigned)code);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Up to `digits` hex digits; false when there is none. */
static bool read_hex(pattern *p, unsigned digits, uint32_t *code)
{
    *code = 0;
    unsigned read = 0;
    while (read < digits && !at_end(p) && hex_value(p->text[p->at]) >= 0) {
        *code = *code << 4 | (uint32_t)hex_value(p->text[p->at++]);
        read++;
    }
    return read > 0;
}

/* \xHH below 0x80 (above, Oniguruma reads a raw byte), \x{H...}, \uHHHH; p->at lies behind the x or u. */
static qn_status read_code_escape(pattern *p, size_t start, bool is_x, uint32_t *code)
{
    bool braced = is_x && skip(p, "{");
    bool ok = read_hex(p, braced ? 8 : is_x ? 2 : 4, code);
    if (braced)
        ok = ok && skip(p, "}");
    else if (is_x)
        ok = ok && *code < 0x80;
    else
        ok = ok && p->at - start == 6;
    char unused[4];
    if (!ok || qn_utf8_encode(*code, unused) == 0)
        return refuse(p, start, "this character escape is not supported");
    return QN_OK;
}

/* The character that an escape stands for; p->at lies behind the backslash at `start`. */
static qn_status read_escape(pattern *p, size_t start, uint32_t *code)
{
    if (at_end(p))
        return refuse(p, start, "nothing follows the backslash");
    uint32_t c = next_character(p);
    switch (c) {
    case 't':
        *code = 0x09;
        return QN_OK;
    case 'n':
        *code = 0x0A;
        return QN_OK;
    case 'v':
        *code = 0x0B;
        return QN_OK;
    case 'f':
        *code = 0x0C;
        return QN_OK;
    case 'r':
        *code = 0x0D;
        return QN_OK;
    case 'x':
    case 'u':
        return read_code_escape(p, start, c == 'x', code);
    default:
        break;
    }
    bool is_word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (is_word || c >= 0x80)
        return refuse(p, start, "this escape is not supported");
    *code = c;
    return QN_OK;
}

static bool is_category(const char *name, size_t length)
{
    static const char *const names[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
                                        "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
                                        "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return true;
    }
    return false;
}

static void write_category(const char *name, qn_buffer *out)
{
    qn_buffer_format(out, "\\p{%s}", name);
    qn_unicode_append_new(name, out);
}

/* The escapes that stand for a set: \s \S \d \D \p{...} \P{...}. *is_set tells whether it was one; if not, p->at is
 * left behind the backslash. Outside a class the set gets brackets of its own. */
static qn_status set_escape(pattern *p, size_t start, bool in_class, bool *is_set)
{
    *is_set = false;
    if (!looking_at_one_of(p, "sSdDpP"))
        return QN_OK;
    char letter = p->text[p->at];
    bool negated = letter == 'S' || letter == 'D' || letter == 'P';
    if (p->caseless)
        return refuse(p, start, "a set without regard to case is not supported");
    if (negated && in_class && letter != 'S')
        return refuse(p, start, "a negated set inside a class is not supported");
    *is_set = true;
    p->at++;
    char category[3] = "Nd";
    if (letter == 'p' || letter == 'P') {
        const char *open = p->text + p->at;
        const char *close = p->bytes > p->at ? memchr(open, '}', p->bytes - p->at) : NULL;
        size_t length = close ? (size_t)(close - open) : 0;
        if (length < 2 || *open != '{' || !is_category(open + 1, length - 1))
            return refuse(p, start, "only general categories are supported here");
        memset(category, 0, sizeof category);
        memcpy(category, open + 1, length - 1);
        p->at += length + 1;
    }
    if (!in_class)
        qn_buffer_text(p->out, negated ? "[^" : "[");
    if (letter == 'S' && in_class)
        qn_buffer_text(p->out, "\\P{WSpace}");
    else if (letter == 's' || letter == 'S')
        qn_buffer_text(p->out, white_space);
    else
        write_category(category, p->out);
    if (!in_class)
        qn_buffer_char(p->out, ']');
    return QN_OK;
}

/* One member of a class that is a character: where a range may begin or end. */
static qn_status class_character(pattern *p, uint32_t *code)
{
    size_t start = p->at;
    uint32_t c = next_character(p);
    if (c == '\\')
        return read_escape(p, start, code);
    if (c == '[' || (c == '&' && looking_at(p, "&")))
        return refuse(p, start, "a class inside a class is not supported");
    if (p->caseless && c >= 0x80)
        return refuse(p, start, "only ASCII is supported without regard to case");
    *code = c;
    return QN_OK;
}

/* A character or a range. A hyphen is itself only first, last or escaped. */
static qn_status class_member(pattern *p, bool is_first)
{
    size_t start = p->at;
    if (looking_at(p, "-") && !is_first && !looking_at(p, "-]"))
        return refuse(p, start, "a hyphen must be first, last or escaped");
    uint32_t first, last;
    qn_status status = class_character(p, &first);
    if (status != QN_OK)
        return status;
    write_character(first, p->out);
    if (!looking_at(p, "-") || looking_at(p, "-]"))
        return QN_OK;
    p->at++;
    if (at_end(p))
        return refuse(p, start, "the class does not end");
    status = class_character(p, &last);
    if (status != QN_OK)
        return status;
    if (last < first)
        return refuse(p, start, "the range runs backwards");
    qn_buffer_char(p->out, '-');
    write_character(last, p->out);
    return QN_OK;
}

/* p->at lies behind the opening bracket. */
static qn_status read_class(pattern *p)
{
    size_t start = p->at - 1;
    bool negated = skip(p, "^");
    if (negated && p->caseless)
        return refuse(p, start, "a negated class without regard to case is not supported");
    if (looking_at(p, "]"))
        return refuse(p, start, "an empty class is not supported");
    qn_buffer_text(p->out, negated ? "[^" : "[");
    for (bool is_first = true; !skip(p, "]"); is_first = false) {
        if (at_end(p))
            return refuse(p, start, "the class does not end");
        size_t member = p->at;
        bool is_set = false;
        if (skip(p, "\\")) {
            qn_status status = set_escape(p, member, true, &is_set);
            if (status != QN_OK)
                return status;
        }
        if (is_set) {
            if (looking_at(p, "-") && !looking_at(p, "-]"))
                return refuse(p, member, "a range cannot begin with a set");
            continue;
        }
        p->at = member;
        qn_status status = class_member(p, is_first);
        if (status != QN_OK)
            return status;
    }
    qn_buffer_char(p->out, ']');
    return QN_OK;
}

static bool folds_together(uint32_t first, uint32_t second)
{
    first |= 0x20; /* to lower case: only letters are compared */
    second |= 0x20;
    return (first == 's' && (second == 's' || second == 't')) ||
           (first == 'f' && (second == 'f' || second == 'i' || second == 'l'));
}

static qn_status literal(pattern *p, size_t start, uint32_t code)
{
    if (p->caseless && code >= 0x80)
        return refuse(p, start, "only ASCII is supported without regard to case");
    if (p->caseless && folds_together(p->previous, code))
        return refuse(p, start, "letters that fold to one character are not supported without regard to case");
    p->previous = code;
    write_character(code, p->out);
    return QN_OK;
}

static qn_status read_alternatives(pattern *p, bool *can_be_empty);

/* p->at lies behind the opening parenthesis. */
static qn_status read_group(pattern *p, atom *a)
{
    static const struct {
        const char *open;
        bool is_lookaround;
    } kinds[] = {{"?:", false}, {"?>", false}, {"?i:", false}, {"?=", true},
                 {"?!", true},  {"?<=", true}, {"?<!", true}};
    size_t start = p->at - 1;
    const char *open = "?:"; /* a plain group: its capture is of no use to anyone */
    bool outer_caseless = p->caseless;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (skip(p, kinds[i].open)) {
            open = kinds[i].open;
            a->is_lookaround = kinds[i].is_lookaround;
            break;
        }
    }
    if (looking_at(p, "?"))
        return refuse(p, start, "this kind of group is not supported");
    if (++p->depth > DEEPEST_GROUP)
        return refuse(p, start, "groups are nested too deep");
    if (open[1] == 'i')
        p->caseless = true;
    qn_buffer_char(p->out, '(');
    qn_buffer_text(p->out, open);
    p->previous = 0;
    bool can_be_empty = false;
    qn_status status = read_alternatives(p, &can_be_empty);
    if (status != QN_OK)
        return status;
    if (!skip(p, ")"))
        return refuse(p, start, "the group does not end");
    qn_buffer_char(p->out, ')');
    p->depth--;
    p->caseless = outer_caseless;
    p->previous = 0;
    a->can_be_empty = can_be_empty || a->is_lookaround;
    return QN_OK;
}

static qn_status read_atom(pattern *p, atom *a)
{
    *a = (atom){0};
    size_t start = p->at;
    uint32_t c = next_character(p);
    switch (c) {
    case '(':
        return read_group(p, a);
    case '[':
        p->previous = 0;
        return read_class(p);
    case '.':
        p->previous = 0;
        qn_buffer_text(p->out, "[^\\x{A}]");
        return QN_OK;
    case '^':
    case '$':
        return refuse(p, start, "an anchor is not supported");
    case '*':
    case '+':
    case '?':
    case '{':
        return refuse(p, start, "nothing stands here that could be repeated");
    case '\\': {
        bool is_set;
        qn_status status = set_escape(p, start, false, &is_set);
        if (status != QN_OK)
            return status;
        if (is_set) {
            p->previous = 0;
            return QN_OK;
        }
        status = read_escape(p, start, &c);
        return status == QN_OK ? literal(p, start, c) : status;
    }
    default:
        return literal(p, start, c);
    }
}

/* A decimal of at most four digits; -1 when there is none. */
static int read_count(pattern *p)
{
    int count = -1;
    for (int digits = 0; digits < 4 && !at_end(p) && p->text[p->at] >= '0' && p->text[p->at] <= '9'; digits++)
        count = (count < 0 ? 0 : count) * 10 + (p->text[p->at++] - '0');
    return count;
}

/* {n} {n,} {n,m} {,m}; p->at lies behind the brace. *max is -1 when there is none. */
static qn_status read_interval(pattern *p, int *max)
{
    size_t start = p->at - 1;
    int min = read_count(p);
    *max = min;
    bool ranged = skip(p, ",");
    if (ranged)
        *max = read_count(p);
    if (!skip(p, "}") || (min < 0 && *max < 0) || (*max >= 0 && *max < min) || min > LARGEST_REPEAT ||
        *max > LARGEST_REPEAT)
        return refuse(p, start, "this repeat is not supported (at most 1000 times)");
    qn_buffer_format(p->out, ranged ? "{%d," : "{%d", min < 0 ? 0 : min);
    if (ranged && *max >= 0)
        qn_buffer_format(p->out, "%d", *max);
    qn_buffer_char(p->out, '}');
    return QN_OK;
}

/* The quantifier behind an atom, if there is one. */
static qn_status read_quantifier(pattern *p, atom *a)
{
    size_t start = p->at;
    if (!looking_at_one_of(p, "*+?{"))
        return QN_OK;
    p->previous = 0;
    char kind = p->text[p->at++];
    int max = kind == '?' ? 1 : -1;
    bool zero_times = kind != '+';
    if (kind == '{') {
        zero_times = looking_at(p, "0") || looking_at(p, ",");
        qn_status status = read_interval(p, &max);
        if (status != QN_OK)
            return status;
    } else {
        qn_buffer_char(p->out, kind);
        if (looking_at_one_of(p, "?+"))
            qn_buffer_char(p->out, p->text[p->at++]);
    }
    if (looking_at_one_of(p, "*+?{"))
        return refuse(p, start, "a repeat of a repeat is not supported");
    if (a->is_lookaround)
        return refuse(p, start, "a repeated lookaround is not supported");
    if (a->can_be_empty && max != 1)
        return refuse(p, start, "a repeat of something that can be empty is not supported");
    a->can_be_empty = a->can_be_empty || zero_times;
    return QN_OK;
}

static qn_status read_sequence(pattern *p, bool *can_be_empty)
{
    *can_be_empty = true;
    p->previous = 0;
    while (!at_end(p) && p->text[p->at] != '|' && p->text[p->at] != ')') {
        atom a;
        qn_status status = read_atom(p, &a);
        if (status == QN_OK)
            status = read_quantifier(p, &a);
        if (status != QN_OK)
            return status;
        *can_be_empty = *can_be_empty && a.can_be_empty;
    }
    return QN_OK;
}

static qn_status read_alternatives(pattern *p, bool *can_be_empty)
{
    *can_be_empty = false;
    for (;;) {
        bool empty;
        qn_status status = read_sequence(p, &empty);
        if (status != QN_OK)
            return status;
        *can_be_empty = *can_be_empty || empty;
        if (!skip(p, "|"))
            return QN_OK;
        qn_buffer_char(p->out, '|');
    }
}

qn_status qn_pattern_translate(const char *text, size_t bytes, qn_buffer *out, qn_error *err)
{
    if (bytes > QN_PATTERN_MAX_BYTES)
        return qn_fail(err, QN_BAD_INPUT, "split pattern: it has %zu bytes: at most %d are supported", bytes,
                       QN_PATTERN_MAX_BYTES);
    pattern p = {.text = text, .bytes = bytes, .out = out, .err = err};
    bool can_be_empty;
    qn_status status = read_alternatives(&p, &can_be_empty);
    if (status != QN_OK)
        return status;
    if (!at_end(&p))
        return refuse(&p, p.at, "there is no group to end here");
    return out->failed ? qn_fail_memory(err, "split pattern", out->size) : QN_OK;
}

void qn_pattern_literal(const char *text, size_t bytes, qn_buffer *out)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0;
        at += qn_utf8_decode(text + at, bytes - at, &code);
        write_character(code, out);
    }
}
