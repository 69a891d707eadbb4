/* The members of objects, one shape's and those of many (json_schema_object.c, json_schema_joint.c); included by
 * json_schema*.c only. */
#ifndef QN_GRAMMAR_JSON_SCHEMA_OBJECT_H
#define QN_GRAMMAR_JSON_SCHEMA_OBJECT_H

#include "grammar/json_schema_compiler.h"

/* A declared member that can be. */
typedef struct object_item {
    size_t name; /* of the names */
    qn_expr value;
    const json_t *text; /* the string that its value is; NULL: it is another, or may be several */
    bool required;
} object_item;

typedef struct object_members {
    schema_text *names; /* declared */
    size_t name_count;
    object_item *items;
    size_t item_count, required_count;
    size_t min, max; /* members */
    bool closed;     /* there are no others */
} object_members;

/* Takes the shape apart; false: no object is of it, or the compiler failed. */
bool schema_object_members(compiler *c, const shape *s, object_members *m);

/* Whether members can be as many as is asked for; `others`: names that are not declared may come. Closes it where there
 * is no room for those. */
bool schema_object_can_be(compiler *c, const shape *s, object_members *m, bool others);

/* Shapes of objects that a value may have, to be followed as one. */
typedef struct object_list {
    struct listed_object *first, **end;
    size_t count;
} object_list;

/* Takes the shape's objects into the list; false: they are such that they are followed by themselves. */
bool schema_objects_take(compiler *c, object_list *list, const shape *s);
/* Their expressions, to be alternatives: at least one for each object of a list that is short. Calls add for each. */
typedef void expr_sink(compiler *c, void *context, qn_expr expr);
void schema_objects_each(compiler *c, const object_list *list, expr_sink *add, void *context);

#endif
