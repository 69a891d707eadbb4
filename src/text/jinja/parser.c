/* Reading tokens, with errors that tell what was expected, and bounds on the depth of the tree. */
#include "text/jinja/parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

qn_status qn_parser_fail(qn_parser *p, const char *format, ...)
{
    char reason[QN_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    return qn_compile_fail(p->compiler, p->at->offset, "%s", reason);
}

qn_status qn_parser_new(qn_parser *p, qn_node_kind kind, size_t offset, qn_node **out)
{
    qn_node *node = qn_compile_alloc(p->compiler, 1, sizeof *node);
    if (!node)
        return qn_compile_status(p->compiler);
    node->kind = kind;
    node->offset = (uint32_t)offset;
    node->height = 1;
    *out = node;
    return QN_OK;
}

bool qn_parser_at(const qn_parser *p, qn_token_kind kind)
{
    return p->at->kind == kind;
}

bool qn_parser_is_name(const qn_token *token, const char *name)
{
    return token->kind == QN_TOKEN_NAME && token->bytes == strlen(name) && memcmp(token->text, name, token->bytes) == 0;
}

bool qn_parser_at_name(const qn_parser *p, const char *name)
{
    return qn_parser_is_name(p->at, name);
}

bool qn_parser_skip(qn_parser *p, qn_token_kind kind)
{
    if (!qn_parser_at(p, kind))
        return false;
    ++p->at;
    return true;
}

bool qn_parser_skip_name(qn_parser *p, const char *name)
{
    if (!qn_parser_at_name(p, name))
        return false;
    ++p->at;
    return true;
}

/* "'NAME'" or the kind of token that the parser is at. */
void qn_parser_describe(const qn_parser *p, char *out, size_t room)
{
    if (p->at->kind == QN_TOKEN_NAME)
        snprintf(out, room, "%.*s", (int)(p->at->bytes < 60 ? p->at->bytes : 60), p->at->text);
    else
        snprintf(out, room, "%s", qn_token_description(p->at->kind));
}

qn_status qn_parser_expect(qn_parser *p, qn_token_kind kind)
{
    char what[80];
    if (qn_parser_skip(p, kind))
        return QN_OK;
    qn_parser_describe(p, what, sizeof what);
    return qn_parser_fail(p, "expected token '%s', got '%s'", qn_token_description(kind), what);
}

qn_status qn_parser_enter(qn_parser *p)
{
    if (p->nesting >= QN_TEMPLATE_MAX_NESTING)
        return qn_parser_fail(p, "nested more than %d levels deep", QN_TEMPLATE_MAX_NESTING);
    ++p->nesting;
    return QN_OK;
}

void qn_parser_leave(qn_parser *p)
{
    --p->nesting;
}

qn_status qn_parser_finish(qn_parser *p, qn_node *node, qn_node *const *parts, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        if (parts[i] && parts[i]->height >= node->height)
            node->height = parts[i]->height + 1;
    }
    if (node->height > QN_TEMPLATE_MAX_NESTING)
        return qn_parser_fail(p, "an expression has more than %d operators within each other", QN_TEMPLATE_MAX_NESTING);
    return QN_OK;
}

qn_status qn_parser_constant(qn_parser *p, qn_value value, size_t offset, qn_node **out)
{
    QN_TRY(qn_parser_new(p, QN_NODE_CONSTANT, offset, out));
    (*out)->constant = value;
    return QN_OK;
}

qn_status qn_parser_token_str(qn_parser *p, const qn_token *token, const qn_str **out)
{
    *out = qn_compile_str(p->compiler, token->text, token->bytes);
    return *out ? QN_OK : qn_compile_status(p->compiler);
}

qn_status qn_parser_name(qn_parser *p, const qn_token *token, qn_node **out)
{
    QN_TRY(qn_parser_new(p, QN_NODE_NAME, token->offset, out));
    qn_symbol *symbol = qn_compile_symbol(p->compiler, token->text, token->bytes);
    if (!symbol)
        return qn_compile_status(p->compiler);
    (*out)->name.symbol = symbol;
    (*out)->name.text = &symbol->name;
    return QN_OK;
}
