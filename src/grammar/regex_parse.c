/* The structure of a regex: alternatives, sequences, quantifiers, groups, flags. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "grammar/regex_tree.h"

void *qn_regex_refuse(qn_regex_parser *p, size_t at, const char *format, ...)
{
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    qn_fail(p->err, QN_USAGE, "regex: byte %zu: %s", at + 1, reason);
    return NULL;
}

void *qn_regex_out_of_memory(qn_regex_parser *p)
{
    qn_fail(p->err, QN_RESOURCE, "regex: out of memory or larger than %d MiB when parsed: make it simpler",
            QN_REGEX_MAX_MEMORY >> 20);
    return NULL;
}

qn_regex_node *qn_regex_node_new(qn_regex_parser *p, qn_regex_kind kind, size_t at)
{
    qn_regex_node *node = qn_arena_alloc(p->arena, 1, sizeof *node);
    if (node == NULL) {
        return qn_regex_out_of_memory(p);
    }
    node->kind = kind;
    node->at = at;
    node->only_empty = node->nullable = kind == QN_REGEX_EMPTY || kind == QN_REGEX_START || kind == QN_REGEX_END;
    node->has_anchor = kind == QN_REGEX_START || kind == QN_REGEX_END;
    return node;
}

/* ---- nodes with parts ---- */

static bool push(qn_regex_parser *p, qn_regex_node *node)
{
    if (p->stack_count == p->stack_capacity) {
        size_t capacity = p->stack_capacity > 0 ? p->stack_capacity * 2 : 64;
        qn_regex_node **grown = qn_realloc(p->stack, capacity, sizeof *grown);
        if (grown == NULL) {
            qn_regex_out_of_memory(p);
            return false;
        }
        p->stack = grown;
        p->stack_capacity = capacity;
    }
    p->stack[p->stack_count++] = node;
    return true;
}

/* Takes the nodes from `base` on off the stack as the parts of a new one. */
static qn_regex_node *gather(qn_regex_parser *p, qn_regex_kind kind, size_t base, size_t at)
{
    size_t count = p->stack_count - base;
    p->stack_count = base;
    if (count == 1) {
        return p->stack[base];
    }
    qn_regex_node *node = qn_regex_node_new(p, count == 0 ? QN_REGEX_EMPTY : kind, at);
    if (node == NULL || count == 0) {
        return node;
    }
    node->parts = qn_arena_alloc(p->arena, count, sizeof(qn_regex_node *));
    if (node->parts == NULL) {
        return qn_regex_out_of_memory(p);
    }
    memcpy(node->parts, p->stack + base, count * sizeof(qn_regex_node *));
    node->count = count;
    node->only_empty = true;
    node->nullable = kind == QN_REGEX_CONCAT;
    for (size_t i = 0; i < count; i++) {
        const qn_regex_node *part = node->parts[i];
        node->has_anchor = node->has_anchor || part->has_anchor;
        node->only_empty = node->only_empty && part->only_empty;
        node->nullable = kind == QN_REGEX_CONCAT ? node->nullable && part->nullable : node->nullable || part->nullable;
    }
    return node;
}

static qn_regex_node *repeat(qn_regex_parser *p, qn_regex_node *part, size_t min, size_t max, size_t at)
{
    qn_regex_node *node = qn_regex_node_new(p, QN_REGEX_REPEAT, at);
    qn_regex_node **parts = qn_arena_alloc(p->arena, 1, sizeof(qn_regex_node *));
    if (node == NULL || parts == NULL) {
        return qn_regex_out_of_memory(p);
    }
    parts[0] = part;
    node->parts = parts;
    node->count = 1;
    node->min = min;
    node->max = max;
    node->has_anchor = part->has_anchor;
    node->nullable = min == 0 || part->nullable;
    node->only_empty = max == 0 || part->only_empty;
    return node;
}

