/* Text between tags first, then within a tag token by token. What Jinja2 says with regular expressions is spelt out
 * here; the cases in which it is surprising are marked. */
#include "text/jinja/lexer.h"

#include <string.h>

#include "base/utf8.h"
#include "text/jinja/literal.h"
#include "text/jinja/character.h"

typedef struct lexer {
    qn_compiler *compiler;
    const char *source;
    size_t bytes, at;
    bool line_start;                        /* the last thing read ended with a line break, or nothing was read */
    char brackets[QN_TEMPLATE_MAX_NESTING]; /* closing brackets that are owed */
    size_t bracket_count;
    qn_token *tokens;
    size_t count, capacity;
} lexer;

qn_status qn_normalize_source(qn_arena *arena, const char *source, size_t bytes, const char **out, size_t *out_bytes,
                              qn_error *err)
{
    char *copy = qn_arena_alloc(arena, bytes + 1, 1);
    size_t count = 0;
    if (!copy)
        return qn_fail_memory(err, "compiling a chat template", bytes + 1);
    for (size_t i = 0; i < bytes; ++i) {
        if (source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n')
            continue;
        copy[count++] = source[i] == '\r' ? '\n' : source[i];
    }
    if (count > 0 && copy[count - 1] == '\n')
        --count;
    *out = copy;
    *out_bytes = count;
    return QN_OK;
}

const char *qn_token_description(qn_token_kind kind)
{
    static const char *const names[] = {"end of template",
                                        "template data",
                                        "begin of print statement",
                                        "end of print statement",
                                        "begin of statement block",
                                        "end of statement block",
                                        "name",
                                        "string",
                                        "integer",
                                        "float",
                                        "+",
                                        "-",
                                        "/",
                                        "//",
                                        "*",
                                        "%",
                                        "**",
                                        "~",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "==",
                                        "!=",
                                        ">",
                                        ">=",
                                        "<",
                                        "<=",
                                        "=",
                                        ".",
                                        ":",
                                        "|",
                                        ",",
                                        ";"};
    return names[kind];
}

static qn_status add_token(lexer *l, qn_token token)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 64;
        qn_token *tokens = qn_compile_alloc(l->compiler, capacity, sizeof *tokens);
        if (!tokens)
            return qn_compile_status(l->compiler);
        if (l->count > 0)
            memcpy(tokens, l->tokens, l->count * sizeof *tokens);
        l->tokens = tokens;
        l->capacity = capacity;
    }
    l->tokens[l->count++] = token;
    return QN_OK;
}

static qn_status add_data(lexer *l, size_t from, size_t to)
{
    if (from == to)
        return QN_OK;
    return add_token(l,
                     (qn_token){.kind = QN_TOKEN_DATA, .offset = from, .text = l->source + from, .bytes = to - from});
}

static char peek(const lexer *l, size_t offset)
{
    return offset < l->bytes ? l->source[offset] : '\0';
}

static bool matches(const lexer *l, size_t offset, const char *text)
{
    size_t bytes = strlen(text);
    return offset <= l->bytes && bytes <= l->bytes - offset && memcmp(l->source + offset, text, bytes) == 0;
}

static size_t skip_space(const lexer *l, size_t offset)
{
    return offset + qn_space_prefix(l->source + offset, l->bytes - offset);
}

static size_t skip_sign(const lexer *l, size_t offset)
{
    return offset + (peek(l, offset) == '-' || peek(l, offset) == '+');
}

/* End of the text from..to when a tag follows: '-' strips all white space; without a sign, a tag that stands first on
 * its line loses the white space before it (lstrip_blocks), which print statements never do. */
static size_t text_end(const lexer *l, size_t from, size_t to, char sign, bool print)
{
    if (sign == '-')
        return from + qn_space_trimmed(l->source + from, to - from);
    if (sign == '+' || print)
        return to;
    size_t line = to;
    while (line > from && l->source[line - 1] != '\n')
        --line;
    bool at_line_start = line > from || l->line_start;
    return at_line_start && skip_space(l, line) >= to ? line : to;
}

/* Position behind the closing delimiter `close` ("%}", "#}") at `offset`, with its sign and the white space that it
 * takes; 0 when it does not stand there. */
static size_t closing(const lexer *l, size_t offset, const char *close, bool trims_line)
{
    if (peek(l, offset) == '-' && matches(l, offset + 1, close))
        return skip_space(l, offset + 3);
    if (trims_line && peek(l, offset) == '+' && matches(l, offset + 1, close))
        return offset + 3;
    if (!matches(l, offset, close))
        return 0;
    return offset + 2 + (trims_line && peek(l, offset + 2) == '\n');
}

