/* Characters of a regex: literals, escapes, classes. */
#include <string.h>

#include "base/utf8.h"
#include "grammar/regex_tree.h"

/* The set in p->set as a node. */
static qn_regex_node *take_set(qn_regex_parser *p, size_t at, bool negated)
{
    qn_char_set_normalize(&p->set);
    if (p->flags & QN_REGEX_IGNORE_CASE) {
        qn_char_set_fold(&p->set);
    }
    if (negated) {
        qn_char_set_complement(&p->set);
    }
    qn_regex_node *node = qn_regex_node_new(p, QN_REGEX_SET, at);
    qn_char_range *ranges = qn_arena_alloc(p->arena, p->set.count, sizeof *ranges);
    if (p->set.failed || node == NULL || ranges == NULL) {
        return qn_regex_out_of_memory(p);
    }
    if (p->set.count > 0) {
        memcpy(ranges, p->set.ranges, p->set.count * sizeof *ranges);
    }
    node->ranges = ranges;
    node->count = p->set.count;
    return node;
}

qn_regex_node *qn_regex_read_dot(qn_regex_parser *p)
{
    p->set.count = 0;
    if (!(p->flags & QN_REGEX_DOT_ALL)) {
        qn_char_set_add_ranges(&p->set, (qn_char_range[]){{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}, 3);
    }
    qn_char_set_complement(&p->set);
    size_t at = p->at++;
    return take_set(p, at, false);
}

/* One character as it stands. */
static bool read_plain(qn_regex_parser *p, uint32_t *code)
{
    size_t length = qn_utf8_decode(p->text + p->at, p->bytes - p->at, code);
    if (length == 0) {
        qn_regex_refuse(p, p->at, "invalid UTF-8: send text");
        return false;
    }
    p->at += length;
    return true;
}

qn_regex_node *qn_regex_read_char(qn_regex_parser *p)
{
    size_t at = p->at;
    uint32_t code = 0;
    if (!read_plain(p, &code)) {
        return NULL;
    }
    p->set.count = 0;
    qn_char_set_add(&p->set, code, code);
    return take_set(p, at, false);
}

/* ---- escapes ---- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Exactly so many hexadecimal digits at p->at; false (and no error) when there are fewer. */
static bool read_hex(qn_regex_parser *p, size_t digits, uint32_t *code)
{
    uint32_t value = 0;
    if (p->bytes - p->at < digits) {
        return false;
    }
    for (size_t i = 0; i < digits; i++) {
        int digit = hex_value(p->text[p->at + i]);
        if (digit < 0) {
            return false;
        }
        value = value * 16 + (uint32_t)digit;
    }
    p->at += digits;
    *code = value;
    return true;
}

/* {H...} at p->at, of a character. */
static bool read_braced_hex(qn_regex_parser *p, uint32_t *code)
{
    uint32_t value = 0;
    size_t at = p->at + 1;
    for (; at < p->bytes && hex_value(p->text[at]) >= 0 && value <= QN_CHAR_MAX; at++) {
        value = value * 16 + (uint32_t)hex_value(p->text[at]);
    }
    if (at == p->at + 1 || at >= p->bytes || p->text[at] != '}' || value > QN_CHAR_MAX) {
        return false;
    }
    p->at = at + 1;
    *code = value;
    return true;
}

/* Behind \u or \x. A pair of surrogates is one character. */
static bool read_code(qn_regex_parser *p, size_t start, char kind, uint32_t *code)
{
    bool braced = p->at < p->bytes && p->text[p->at] == '{';
    if (!(braced ? read_braced_hex(p, code) : read_hex(p, kind == 'u' ? 4 : 2, code))) {
        qn_regex_refuse(p, start, "\\%c is not followed by %s hexadecimal digits or by {...}: complete it", kind,
                        kind == 'u' ? "four" : "two");
        return false;
    }
    if (*code >= 0xD800 && *code < 0xDC00 && p->bytes - p->at >= 6 && memcmp(p->text + p->at, "\\u", 2) == 0) {
        size_t before = p->at;
        uint32_t low = 0;
        p->at += 2;
        if (read_hex(p, 4, &low) && low >= 0xDC00 && low <= QN_SURROGATE_LAST) {
            *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
        } else {
            p->at = before;
        }
    }
    if (*code >= QN_SURROGATE_FIRST && *code <= QN_SURROGATE_LAST) {
        qn_regex_refuse(p, start, "half a surrogate pair is no character: write both halves or \\u{...}");
        return false;
    }
    return true;
}

/* \p{...}, \P{...}, \pL: adds to the set. `start` is the backslash. */
static bool add_property(qn_regex_parser *p, size_t start, bool negated, qn_char_set *into)
{
    const char *name = p->text + p->at;
    size_t bytes = 1, taken = 1;
    if (p->at < p->bytes && *name == '{') {
        const char *end = memchr(name, '}', p->bytes - p->at);
        name++;
        bytes = end != NULL ? (size_t)(end - name) : 0;
        taken = bytes + 2;
    }
    if (p->at >= p->bytes || bytes == 0) {
        qn_regex_refuse(p, start, "\\p names no property: write \\p{L}");
        return false;
    }
    qn_char_set set = {0};
    bool known = qn_char_property_add(name, bytes, &set);
    if (!known) {
        qn_regex_refuse(p, start,
                        "\\p{%.*s}: unknown property: there are general categories, Any, ASCII and White_Space",
                        (int)(bytes < 60 ? bytes : 60), name);
    }
    if (negated) {
        qn_char_set_complement(&set);
    }
    qn_char_set_add_ranges(into, set.ranges, set.count);
    into->failed = into->failed || set.failed;
    qn_char_set_free(&set);
    p->at += taken;
    return known;
}

/* \d, \w, \s or its negation `kind`, as a set. */
static void add_shorthand(char kind, qn_char_set *into)
{
    qn_char_set set = {0};
    char lower = (char)(kind | 0x20);
    if (lower == 'd') {
        qn_char_set_add_digits(&set);
    } else if (lower == 'w') {
        qn_char_set_add_word(&set);
    } else {
        qn_char_set_add_space(&set);
    }
    if (kind != lower) {
        qn_char_set_complement(&set);
    }
    qn_char_set_add_ranges(into, set.ranges, set.count);
    into->failed = into->failed || set.failed;
    qn_char_set_free(&set);
}

/* The escapes of one character that are the same in and outside a class; p->at is behind the letter. */
static bool read_simple_escape(qn_regex_parser *p, size_t start, char letter, uint32_t *code)
{
    static const char letters[] = "ntrfv", meanings[] = "\n\t\r\f\v";
    const char *known = letter != '\0' ? strchr(letters, letter) : NULL;
    if (known != NULL) {
        *code = (uint32_t)meanings[known - letters];
        return true;
    }
    if (letter == 'x' || letter == 'u') {
        return read_code(p, start, letter, code);
    }
    bool digit_follows = p->at < p->bytes && p->text[p->at] >= '0' && p->text[p->at] <= '9';
    if (letter == '0' && !digit_follows) {
        *code = 0;
        return true;
    }
    if (letter == 'c') {
        char control = p->at < p->bytes ? (char)(p->text[p->at] | 0x20) : '\0';
        if (control >= 'a' && control <= 'z') {
            p->at++;
            *code = (uint32_t)(control & 0x1F);
            return true;
        }
        qn_regex_refuse(p, start, "\\c is not followed by a letter: complete it");
        return false;
    }
    if ((letter >= '0' && letter <= '9') || (letter | 0x20) == 'k') {
        qn_regex_refuse(p, start, "a backreference or octal escape (\\%c) cannot be enforced: write the text out",
                        letter);
        return false;
    }
    if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
        qn_regex_refuse(p, start,
                        letter == 'b' || letter == 'B' ? "a word boundary (\\%c) cannot be enforced: leave it out"
                                                       : "\\%c is no escape: write the character itself",
                        letter);
        return false;
    }
    p->at--; /* escaped punctuation, or a character beyond ASCII */
    return read_plain(p, code);
}

