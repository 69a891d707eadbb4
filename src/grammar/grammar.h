/* A formal language over bytes and single tokens, built from expressions and rules, compiled once and then constant.
 *
 * Front-ends (regex.h, gbnf.h, lark.h, json_schema.h, the native tool-call format) describe a language with a builder;
 * matcher.h follows it byte by byte; token_mask.h turns a matcher's place into the set of tokens that may come next.
 *
 * The alphabet is the 256 bytes and, besides, token ids: an added token such as <tool_call> is one letter of its own
 * (qn_expr_token) and never its spelling. Text is UTF-8: what a front-end builds from characters accepts only whole,
 * valid ones.
 *
 * A builder that failed (out of memory, past a bound, a misuse) stays so: further calls give an expression that must
 * not be relied on, and qn_grammar_build tells the first error. So front-ends build freely and check once. */
#ifndef QN_GRAMMAR_GRAMMAR_H
#define QN_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    QN_GRAMMAR_MAX_EXPRESSIONS = 1 << 18, /* of one grammar: what hostile input can cost */
    QN_GRAMMAR_MAX_PARTS = 1 << 20,       /* of all concatenations, choices and groups together */
    QN_GRAMMAR_MAX_BYTES = 1 << 24,       /* of all literals together */
    QN_GRAMMAR_MAX_STATES = 1 << 20,      /* of the compiled automaton, and besides */
    QN_GRAMMAR_MAX_CHAINED = 1 << 22,     /* those of the bytes in which no other option of a choice shares */
    QN_GRAMMAR_MAX_ITEMS = 512,           /* of one qn_expr_each_once */
    QN_GRAMMAR_MAX_JOINT_ITEMS = 1 << 13  /* of one qn_expr_joint_groups; four times as many edges */
};
#define QN_UNBOUNDED SIZE_MAX

typedef struct qn_grammar_builder qn_grammar_builder;
typedef struct qn_grammar qn_grammar; /* constant: any number of threads may match with it */

typedef uint32_t qn_expr; /* an expression of one builder; may be used several times */
typedef uint32_t qn_rule;

typedef struct qn_char_range {
    uint32_t first, last; /* Unicode scalar values, both inside */
} qn_char_range;

qn_status qn_grammar_builder_new(qn_grammar_builder **out, qn_error *err);
void qn_grammar_builder_free(qn_grammar_builder *builder); /* NULL is fine */

qn_expr qn_expr_empty(qn_grammar_builder *b); /* "" */
qn_expr qn_expr_never(qn_grammar_builder *b); /* nothing at all */
qn_expr qn_expr_bytes(qn_grammar_builder *b, const void *bytes, size_t count);
qn_expr qn_expr_text(qn_grammar_builder *b, const char *text); /* the same of a C string */
qn_expr qn_expr_byte_set(qn_grammar_builder *b, const uint64_t set[4]);
/* One character in UTF-8 out of the ranges (in any order; surrogates in them count as absent). */
qn_expr qn_expr_chars(qn_grammar_builder *b, const qn_char_range *ranges, size_t count);
qn_expr qn_expr_chars_except(qn_grammar_builder *b, const qn_char_range *ranges, size_t count);
qn_expr qn_expr_token(qn_grammar_builder *b, int32_t token);
qn_expr qn_expr_concat(qn_grammar_builder *b, const qn_expr *parts, size_t count);
qn_expr qn_expr_concat2(qn_grammar_builder *b, qn_expr first, qn_expr second);
qn_expr qn_expr_choice(qn_grammar_builder *b, const qn_expr *options, size_t count);
qn_expr qn_expr_optional(qn_grammar_builder *b, qn_expr expr);
/* From min to max times (max may be QN_UNBOUNDED). Costs memory like log(max), not max. */
qn_expr qn_expr_repeat(qn_grammar_builder *b, qn_expr expr, size_t min, size_t max);

/* Items in any order, each at most once, those with required[i] exactly once; `extra` (optional: NULL means none) any
 * number of times among them; `separator` between each two; the number of all items from min to max. This is what a
 * JSON object's members are: the state keeps a bit per item, so that n properties cost n, not n! or 2^n. */
typedef struct qn_each_once {
    const qn_expr *items;
    const bool *required;
    size_t count;
    const qn_expr *extra;
    qn_expr separator;
    size_t min, max;
} qn_each_once;
qn_expr qn_expr_each_once(qn_grammar_builder *b, const qn_each_once *group);

/* A text of one of several such groups, all followed as one: what came is a bit for each item, and a group is still
 * possible if that is a part of what it has. So a thousand groups are one place in a text and not a thousand, and equal
 * items of theirs are one.
 *
 * The items are the leaves of a tree whose edges are expressions: an item is what stands along its way from the root.
 * What items begin with alike is followed once. */
typedef struct qn_joint_edge {
    uint32_t from; /* a node; 0 is the root, every other one has an edge that leads to it, before those from it */
    uint32_t to;   /* a node; 0: the item `first` is through */
    uint32_t first, last; /* the items below it, both inside */
    qn_expr label;        /* one from the root has no empty word */
} qn_joint_edge;

typedef struct qn_joint_option {
    const uint32_t *items;
    const bool *required; /* no repeated one is */
    size_t count;
    size_t min, max; /* of items; one comes at least */
} qn_joint_option;

typedef struct qn_joint_groups {
    const bool *repeated; /* of each item: it may come any number of times */
    size_t item_count;
    const qn_joint_option *options;
    size_t option_count;
    const qn_joint_edge *edges; /* those from one node next to each other */
    size_t edge_count, node_count;
    qn_expr separator;
} qn_joint_groups;
qn_expr qn_expr_joint_groups(qn_grammar_builder *b, const qn_joint_groups *groups);

/* An automaton: state 0 is its start, an edge is an expression that leads from one state to another, a word may end in
 * an accepting state. Edges with an empty label may not form a cycle. Without states it matches nothing. */
typedef struct qn_graph_edge {
    uint32_t from, to;
    qn_expr label;
} qn_graph_edge;
qn_expr qn_expr_graph(qn_grammar_builder *b, const qn_graph_edge *edges, size_t edge_count, const bool *accepting,
                      size_t state_count);

/* Rules make recursion: declare, use, define (once). The name is for errors; it is copied. */
qn_rule qn_rule_declare(qn_grammar_builder *b, const char *name);
void qn_rule_define(qn_grammar_builder *b, qn_rule rule, qn_expr expr);
qn_expr qn_expr_rule(qn_grammar_builder *b, qn_rule rule);

/* Makes b failed with this error, unless it is so already: for front-ends. Returns the status of the first error. */
qn_status qn_grammar_builder_fail(qn_grammar_builder *b, const qn_error *err);
qn_status qn_grammar_builder_status(const qn_grammar_builder *b, qn_error *err);

/* Compiles `root`; the builder can be freed. QN_USAGE: a rule that is used and not defined, or recursive on its left
 * (named); past a bound; a language without any word at all ("no text can match"). QN_RESOURCE: out of memory. What
 * can never be completed is left out, so that no place of a matcher is a dead end. */
qn_status qn_grammar_build(qn_grammar_builder *b, qn_expr root, qn_grammar **out, qn_error *err);
void qn_grammar_free(qn_grammar *grammar); /* NULL is fine */

#endif
