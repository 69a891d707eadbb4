/* A shape in the making: what json_schema_shape.c, which drives it, shares with the handlers of keywords; included by
 * json_schema_*.c only. */
#ifndef QN_GRAMMAR_JSON_SCHEMA_EXPANSION_H
#define QN_GRAMMAR_JSON_SCHEMA_EXPANSION_H

#include "grammar/json_schema_compiler.h"

/* A schema that is still to be applied, and those through whose $ref, allOf, anyOf or oneOf it came. */
typedef struct pending {
    const schema_node *node;
    const struct pending *parent;
    const struct pending *next;
    size_t depth; /* parents */
    bool silent;  /* below "not": what it matches counts as unevaluated all the same */
    bool hidden;  /* behind a keyword at which the reader of arguments does not look: it narrows, and names no type */
} pending;

/* An anyOf or oneOf that waits until everything else is applied. */
typedef struct branching {
    const pending *at;
    const char *keyword;
    const json_t *options;
    bool hidden;
    const struct branching *next;
} branching;

typedef struct expansion {
    compiler *c;
    shape s;
    const pending *work;
    const pending *at; /* whose keywords are applied */
    const branching *branches;
    shape_sink sink;
    void *context;
    bool
        declared_only; /* contradictions are not looked for: what the types and listed values are as they are written */
    bool some;         /* schemas were left out, that may only ask for more, or evaluate members */
    bool any;          /* the first shape is enough: *(bool *)context tells that there is one */
} expansion;

typedef void keyword_handler(expansion *e, const pending *p, const char *keyword, const json_t *value);

/* Narrowing by one keyword (json_schema_narrow.c) */
keyword_handler schema_apply_type, schema_apply_enum, schema_apply_bound, schema_apply_count, schema_apply_text,
    schema_apply_required, schema_apply_part, schema_apply_blocked, schema_apply_multiple, schema_apply_contains,
    schema_apply_unique, schema_apply_names, schema_apply_unevaluated;
void schema_use(expansion *e, const keyword_use **list, const schema_node *node, const char *keyword,
                const json_t *value, bool negated);
/* Allows at least, or at most, so many characters, elements or members. */
void schema_hold_count(shape *s, const char *keyword, bool low, size_t number);
/* Takes a pattern with lookahead at its beginning as several (json_schema_lookahead.c); false: it is none. */
bool schema_split_lookahead(expansion *e, const schema_node *node, const json_t *pattern);
/* The number to which a bound that is only `true`, in drafts up to 4 and OpenAPI 3.0, belongs. */
const json_t *schema_excluded_bound(expansion *e, const schema_node *node, const char *keyword);
void schema_refuse_bound(expansion *e, const schema_node *node, const char *keyword); /* a bound that is no number */
bool schema_read_count(expansion *e, const schema_node *node, const char *keyword, const json_t *value, size_t *out);
unsigned schema_type_bits(expansion *e, const schema_node *node, const json_t *value);
/* Takes away the types that cannot be; `whole`: no schema is still to be applied. */
void schema_narrow(compiler *c, shape *s, bool whole);

/* What is said by other schemas (json_schema_logic.c, json_schema_negation.c) */
keyword_handler schema_apply_if, schema_apply_dependent, schema_apply_not;
/* Whether this part of the keyword lists names, not a schema. */
bool schema_depends_on_names(const char *keyword, const json_t *part);

/* Driving (json_schema_shape.c) */

/* Adds a schema that the value must satisfy too, unless it is one that leads to itself. */
void schema_push(expansion *e, const pending *parent, const char *keyword, const schema_node *node, bool hidden);
/* One of the options, an array of schemas, must be satisfied. */
void schema_branch(expansion *e, const pending *p, const char *keyword, const json_t *options, bool hidden);
/* Whether nothing can satisfy both options together with what else is asked. */
bool schema_options_are_disjoint(const expansion *e, const pending *p, const char *keyword, const json_t *options,
                                 size_t i, size_t j);
/* The name of the keyword at or behind *at in the table of those that can refuse a value, that the schema has; NULL at
 * the end. *at moves behind it. */
const char *schema_next_keyword(const json_t *schema, size_t *at);

/* Whether what was applied at one place came through the other, or is there (json_schema_unevaluated.c). */
bool schema_is_within(const pending *at, const pending *outer);

#endif
