/* Cuts a template into tokens, with Jinja2's rules of white space around tags (trim_blocks and lstrip_blocks on). */
#ifndef QN_TEXT_JINJA_LEXER_H
#define QN_TEXT_JINJA_LEXER_H

#include "text/jinja/compiler.h"

typedef enum qn_token_kind {
    QN_TOKEN_END,
    QN_TOKEN_DATA,
    QN_TOKEN_PRINT_BEGIN, /* {{ */
    QN_TOKEN_PRINT_END,
    QN_TOKEN_BLOCK_BEGIN, /* {% */
    QN_TOKEN_BLOCK_END,
    QN_TOKEN_NAME,
    QN_TOKEN_STRING,
    QN_TOKEN_INTEGER,
    QN_TOKEN_FLOAT,
    QN_TOKEN_ADD,
    QN_TOKEN_SUBTRACT,
    QN_TOKEN_DIVIDE,
    QN_TOKEN_FLOOR_DIVIDE,
    QN_TOKEN_MULTIPLY,
    QN_TOKEN_MODULO,
    QN_TOKEN_POWER,
    QN_TOKEN_TILDE,
    QN_TOKEN_LEFT_BRACKET,
    QN_TOKEN_RIGHT_BRACKET,
    QN_TOKEN_LEFT_PARENTHESIS,
    QN_TOKEN_RIGHT_PARENTHESIS,
    QN_TOKEN_LEFT_BRACE,
    QN_TOKEN_RIGHT_BRACE,
    QN_TOKEN_EQUAL,
    QN_TOKEN_NOT_EQUAL,
    QN_TOKEN_GREATER,
    QN_TOKEN_GREATER_EQUAL,
    QN_TOKEN_LESS,
    QN_TOKEN_LESS_EQUAL,
    QN_TOKEN_ASSIGN,
    QN_TOKEN_DOT,
    QN_TOKEN_COLON,
    QN_TOKEN_PIPE,
    QN_TOKEN_COMMA,
    QN_TOKEN_SEMICOLON
} qn_token_kind;

typedef struct qn_token {
    qn_token_kind kind;
    size_t offset;    /* in the source */
    const char *text; /* DATA, NAME */
    size_t bytes;
    qn_value value; /* STRING, INTEGER, FLOAT */
} qn_token;

/* All tokens of c->source, the last one an END. */
qn_status qn_lex(qn_compiler *c, const qn_token **out);

/* How messages call a token of this kind. */
const char *qn_token_description(qn_token_kind kind);

/* A copy with \r\n and \r as \n, and without one line break at the end. */
qn_status qn_normalize_source(qn_arena *arena, const char *source, size_t bytes, const char **out, size_t *out_bytes,
                              qn_error *err);

#endif
