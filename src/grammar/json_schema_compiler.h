/* What the parts of the JSON Schema compiler share; included by json_schema*.c only.
 *
 * The unit of work is a set of schemas that a value must satisfy all at once: one at the start, several where allOf,
 * $ref and its neighbours, or two objects' properties meet. A set is flattened into shapes, one for each way through
 * its anyOf and oneOf; a shape holds what is left to enforce, type by type, and refers to the sets of its parts
 * (members, elements) by the schemas that declare them. Sets are compiled once each, so recursion becomes recursion of
 * rules.
 *
 * The first error sticks in the compiler; everything after it returns early. */
#ifndef QN_GRAMMAR_JSON_SCHEMA_COMPILER_H
#define QN_GRAMMAR_JSON_SCHEMA_COMPILER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "grammar/automaton.h"
#include "grammar/json_number.h"
#include "grammar/json_schema.h"
#include "grammar/json_spelling.h"
#include "grammar/regex.h"
#include "grammar/words.h"

enum {
    SCHEMA_MOST_NODES = 1 << 16,    /* schemas at different places */
    SCHEMA_MOST_SHAPES = 1 << 12,   /* over all sets, but for the first of each: what anyOf times anyOf can cost */
    SCHEMA_MOST_STEPS = 1 << 17,    /* schemas that were applied to these, or to shapes that were only looked at */
    SCHEMA_MOST_CHAIN = 1000,       /* schemas that lead to each other for the same value */
    SCHEMA_MOST_COMPARED = 1 << 22, /* pairs of values where two enums meet */
    SCHEMA_MOST_COUNT = 1 << 20,    /* of characters, elements, members that a bound can ask for */
    SCHEMA_EMPTINESS_DEPTH = 3,     /* how far contradictions are looked for below a schema */
    SCHEMA_MOST_NAME_BYTES = 1000,
    SCHEMA_MOST_DEPTH = 512, /* sets inside sets */
    SCHEMA_ARENA_BYTES = 64 << 20
};

/* A schema and where it stands. */
typedef struct schema_node {
    const json_t *schema;
    const char *place;      /* JSON pointer, "" for the whole */
    const json_t *resource; /* what "#" means here: the nearest enclosing schema with an $id, or the root */
    uint32_t id;            /* in order of discovery */
    json_t **opposite;      /* its {"not": schema}, once that was needed (json_schema_made.c) */
} schema_node;

typedef struct node_set {
    const schema_node **nodes; /* in order of their ids, each once */
    size_t count, capacity;
} node_set;

typedef struct compiled_set compiled_set;

typedef struct compiler {
    qn_grammar_builder *b;
    const json_t *root;
    const char *what;
    qn_json_spelling spelling;
    struct known_pattern *patterns; /* json_schema_text.c: automata that were made */
    struct known_names *names;
    qn_arena *arena;
    qn_automaton_room room;   /* the same memory, for automata */
    schema_node **node_slots; /* hash tables, open addressing */
    size_t node_count, node_capacity;
    struct schema_contents *contents;  /* json_schema_content.c; NULL: none yet */
    struct schema_resource *resources; /* json_schema_reference.c: those of the document, once they were needed */
    size_t resource_count;
    json_t *made; /* array that holds the schemas of json_schema_made.c; NULL: none yet */
    compiled_set **sets;
    size_t set_count, set_capacity;
    const schema_node *current; /* whose set is compiled, for errors without a place of their own */
    bool unevaluated;           /* unevaluatedProperties or unevaluatedItems is somewhere in the document */
    size_t shapes, steps, depth, branchings, searched, emptiness_depth;
    bool failed;
    qn_error err;
} compiler;

typedef enum value_type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* a number that is no integer */
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_ANY = 127
} value_type;

typedef struct schema_text {
    const char *data;
    size_t bytes;
    qn_expr tail; /* what follows it */
} schema_text;

/* One keyword of one schema, in a list. */
typedef struct keyword_use {
    const schema_node *node;
    const char *keyword;
    const json_t *value;
    bool negated;             /* the opposite is asked for */
    const struct pending *at; /* how it came to take part */
    const struct keyword_use *next;
} keyword_use;

