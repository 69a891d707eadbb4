/* The syntax tree of a template. The parser makes it, scope.c fills in which variable each name is; from then on it
 * never changes. Everything lives in the template's arena. */
#ifndef QN_TEXT_JINJA_NODE_H
#define QN_TEXT_JINJA_NODE_H

#include "text/jinja/filters.h"
#include "text/jinja/number.h"
#include "text/jinja/value.h"

typedef enum qn_node_kind {
    /* expressions */
    QN_NODE_CONSTANT,
    QN_NODE_NAME,
    QN_NODE_NAMESPACE_NAME, /* ns.attribute as the target of an assignment */
    QN_NODE_TUPLE,
    QN_NODE_LIST,
    QN_NODE_DICT,
    QN_NODE_CONDITIONAL,
    QN_NODE_BINARY,
    QN_NODE_NEGATE,
    QN_NODE_PLUS,
    QN_NODE_AND,
    QN_NODE_OR,
    QN_NODE_NOT,
    QN_NODE_COMPARE,
    QN_NODE_CONCATENATE,
    QN_NODE_ATTRIBUTE,
    QN_NODE_ITEM,
    QN_NODE_SLICE,
    QN_NODE_FILTER,
    QN_NODE_TEST,
    QN_NODE_CALL,
    /* statements */
    QN_NODE_OUTPUT,
    QN_NODE_FOR,
    QN_NODE_IF,
    QN_NODE_MACRO,
    QN_NODE_CALL_BLOCK,
    QN_NODE_FILTER_BLOCK,
    QN_NODE_WITH,
    QN_NODE_SET,
    QN_NODE_SET_BLOCK,
    QN_NODE_BREAK,
    QN_NODE_CONTINUE
} qn_node_kind;

typedef struct qn_node qn_node;
typedef struct qn_symbol qn_symbol; /* compiler.h */

typedef struct qn_nodes {
    size_t count;
    qn_node **items;
} qn_nodes;

/* A variable: a slot of the activation `hops` functions further out. */
typedef struct qn_variable {
    uint32_t hops, slot;
} qn_variable;

/* What happens to a variable when its scope is entered. */
typedef enum qn_load_kind {
    QN_LOAD_PARAMETER, /* nothing: whoever enters has set it */
    QN_LOAD_CONTEXT,   /* takes the context's value, if it has one */
    QN_LOAD_OUTER,     /* copies the variable of the same name further out */
    QN_LOAD_NOTHING    /* becomes unset */
} qn_load_kind;

typedef struct qn_load {
    qn_load_kind kind;
    uint32_t slot;
    qn_variable outer;  /* QN_LOAD_OUTER */
    const qn_str *name; /* QN_LOAD_CONTEXT */
} qn_load;

typedef struct qn_scope_entry {
    size_t count;
    const qn_load *loads;
} qn_scope_entry;

typedef enum qn_comparison {
    QN_COMPARISON_EQUAL,
    QN_COMPARISON_NOT_EQUAL,
    QN_COMPARISON_LESS,
    QN_COMPARISON_LESS_EQUAL,
    QN_COMPARISON_GREATER,
    QN_COMPARISON_GREATER_EQUAL,
    QN_COMPARISON_IN,
    QN_COMPARISON_NOT_IN
} qn_comparison;

/* The arguments of a call, filter or test. */
typedef struct qn_call_arguments {
    qn_nodes positional;
    qn_nodes keyword_values;
    const qn_str **keyword_names;
    qn_node *positional_rest, *keyword_rest; /* *x and **x, or NULL */
} qn_call_arguments;

/* What macros and call blocks share: a function of template text. */
typedef struct qn_macro_code {
    const qn_str *name;  /* NULL for a call block */
    qn_nodes parameters; /* NAME nodes */
    qn_nodes defaults;   /* of the last parameters */
    qn_nodes body;
    qn_scope_entry entry;
    uint32_t slots;
    bool takes_caller, takes_keywords, takes_rest; /* the body reads `caller`, `kwargs`, `varargs` */
    bool names_caller;                             /* a parameter is called so */
    uint32_t caller_slot, keywords_slot, rest_slot;
} qn_macro_code;

typedef struct qn_for {
    qn_node *target, *iterable;
    qn_node *test, *test_target; /* `for x in y if test`: NULL without; the target again, within the test's function */
    bool recursive;
    qn_nodes body, otherwise;
    qn_scope_entry entry, otherwise_entry, test_entry;
    bool has_loop; /* the body reads `loop` */
    uint32_t loop_slot;
    uint32_t slots, test_slots; /* of the functions that a recursive loop and a test are */
} qn_for;

typedef struct qn_branch {
    qn_node *test;
    qn_nodes body;
} qn_branch;

struct qn_node {
    qn_node_kind kind;
    uint32_t offset; /* byte of the source at which it starts */
    uint32_t height; /* levels of expressions in it, 1 for a leaf */
    union {
        qn_value constant;
        struct {
            qn_symbol *symbol;
            const qn_str *text;
            const qn_str *attribute; /* NAMESPACE_NAME */
            qn_variable variable;
        } name;
        qn_nodes items; /* TUPLE, LIST, CONCATENATE, OUTPUT */
        struct {
            qn_nodes keys, values;
        } dict;
        struct {
            qn_node *test, *then, *otherwise; /* otherwise may be NULL */
        } conditional;
        struct {
            qn_operator operation;
            qn_node *left, *right; /* BINARY, AND, OR */
        } binary;
        qn_node *operand; /* NEGATE, PLUS, NOT */
        struct {
            qn_nodes operands; /* one more than comparisons */
            const qn_comparison *comparisons;
        } compare;
        struct {
            qn_node *object;
            const qn_str *name;
        } attribute;
        struct {
            qn_node *object, *key;
        } item;
        struct {
            qn_node *object, *start, *stop, *step; /* the last three may be NULL */
        } slice;
        struct {
            qn_node *value; /* what is called, filtered or tested; NULL: the text of the filter block */
            const qn_str *name;
            const qn_filter *filter; /* NULL: there is none of that name, an error when it is reached */
            const qn_function *test; /* the same */
            qn_call_arguments arguments;
        } call;
        qn_for *loop;
        struct {
            size_t count;
            qn_branch *branches;
            qn_nodes otherwise;
        } branch;
        struct {
            qn_macro_code *code;
            qn_symbol *symbol;
            qn_variable variable;
            qn_node *call; /* CALL_BLOCK; NULL for `generation`, which calls its own body */
        } macro;
        struct {
            qn_node *target, *filter; /* FILTER_BLOCK has no target, SET_BLOCK may have no filter */
            qn_nodes body;
            qn_scope_entry entry;
        } block;
        struct {
            qn_nodes targets, values, body;
            qn_scope_entry entry;
        } with;
        struct {
            qn_node *target, *value;
        } set;
    };
};

#endif