/* ---- quantifiers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Decimal digits at *at; stays small whatever their number. */
static size_t read_number(const qn_regex_parser *p, size_t *at)
{
    size_t value = 0;
    for (; *at < p->bytes && is_digit(p->text[*at]); (*at)++) {
        value = value <= QN_REGEX_MAX_REPEATS ? value * 10 + (size_t)(p->text[*at] - '0') : value;
    }
    return value;
}

/* {n}, {n,} or {n,m} at `at`; returns its length, or 0 when the brace is a character like others. */
static size_t braced_quantifier(const qn_regex_parser *p, size_t at, size_t *min, size_t *max)
{
    size_t end = at + 1;
    if (p->text[at] != '{' || end >= p->bytes || !is_digit(p->text[end])) {
        return 0;
    }
    *min = *max = read_number(p, &end);
    if (end < p->bytes && p->text[end] == ',') {
        end++;
        *max = end < p->bytes && is_digit(p->text[end]) ? read_number(p, &end) : QN_UNBOUNDED;
    }
    return end < p->bytes && p->text[end] == '}' ? end + 1 - at : 0;
}

/* {,m}: from 0 in Python, plain characters in ECMA-262. */
static bool is_open_brace(const qn_regex_parser *p, size_t at)
{
    size_t end = at + 2;
    if (p->bytes - at < 4 || memcmp(p->text + at, "{,", 2) != 0) {
        return false;
    }
    read_number(p, &end);
    return end > at + 2 && end < p->bytes && p->text[end] == '}';
}

/* Length of the quantifier at p->at, 0 when there is none. */
static size_t find_quantifier(const qn_regex_parser *p, size_t *min, size_t *max)
{
    char c = p->at < p->bytes ? p->text[p->at] : '\0';
    *min = c == '+';
    *max = c == '?' ? 1 : QN_UNBOUNDED;
    if (c == '*' || c == '+' || c == '?') {
        return 1;
    }
    return c == '{' ? braced_quantifier(p, p->at, min, max) : 0;
}

static qn_regex_node *quantified(qn_regex_parser *p, qn_regex_node *atom, bool repeatable)
{
    size_t min = 0, max = 0, at = p->at;
    size_t length = find_quantifier(p, &min, &max);
    if (length == 0) {
        return atom;
    }
    if (!repeatable) {
        return qn_regex_refuse(p, at, "nothing to repeat: put a character or a group before it, or escape it");
    }
    if (max != QN_UNBOUNDED && max < min) {
        return qn_regex_refuse(p, at, "{n,m} with m below n: swap them");
    }
    if (min > QN_REGEX_MAX_REPEATS || (max != QN_UNBOUNDED && max > QN_REGEX_MAX_REPEATS)) {
        return qn_regex_refuse(p, at, "more than %d repetitions: ask for fewer", QN_REGEX_MAX_REPEATS);
    }
    p->at += length;
    if (p->at < p->bytes && p->text[p->at] == '?') {
        p->at++; /* lazy: another way to find the same texts */
    } else if (p->at < p->bytes && p->text[p->at] == '+') {
        return qn_regex_refuse(p, at, "a possessive quantifier cannot be enforced: leave the second + out");
    }
    size_t again_min = 0, again_max = 0;
    if (find_quantifier(p, &again_min, &again_max) > 0) {
        return qn_regex_refuse(p, p->at, "a quantifier behind a quantifier: put the first in a group");
    }
    return repeat(p, atom, min, max, at);
}

/* ---- groups ---- */

static qn_regex_node *parse_choice(qn_regex_parser *p);

static bool starts(const qn_regex_parser *p, const char *text)
{
    size_t length = strlen(text);
    return p->bytes - p->at >= length && memcmp(p->text + p->at, text, length) == 0;
}

