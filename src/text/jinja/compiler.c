/* What lexer, parser and scopes share: memory, names, errors with their place. */
#include "text/jinja/compiler.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void qn_source_position(const char *source, size_t bytes, size_t offset, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < bytes; ++i) {
        if (source[i] == '\n') {
            ++*line;
            *column = 1;
        } else {
            *column += ((unsigned char)source[i] & 0xC0) != 0x80;
        }
    }
}

qn_status qn_compile_fail(qn_compiler *c, size_t offset, const char *format, ...)
{
    char reason[QN_ERROR_MESSAGE_BYTES];
    size_t line, column;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    qn_source_position(c->source, c->bytes, offset, &line, &column);
    return qn_fail(c->err, QN_BAD_INPUT, "%s line %zu, column %zu: %s", c->name, line, column, reason);
}

void *qn_compile_alloc(qn_compiler *c, size_t count, size_t size)
{
    void *block = qn_arena_alloc(c->arena, count, size);
    if (!block)
        qn_fail_memory(c->err, "compiling a chat template", (unsigned long long)count * size);
    return block;
}

static uint32_t hash_name(const char *name, size_t bytes)
{
    uint32_t hash = 2166136261u; /* FNV-1a: templates are trusted not to be made of collisions */
    for (size_t i = 0; i < bytes; ++i)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

qn_symbol *qn_compile_symbol(qn_compiler *c, const char *name, size_t bytes)
{
    uint32_t hash = hash_name(name, bytes);
    qn_symbol **bucket = &c->buckets[hash % QN_SYMBOL_BUCKETS];
    for (qn_symbol *at = *bucket; at; at = at->next) {
        if (at->hash == hash && at->name.bytes == bytes && memcmp(at->name.data, name, bytes) == 0)
            return at;
    }
    qn_symbol *symbol = qn_compile_alloc(c, 1, sizeof *symbol);
    if (!symbol)
        return NULL;
    symbol->name = (qn_str){.data = name, .bytes = bytes, .length = qn_utf8_length(name, bytes)};
    symbol->hash = hash;
    symbol->next = *bucket;
    *bucket = symbol;
    return symbol;
}

const qn_str *qn_compile_str(qn_compiler *c, const char *data, size_t bytes)
{
    qn_str *s = qn_compile_alloc(c, 1, sizeof *s);
    if (s)
        *s = (qn_str){.data = data, .bytes = bytes, .length = qn_utf8_length(data, bytes)};
    return s;
}

qn_status qn_nodes_add(qn_compiler *c, qn_nodes *nodes, size_t *capacity, qn_node *node)
{
    if (nodes->count == *capacity) {
        size_t grown = *capacity ? *capacity * 2 : 4;
        qn_node **items = qn_compile_alloc(c, grown, sizeof *items);
        if (!items)
            return qn_compile_status(c);
        if (nodes->count > 0)
            memcpy(items, nodes->items, nodes->count * sizeof *items);
        nodes->items = items;
        *capacity = grown;
    }
    nodes->items[nodes->count++] = node;
    return QN_OK;
}