/* Behind `{% word %}` at `offset`, or 0. Jinja2 trims no line break behind `{% raw %}`. */
static size_t word_tag(const lexer *l, size_t offset, const char *word, bool trims_line)
{
    if (!matches(l, offset, "{%"))
        return 0;
    size_t at = skip_space(l, skip_sign(l, offset + 2));
    if (!matches(l, at, word))
        return 0;
    return closing(l, skip_space(l, at + strlen(word)), "%}", trims_line);
}

static void move_to(lexer *l, size_t offset)
{
    l->line_start = offset > l->at && l->source[offset - 1] == '\n';
    l->at = offset;
}

/* From behind `{% raw %}` to behind `{% endraw %}`. A tag that opens at the very end of the source is no error. */
static qn_status read_raw(lexer *l)
{
    size_t start = l->at;
    for (size_t at = start; at < l->bytes; ++at) {
        size_t end = word_tag(l, at, "endraw", true);
        if (end == 0)
            continue;
        QN_TRY(add_data(l, start, text_end(l, start, at, peek(l, at + 2), false)));
        move_to(l, end);
        return QN_OK;
    }
    if (start < l->bytes)
        return qn_compile_fail(l->compiler, start, "missing end of raw directive");
    return QN_OK;
}

static qn_status read_comment(lexer *l)
{
    size_t start = l->at;
    for (size_t at = start; at < l->bytes; ++at) {
        size_t end = closing(l, at, "#}", true);
        if (end > 0) {
            move_to(l, end);
            return QN_OK;
        }
    }
    if (start < l->bytes)
        return qn_compile_fail(l->compiler, start, "missing end of comment tag");
    return QN_OK;
}

/* Length of an operator at the lexer's place and its kind; 0 for none. */
static size_t operator_at(const lexer *l, qn_token_kind *kind)
{
    static const struct {
        char text[3];
        qn_token_kind kind;
    } operators[] = {
        {"//", QN_TOKEN_FLOOR_DIVIDE},
        {"**", QN_TOKEN_POWER},
        {"==", QN_TOKEN_EQUAL},
        {"!=", QN_TOKEN_NOT_EQUAL},
        {">=", QN_TOKEN_GREATER_EQUAL},
        {"<=", QN_TOKEN_LESS_EQUAL},
        {"+", QN_TOKEN_ADD},
        {"-", QN_TOKEN_SUBTRACT},
        {"/", QN_TOKEN_DIVIDE},
        {"*", QN_TOKEN_MULTIPLY},
        {"%", QN_TOKEN_MODULO},
        {"~", QN_TOKEN_TILDE},
        {"[", QN_TOKEN_LEFT_BRACKET},
        {"]", QN_TOKEN_RIGHT_BRACKET},
        {"(", QN_TOKEN_LEFT_PARENTHESIS},
        {")", QN_TOKEN_RIGHT_PARENTHESIS},
        {"{", QN_TOKEN_LEFT_BRACE},
        {"}", QN_TOKEN_RIGHT_BRACE},
        {">", QN_TOKEN_GREATER},
        {"<", QN_TOKEN_LESS},
        {"=", QN_TOKEN_ASSIGN},
        {".", QN_TOKEN_DOT},
        {":", QN_TOKEN_COLON},
        {"|", QN_TOKEN_PIPE},
        {",", QN_TOKEN_COMMA},
        {";", QN_TOKEN_SEMICOLON},
    };
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; ++i) {
        if (matches(l, l->at, operators[i].text)) {
            *kind = operators[i].kind;
            return strlen(operators[i].text);
        }
    }
    return 0;
}

/* Closing delimiters only count outside of brackets, so that {{ {'a': {}}} }} can be written. */
static qn_status track_bracket(lexer *l, char c)
{
    char owed = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    if (owed) {
        if (l->bracket_count == QN_TEMPLATE_MAX_NESTING)
            return qn_compile_fail(l->compiler, l->at, "brackets nest more than %d deep", QN_TEMPLATE_MAX_NESTING);
        l->brackets[l->bracket_count++] = owed;
    } else if (c == ')' || c == ']' || c == '}') {
        if (l->bracket_count == 0)
            return qn_compile_fail(l->compiler, l->at, "unexpected '%c'", c);
        char expected = l->brackets[--l->bracket_count];
        if (c != expected)
            return qn_compile_fail(l->compiler, l->at, "unexpected '%c', expected '%c'", c, expected);
    }
    return QN_OK;
}

static qn_status read_operator(lexer *l)
{
    qn_token_kind kind;
    size_t length = operator_at(l, &kind);
    if (length == 0) {
        uint32_t code = 0;
        size_t bytes = qn_utf8_decode(l->source + l->at, l->bytes - l->at, &code);
        return qn_compile_fail(l->compiler, l->at, "unexpected char '%.*s'", (int)bytes, l->source + l->at);
    }
    if (length == 1)
        QN_TRY(track_bracket(l, l->source[l->at]));
    QN_TRY(add_token(l, (qn_token){.kind = kind, .offset = l->at}));
    move_to(l, l->at + length);
    return QN_OK;
}