/* An escape at p->at: one character (*single) or a set that was added to `into`. */
static bool read_escape(qn_regex_parser *p, bool in_class, bool *single, uint32_t *code, qn_char_set *into)
{
    size_t start = p->at;
    if (p->bytes - p->at < 2) {
        qn_regex_refuse(p, start, "nothing behind the backslash: escape it (\\\\) or complete it");
        return false;
    }
    char letter = p->text[p->at + 1];
    p->at += 2;
    *single = false;
    if (letter != '\0' && strchr("dDwWsS", letter) != NULL) {
        add_shorthand(letter, into);
        return true;
    }
    if (letter == 'p' || letter == 'P') {
        return add_property(p, start, letter == 'P', into);
    }
    *single = true;
    if (in_class && letter == 'b') {
        *code = '\b';
        return true;
    }
    return read_simple_escape(p, start, letter, code);
}

qn_regex_node *qn_regex_read_escape(qn_regex_parser *p)
{
    size_t at = p->at;
    bool single = false;
    uint32_t code = 0;
    p->set.count = 0;
    if (!read_escape(p, false, &single, &code, &p->set)) {
        return NULL;
    }
    if (single) {
        qn_char_set_add(&p->set, code, code);
    }
    return take_set(p, at, false);
}

/* ---- classes ---- */

