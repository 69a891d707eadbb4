/* The rules of a grammar's text by name, and the alternatives of the one being read.
 *
 * A rule that begins with itself (a ::= a x | y) has no meaning for a matcher that reads from the left; as y x* it has,
 * and that is how qn_alternatives_finish builds it. Rules that come to themselves on their left through others are left
 * to qn_grammar_build, which refuses them by name. */
#ifndef QN_GRAMMAR_RULE_TABLE_H
#define QN_GRAMMAR_RULE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "grammar/grammar.h"

enum { QN_RULE_NAME_MAX_BYTES = 128 };

typedef struct qn_named_rule {
    const char *name; /* in the grammar's text, no NUL behind it */
    size_t bytes;
    size_t at;    /* where it was defined, or first used while it is not */
    bool defined; /* the owner's to set */
    qn_rule rule;
} qn_named_rule;

/* Start from {0}; release with qn_rule_table_free. */
typedef struct qn_rule_table {
    qn_named_rule *rules; /* in order of appearance */
    size_t count, capacity;
    size_t *slots; /* open addressing: index + 1 */
    size_t slot_count;
} qn_rule_table;

/* The rule of this name, declared with the builder when it is new. `name` is not copied and is to outlive the table;
 * the pointer is valid until the next call. NULL: out of memory. */
qn_named_rule *qn_rule_table_get(qn_rule_table *table, qn_grammar_builder *b, const char *name, size_t bytes,
                                 size_t at);
/* NULL: there is none. */
qn_named_rule *qn_rule_table_find(const qn_rule_table *table, const char *name, size_t bytes);
const qn_named_rule *qn_rule_table_undefined(const qn_rule_table *table); /* the first; NULL: all are defined */
void qn_rule_table_free(qn_rule_table *table);

/* A growing stack of expressions; `failed` when it could not grow. Start from {0}; release with qn_expr_list_free. */
typedef struct qn_expr_list {
    qn_expr *items;
    size_t count, capacity;
    bool failed;
} qn_expr_list;

void qn_expr_list_add(qn_expr_list *list, qn_expr expr);
/* Takes the items from `base` on off the list and joins them: in sequence, or as alternatives. */
qn_expr qn_expr_list_concat(qn_expr_list *list, size_t base, qn_grammar_builder *b);
qn_expr qn_expr_list_choice(qn_expr_list *list, size_t base, qn_grammar_builder *b);
void qn_expr_list_free(qn_expr_list *list);

/* The alternatives of one rule: what begins with the rule itself, without that beginning, and what does not. */
typedef struct qn_alternatives {
    qn_expr_list plain, recursive;
} qn_alternatives;

/* The rule's expression; empties both lists. No plain alternative: one that never ends, qn_expr_never. */
qn_expr qn_alternatives_finish(qn_alternatives *alternatives, qn_grammar_builder *b);

#endif