static qn_status read_name(lexer *l)
{
    size_t start = l->at, end = start;
    bool valid = true;
    while (end < l->bytes) {
        uint32_t code;
        size_t step = qn_utf8_decode(l->source + end, l->bytes - end, &code);
        if (!qn_code_is_name_part(code) && !qn_code_is_alnum(code))
            break;
        valid = valid && (end == start ? qn_code_is_name_start(code) : qn_code_is_name_part(code));
        end += step;
    }
    if (!valid)
        return qn_compile_fail(l->compiler, start, "invalid character in identifier");
    QN_TRY(add_token(
        l, (qn_token){.kind = QN_TOKEN_NAME, .offset = start, .text = l->source + start, .bytes = end - start}));
    move_to(l, end);
    return QN_OK;
}

static qn_status read_literal(lexer *l, bool string)
{
    qn_token token = {.offset = l->at};
    size_t end;
    QN_TRY(string ? qn_lex_string(l->compiler, l->at, &end, &token) : qn_lex_number(l->compiler, l->at, &end, &token));
    QN_TRY(add_token(l, token));
    move_to(l, end);
    return QN_OK;
}

static bool string_starts(const lexer *l)
{
    char quote = peek(l, l->at);
    if (quote != '\'' && quote != '"')
        return false;
    /* One that is not closed is no string but an unexpected character. */
    for (size_t i = l->at + 1; i < l->bytes; ++i) {
        if (l->source[i] == quote)
            return true;
        i += l->source[i] == '\\';
    }
    return false;
}

static bool name_starts(const lexer *l)
{
    uint32_t code;
    return qn_utf8_decode(l->source + l->at, l->bytes - l->at, &code) > 0 &&
           (qn_code_is_name_part(code) || qn_code_is_alnum(code));
}

/* Within a tag, up to and with its end. */
static qn_status read_tag(lexer *l, bool print)
{
    while (l->at < l->bytes) {
        size_t end = 0;
        if (l->bracket_count == 0)
            end = closing(l, l->at, print ? "}}" : "%}", !print);
        if (end > 0) {
            QN_TRY(add_token(l, (qn_token){.kind = print ? QN_TOKEN_PRINT_END : QN_TOKEN_BLOCK_END, .offset = l->at}));
            move_to(l, end);
            return QN_OK;
        }
        char c = peek(l, l->at);
        size_t space = skip_space(l, l->at);
        if (space > l->at)
            move_to(l, space);
        else if (c >= '0' && c <= '9')
            QN_TRY(read_literal(l, false));
        else if (name_starts(l))
            QN_TRY(read_name(l));
        else if (string_starts(l))
            QN_TRY(read_literal(l, true));
        else
            QN_TRY(read_operator(l));
    }
    return QN_OK;
}

/* The next tag's place at or behind `from`; the end of the source when there is none. */
static size_t next_tag(const lexer *l, size_t from)
{
    while (from < l->bytes) {
        const char *brace = memchr(l->source + from, '{', l->bytes - from);
        if (!brace)
            break;
        from = (size_t)(brace - l->source);
        char second = peek(l, from + 1);
        if (second == '%' || second == '{' || second == '#')
            return from;
        ++from;
    }
    return l->bytes;
}

/* The text up to the next tag, and that tag. */
static qn_status read_part(lexer *l)
{
    size_t start = l->at, tag = next_tag(l, start);
    if (tag == l->bytes) {
        QN_TRY(add_data(l, start, tag));
        l->at = tag;
        return QN_OK;
    }
    char kind = l->source[tag + 1], sign = peek(l, tag + 2);
    QN_TRY(add_data(l, start, text_end(l, start, tag, sign, kind == '{')));
    size_t raw = word_tag(l, tag, "raw", false);
    if (raw > 0) {
        move_to(l, raw);
        return read_raw(l);
    }
    move_to(l, skip_sign(l, tag + 2));
    if (kind == '#')
        return read_comment(l);
    bool print = kind == '{';
    QN_TRY(add_token(l, (qn_token){.kind = print ? QN_TOKEN_PRINT_BEGIN : QN_TOKEN_BLOCK_BEGIN, .offset = tag}));
    l->bracket_count = 0;
    return read_tag(l, print);
}

qn_status qn_lex(qn_compiler *c, const qn_token **out)
{
    lexer l = {.compiler = c, .source = c->source, .bytes = c->bytes, .line_start = true};
    while (l.at < l.bytes)
        QN_TRY(read_part(&l));
    QN_TRY(add_token(&l, (qn_token){.kind = QN_TOKEN_END, .offset = l.bytes}));
    *out = l.tokens;
    return QN_OK;
}
