/* The state of compiling one template, shared by lexer, parser and scopes. */
#ifndef QN_TEXT_JINJA_COMPILER_H
#define QN_TEXT_JINJA_COMPILER_H

#include "base/arena.h"
#include "base/error.h"
#include "text/jinja/node.h"
#include "text/jinja/str.h"

/* A name of the template. */
struct qn_symbol {
    qn_str name;
    uint32_t hash;
    qn_symbol *next;                 /* in its bucket */
    struct qn_reference *references; /* scope.c: its variables in the scopes around, innermost first */
    struct qn_slot *slots;           /* scope.c */
    bool read;                       /* some scope takes it from the context */
};

enum { QN_SYMBOL_BUCKETS = 1024 };

typedef struct qn_compiler {
    const char *name;   /* of the template, for messages */
    const char *source; /* line breaks normalised */
    size_t bytes;
    qn_arena *arena;
    qn_error *err;
    qn_symbol *buckets[QN_SYMBOL_BUCKETS];
} qn_compiler;

/* "NAME line L, column C: reason", QN_BAD_INPUT. */
qn_status qn_compile_fail(qn_compiler *c, size_t offset, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The status of the error that is there. */
static inline qn_status qn_compile_status(const qn_compiler *c)
{
    return c->err->status != QN_OK ? c->err->status : QN_INTERNAL;
}

/* Zeroed memory of the template's arena; NULL with c->err filled: callers go on with `return qn_compile_status(c)`. */
void *qn_compile_alloc(qn_compiler *c, size_t count, size_t size);

/* The one symbol of this name; NULL as above. */
qn_symbol *qn_compile_symbol(qn_compiler *c, const char *name, size_t bytes);

/* A string of the template over bytes that stay. NULL as above. */
const qn_str *qn_compile_str(qn_compiler *c, const char *data, size_t bytes);

/* Line and column (both from 1, the column in characters) of a byte of the source. */
void qn_source_position(const char *source, size_t bytes, size_t offset, size_t *line, size_t *column);

/* Appends to a growing array of nodes; `capacity` belongs to the caller. */
qn_status qn_nodes_add(qn_compiler *c, qn_nodes *nodes, size_t *capacity, qn_node *node);

#endif