static bool looks_at(const qn_regex_parser *p, size_t at, const char *text)
{
    size_t length = strlen(text);
    return p->bytes - at >= length && memcmp(p->text + at, text, length) == 0;
}

/* One member of a class: a character (*single) or a set, which was added. */
static bool read_member(qn_regex_parser *p, bool *single, uint32_t *code)
{
    if (p->text[p->at] == '\\') {
        return read_escape(p, true, single, code, &p->set);
    }
    *single = true;
    return read_plain(p, code);
}

/* A member, and a range when - and another follow. */
static bool read_range(qn_regex_parser *p)
{
    size_t at = p->at;
    bool single = false, last_single = false;
    uint32_t first = 0, last = 0;
    if (!read_member(p, &single, &first)) {
        return false;
    }
    bool range = p->bytes - p->at >= 2 && p->text[p->at] == '-' && p->text[p->at + 1] != ']';
    if (!range) {
        if (single) {
            qn_char_set_add(&p->set, first, first);
        }
        return true;
    }
    p->at++;
    if (!read_member(p, &last_single, &last)) {
        return false;
    }
    if (!single || !last_single) {
        qn_regex_refuse(p, at, "a range ends in a set of characters: escape the - as \\-");
        return false;
    }
    if (first > last) {
        qn_regex_refuse(p, at, "the range runs backwards: put the smaller character first");
        return false;
    }
    qn_char_set_add(&p->set, first, last);
    return true;
}

qn_regex_node *qn_regex_read_class(qn_regex_parser *p)
{
    size_t start = p->at++;
    bool negated = p->at < p->bytes && p->text[p->at] == '^';
    p->at += negated;
    if (p->at < p->bytes && p->text[p->at] == ']') {
        return qn_regex_refuse(p, start, "an empty class: escape the ] as \\], or give the class members");
    }
    p->set.count = 0;
    while (p->at < p->bytes && p->text[p->at] != ']') {
        if (looks_at(p, p->at, "[:")) {
            return qn_regex_refuse(p, p->at, "a POSIX class ([:...:]) is not known: write \\p{...} or a range");
        }
        if (looks_at(p, p->at, "&&")) {
            return qn_regex_refuse(p, p->at, "an intersection (&&) is not known: write the class out, or one & alone");
        }
        if (!read_range(p)) {
            return NULL;
        }
    }
    if (p->at >= p->bytes) {
        return qn_regex_refuse(p, start, "the class is not closed: add ]");
    }
    p->at++;
    return take_set(p, start, negated);
}