/* Forms that begin with (? and are not of a regular language, longest first. */
static qn_regex_node *refuse_group(qn_regex_parser *p)
{
    static const struct {
        const char *form, *what;
    } forms[] = {
        {"(?<=", "lookbehind"},  {"(?<!", "lookbehind"},    {"(?=", "lookahead"},          {"(?!", "lookahead"},
        {"(?>", "atomic group"}, {"(?P=", "backreference"}, {"(?P>", "recursion"},         {"(?R", "recursion"},
        {"(?&", "recursion"},    {"(?(", "condition"},      {"(?|", "branch reset group"}, {"(?#", "comment"},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (starts(p, forms[i].form)) {
            return qn_regex_refuse(p, p->at, "%s %s cannot be enforced: say it without", forms[i].what, forms[i].form);
        }
    }
    char next = p->bytes - p->at > 2 ? p->text[p->at + 2] : '\0';
    if (is_digit(next) || next == '+') {
        return qn_regex_refuse(p, p->at, "recursion (?%c cannot be enforced: say it without", next);
    }
    return NULL;
}

/* Behind (?< or (?P<. */
static bool skip_name(qn_regex_parser *p, size_t start)
{
    const char *end = memchr(p->text + p->at, '>', p->bytes - p->at);
    if (end == NULL || end == p->text + p->at) {
        qn_regex_refuse(p, start, "the group's name is not complete: write (?<name>...)");
        return false;
    }
    p->at = (size_t)(end - p->text) + 1;
    return true;
}

/* Letters of flags behind (?, up to : or ), which is taken; *scoped: it was a colon. */
static bool read_flags(qn_regex_parser *p, size_t start, bool *scoped)
{
    static const char letters[] = "isx";
    bool on = true;
    for (; p->at < p->bytes; p->at++) {
        char c = p->text[p->at];
        const char *known = c != '\0' ? strchr(letters, c) : NULL;
        if (c == ':' || c == ')') {
            *scoped = c == ':';
            p->at++;
            return true;
        }
        if (c == '-' && on) {
            on = false;
        } else if (known != NULL) {
            unsigned flag = 1U << (known - letters);
            p->flags = on ? p->flags | flag : p->flags & ~flag;
        } else {
            qn_regex_refuse(p, p->at,
                            c > ' ' && c < 0x7F ? "flag or group (?%c is not known: there are i, s and x"
                                                : "this flag is not known: there are i, s and x",
                            c);
            return false;
        }
    }
    qn_regex_refuse(p, start, "the group is not closed: add )");
    return false;
}

/* At (. *repeatable false: it was flags alone, which stay on to the end of the group around. */
static qn_regex_node *parse_group(qn_regex_parser *p, bool *repeatable)
{
    size_t start = p->at;
    unsigned flags = p->flags;
    if (p->depth >= QN_REGEX_MAX_DEPTH) {
        return qn_regex_refuse(p, start, "groups nested deeper than %d: make them flatter", QN_REGEX_MAX_DEPTH);
    }
    p->err->status = QN_OK;
    if (starts(p, "(?")) {
        refuse_group(p);
        if (p->err->status != QN_OK) {
            return NULL;
        }
        bool named = starts(p, "(?<") || starts(p, "(?P<");
        p->at += starts(p, "(?P<") ? 4 : (named ? 3 : 2);
        bool scoped = true;
        if (named ? !skip_name(p, start) : !read_flags(p, start, &scoped)) {
            return NULL;
        }
        if (!scoped) {
            *repeatable = false;
            return qn_regex_node_new(p, QN_REGEX_EMPTY, start);
        }
    } else {
        p->at++;
    }
    p->depth++;
    qn_regex_node *node = parse_choice(p);
    p->depth--;
    if (node == NULL) {
        return NULL;
    }
    if (p->at >= p->bytes) {
        return qn_regex_refuse(p, start, "the group is not closed: add )");
    }
    p->at++;
    p->flags = flags;
    return node;
}