typedef struct shape {
    unsigned types;
    bool typed;            /* a "type" keyword took part, at which the reader of arguments looks */
    unsigned seen_types;   /* as such keywords have it */
    bool seen_values;      /* some enum or const was there to be seen */
    bool opaque;           /* keywords took part at which that reader does not look */
    const json_t **values; /* of enum and const; NULL: any */
    size_t value_count;
    qn_number_bound low, high;
    size_t min_length, max_length;
    size_t min_items, max_items;
    size_t min_members, max_members;
    const keyword_use *texts; /* pattern, format */
    const keyword_use *multiples;
    const keyword_use *excluded;    /* values that it must not be */
    const keyword_use *required;    /* values are strings */
    const keyword_use *members;     /* a node with properties, patternProperties or additionalProperties, once each */
    const keyword_use *unevaluated; /* unevaluatedProperties */
    const keyword_use *names;       /* propertyNames */
    const keyword_use *elements;    /* a node with prefixItems, items or additionalItems */
    const keyword_use *unevaluated_items; /* the schemas of this keyword */
    const keyword_use *contains;
    const keyword_use *unique;
    const keyword_use *blocked; /* keywords that cannot be enforced; they hurt if their type is still possible */
    const keyword_use *all;     /* the schemas that took part, for values */
    size_t all_count;
} shape;

