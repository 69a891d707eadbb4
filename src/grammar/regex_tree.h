/* A parsed regex: what regex_parse.c makes and regex.c builds expressions from. Inside this room only. */
#ifndef QN_GRAMMAR_REGEX_TREE_H
#define QN_GRAMMAR_REGEX_TREE_H

#include "base/arena.h"
#include "grammar/char_property.h"
#include "grammar/regex.h"

typedef enum qn_regex_kind {
    QN_REGEX_EMPTY,
    QN_REGEX_SET,
    QN_REGEX_START,
    QN_REGEX_END,
    QN_REGEX_CONCAT,
    QN_REGEX_CHOICE,
    QN_REGEX_REPEAT
} qn_regex_kind;

/* A node may have several parents. */
typedef struct qn_regex_node {
    qn_regex_kind kind;
    bool has_anchor;             /* it or a part of it is ^ or $ */
    bool nullable;               /* may match the empty text somewhere */
    bool only_empty;             /* matches nothing else */
    bool built;                  /* `expr` is there; only without anchors: then it means the same everywhere */
    size_t at;                   /* its place in the regex */
    const qn_char_range *ranges; /* of a set: normalized */
    struct qn_regex_node **parts;
    size_t count; /* of ranges or parts */
    size_t min, max;
    qn_expr expr;
} qn_regex_node;

/* Where a parse stands. */
typedef struct qn_regex_parser {
    const char *text;
    size_t bytes, at;
    unsigned flags; /* QN_REGEX_... */
    bool refuse_anchors;
    unsigned depth;
    qn_arena *arena; /* of nodes and ranges */
    qn_char_set set; /* scratch: the class being read */
    qn_regex_node **stack;
    size_t stack_count, stack_capacity;
    qn_error *err;
} qn_regex_parser;

/* NULL, and err tells it. */
qn_regex_node *qn_regex_parse(qn_regex_parser *parser);

/* For regex_class.c: NULL with "regex: byte N: ...". */
void *qn_regex_refuse(qn_regex_parser *p, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void *qn_regex_out_of_memory(qn_regex_parser *p);

/* regex_class.c: sets of characters. Each reads from p->at and moves it. */
qn_regex_node *qn_regex_read_class(qn_regex_parser *p);  /* at [ */
qn_regex_node *qn_regex_read_escape(qn_regex_parser *p); /* at \, outside a class */
qn_regex_node *qn_regex_read_dot(qn_regex_parser *p);
qn_regex_node *qn_regex_read_char(qn_regex_parser *p);

/* A node with nothing in it but its kind and place. NULL out of memory. */
qn_regex_node *qn_regex_node_new(qn_regex_parser *p, qn_regex_kind kind, size_t at);

#endif