static qn_regex_node *parse_anchor(qn_regex_parser *p, qn_regex_kind kind, size_t length)
{
    size_t at = p->at;
    if (p->refuse_anchors) {
        return qn_regex_refuse(p, at, "an anchor has no meaning inside a grammar: leave it out");
    }
    p->at += length;
    return qn_regex_node_new(p, kind, at);
}

/* ---- sequences ---- */

/* With flag x white space and comments between the parts mean nothing. */
static void skip_space(qn_regex_parser *p)
{
    while ((p->flags & QN_REGEX_VERBOSE) && p->at < p->bytes && strchr(" \t\n\r\f\v#", p->text[p->at]) != NULL &&
           p->text[p->at] != '\0') {
        if (p->text[p->at] == '#') {
            const char *end = memchr(p->text + p->at, '\n', p->bytes - p->at);
            p->at = end != NULL ? (size_t)(end - p->text) : p->bytes;
        } else {
            p->at++;
        }
    }
}

static qn_regex_node *parse_atom(qn_regex_parser *p, bool *repeatable)
{
    size_t min = 0, max = 0;
    char c = p->text[p->at];
    *repeatable = true;
    if (c == '(') {
        return parse_group(p, repeatable);
    }
    if (c == '[') {
        return qn_regex_read_class(p);
    }
    if (c == '.') {
        return qn_regex_read_dot(p);
    }
    *repeatable = false;
    if (c == '^' || starts(p, "\\A")) {
        return parse_anchor(p, QN_REGEX_START, c == '^' ? 1 : 2);
    }
    if (c == '$' || starts(p, "\\z") || starts(p, "\\Z")) {
        return parse_anchor(p, QN_REGEX_END, c == '$' ? 1 : 2);
    }
    *repeatable = true;
    if (c == '\\') {
        return qn_regex_read_escape(p);
    }
    if (find_quantifier(p, &min, &max) > 0) {
        return qn_regex_refuse(p, p->at, "nothing to repeat: put a character or a group before it, or escape it");
    }
    if (c == '{' && is_open_brace(p, p->at)) {
        return qn_regex_refuse(p, p->at, "{,m} means different things: write {0,m}, or escape the brace");
    }
    return qn_regex_read_char(p);
}

static qn_regex_node *parse_concat(qn_regex_parser *p)
{
    size_t base = p->stack_count, start = p->at;
    for (;;) {
        skip_space(p);
        if (p->at >= p->bytes || p->text[p->at] == '|' || p->text[p->at] == ')') {
            return gather(p, QN_REGEX_CONCAT, base, start);
        }
        bool repeatable = true;
        qn_regex_node *node = parse_atom(p, &repeatable);
        if (node == NULL) {
            return NULL;
        }
        skip_space(p);
        if (p->at < p->bytes && is_open_brace(p, p->at)) {
            return qn_regex_refuse(p, p->at, "{,m} means different things: write {0,m}, or escape the brace");
        }
        node = quantified(p, node, repeatable);
        if (node == NULL || !push(p, node)) {
            return NULL;
        }
    }
}

static qn_regex_node *parse_choice(qn_regex_parser *p)
{
    size_t base = p->stack_count, start = p->at;
    for (;;) {
        qn_regex_node *node = parse_concat(p);
        if (node == NULL || !push(p, node)) {
            return NULL;
        }
        if (p->at >= p->bytes || p->text[p->at] != '|') {
            return gather(p, QN_REGEX_CHOICE, base, start);
        }
        p->at++;
    }
}

qn_regex_node *qn_regex_parse(qn_regex_parser *parser)
{
    if (parser->bytes > QN_REGEX_MAX_BYTES) {
        return qn_regex_refuse(parser, QN_REGEX_MAX_BYTES, "longer than %d bytes: make it shorter", QN_REGEX_MAX_BYTES);
    }
    qn_regex_node *node = parse_choice(parser);
    if (node != NULL && parser->at < parser->bytes) {
        return qn_regex_refuse(parser, parser->at, "a ) without its (: escape it or remove it");
    }
    return node;
}