/* Errors */
void schema_fail(compiler *c, const schema_node *node, const char *keyword, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void schema_fail_memory(compiler *c);
void *schema_alloc(compiler *c, size_t count, size_t size); /* zeroed; NULL and failed when memory is short */

/* Nodes and sets (json_schema_node.c) */
const schema_node *schema_child(compiler *c, const schema_node *parent, const char *keyword, const char *key,
                                const json_t *schema);
const schema_node *schema_root_node(compiler *c, const json_t *schema);
const schema_node *schema_find_node(compiler *c, const json_t *schema); /* NULL: it is new */
/* Of a new schema; place is in the arena, or NULL when memory was short. */
const schema_node *schema_new_node(compiler *c, const json_t *schema, const char *place, const json_t *resource);
const char *schema_own_id(const json_t *schema); /* the $id by which it is a resource; NULL: none */
/* Where a $ref leads (json_schema_reference.c). */
const schema_node *schema_resolve(compiler *c, const schema_node *from, const char *reference);
bool schema_is_one_resource(compiler *c); /* no part of the document has an $id of its own */
void schema_set_add(compiler *c, node_set *set, const schema_node *node);
/* The first schema given to this function that says the same, annotations aside, and from the same resource: itself if
 * there was none (json_schema_content.c). */
const schema_node *schema_first_like(compiler *c, const schema_node *node);

/* Schemas that are made up, and values (json_schema_made.c). They live as long as the compiler, and so do the parts of
 * the document that they hold, at their own places. NULL when memory is short, and the compiler failed; every function
 * takes such a NULL. */
json_t *schema_made(compiler *c);      /* {} */
json_t *schema_made_list(compiler *c); /* [] */
json_t *schema_made_text(compiler *c, const char *text, size_t bytes);
json_t *schema_made_integer(compiler *c, long long value);
json_t *schema_made_typed(compiler *c, const char *type); /* {"type": type} */
/* These return `to`, with one keyword or element more. */
json_t *schema_made_put(compiler *c, json_t *to, const char *key, size_t bytes, const json_t *value);
json_t *schema_made_set(compiler *c, json_t *to, const char *key, const json_t *value);
json_t *schema_made_add(compiler *c, json_t *to, const json_t *value);
/* All of "properties": one member. */
json_t *schema_made_member(compiler *c, json_t *to, const char *name, size_t bytes, const json_t *member);
json_t *schema_made_not(compiler *c, const schema_node *node); /* {"not": it}, the same one each time */

/* Shapes (json_schema_shape.c) */
typedef void (*shape_sink)(compiler *c, void *context, const shape *s);
/* Calls sink for each shape of the set that is not plainly contradictory. */
void schema_shapes(compiler *c, const node_set *set, shape_sink sink, void *context);
/* The same for the reader of arguments: types, seen_types and seen_values are as the schemas declare them, whether or
 * not something can satisfy them. */
void schema_declared_shapes(compiler *c, const node_set *set, shape_sink sink, void *context);
/* The name of the only keyword of the schema that can refuse a value; NULL when there are none or several. */
const char *schema_sole_keyword(const json_t *schema);
bool schema_set_is_empty(compiler *c, const node_set *set); /* provably: no value satisfies all of it */
unsigned schema_keyword_types(const char *keyword); /* the types for which a keyword that cannot be enforced matters */

/* Whether "unevaluatedProperties" or "unevaluatedItems" is a keyword anywhere in it, and not only the name of a member
 * or definition (json_schema_unevaluated.c). */
bool schema_has_unevaluated(const json_t *document);
/* What "unevaluatedProperties" ask of a member. `declares` tells whether the member is one
 * of those that the schema declares, by name or pattern. */
typedef bool declares_member(compiler *c, void *context, const schema_node *node);
void schema_unevaluated_set(compiler *c, const shape *s, declares_member *declares, void *context, node_set *out);

/* What a member or element is held to. */
void schema_member_set(compiler *c, const shape *s, const char *key, size_t bytes, node_set *out);
void schema_element_set(compiler *c, const shape *s, size_t index, node_set *out); /* json_schema_elements.c */

/* "prefixItems", or a list in "items" as drafts before 2020-12 have it; NULL: none. */
const json_t *schema_prefix(const json_t *schema);
/* Fails where the neighbours of this keyword of elements tell that it is not meant as any draft reads it. */
void schema_check_elements(compiler *c, const schema_node *node, const char *keyword, const json_t *value);

/* Adds what patternProperties say about this name; false when no pattern matches it. */
bool schema_patterns_add(compiler *c, const schema_node *node, const char *key, size_t bytes, node_set *out);

/* Values (json_schema_equal.c) */
unsigned schema_value_type(const json_t *value);
bool schema_values_equal(const json_t *a, const json_t *b);
/* Whether two schemas alone tell by enum or const, of the value or of a member that both require, that no value is of
 * both; false where that takes a closer look. */
bool schema_lists_differ(const json_t *a, const json_t *b);
bool schema_is_excluded(const shape *s, const json_t *value);

/* Values of enum and const (json_schema_values.c) */
bool schema_texts_fit(compiler *c, const shape *s, const json_t *value); /* pattern and format */
bool schema_count_of(const json_t *value, size_t *out);   /* up to SCHEMA_MOST_COUNT; false: no integer, 0 or more */
bool schema_string_is_empty(compiler *c, const shape *s); /* provably */
bool schema_value_fits(compiler *c, const shape *s, const json_t *value);
bool schema_listed_value_fits(compiler *c, const shape *s, const json_t *value); /* for one of the shape's values */
bool schema_part_fits(compiler *c, const node_set *set, const json_t *value);
bool schema_array_fits(compiler *c, const shape *s, const json_t *value); /* json_schema_array.c */
/* All values that satisfy the set, each once, as an array; NULL: they are not listed, or the compiler failed. */
json_t *schema_finite_values(compiler *c, const node_set *set);
void schema_check_blocked(compiler *c, const shape *s, unsigned types); /* fails when such a type is not enforced */

/* Texts as automata (json_schema_text.c); NULL when the compiler failed, and each takes such a NULL. */
const qn_automaton *schema_texts_automaton(compiler *c, const shape *s); /* all that the shape asks of a string */
const qn_automaton *schema_pattern_automaton(compiler *c, const schema_node *node, const char *regex, size_t bytes);
/* What is in a and is (`inside`) or is not in b. */
const qn_automaton *schema_intersect(compiler *c, const qn_automaton *a, const qn_automaton *b, bool inside,
                                     const schema_node *node, const char *keyword);
void schema_fail_from(compiler *c, const schema_node *node, const char *keyword, const qn_error *err);
qn_regex_letters schema_letters(compiler *c); /* characters as a JSON string spells them */

/* Numbers (json_schema_number.c) */
bool schema_number_fits(const shape *s, const json_t *value); /* bounds and multiples */
qn_expr schema_number_expr(compiler *c, const shape *s);

/* Expressions (json_schema_emit.c and its neighbours); QN_NO_WORDS when nothing matches. */
qn_expr schema_set_expr(compiler *c, const node_set *set); /* json_schema.c: compiled once, recursion as rules */
qn_expr schema_shape_expr(compiler *c, const shape *s);
qn_expr schema_object_expr(compiler *c, const shape *s);
bool schema_is_free_object(const shape *s); /* any object is of it */
qn_expr schema_array_expr(compiler *c, const shape *s);
qn_expr schema_string_expr(compiler *c, const shape *s, bool bare);
qn_expr schema_values_expr(compiler *c, const json_t *const *values, size_t count, bool bare);
qn_expr schema_bare_values_expr(compiler *c, const shape *s);           /* the shape's values, strings as they are */
qn_expr schema_name_expr(compiler *c, const char *name, size_t bytes);  /* a string literal with its quotes */
qn_expr schema_spelt_expr(compiler *c, const char *text, size_t bytes); /* without quotes */
/* What "propertyNames" say (json_schema_names.c): of this name; and all names, where they are listed, as an array or
 * NULL.
 */
bool schema_name_fits(compiler *c, const shape *s, const char *name, size_t bytes);
const json_t *schema_listed_names(compiler *c, const shape *s);
/* Whether patterns or "propertyNames" tell names apart that are not declared; if not, the value of such a member, and
 * the names that are none of these, with their quotes but the first. */
bool schema_names_matter(const shape *s);
qn_expr schema_other_value_expr(compiler *c, const shape *s);
qn_expr schema_other_names_expr(compiler *c, const schema_text *names, size_t count);
/* A member whose name is none of these, with its value. */
qn_expr schema_other_members_expr(compiler *c, const shape *s, const schema_text *names, size_t count);

#endif
