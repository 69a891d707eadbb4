/* What the parts of the compiler from expressions to the automaton share; included by compile*.c only.
 *
 * Each function here returns at once when the builder has failed, and makes it fail past a bound or when memory is
 * short; what they return then is of no use. */
#ifndef QN_GRAMMAR_COMPILE_INTERNAL_H
#define QN_GRAMMAR_COMPILE_INTERNAL_H

#include "grammar/grammar_internal.h"

enum { COMPILE_RETURN = 0 /* the state that returns */ };

/* Work to do: `entry` shall match the expression without its first `skip` parts and go on with `next`. */
typedef struct compile_task {
    qn_expr expr;
    uint32_t skip, entry, next;
    bool whole; /* made here although it is shared: the body of its own rule */
} compile_task;

typedef struct compiler {
    qn_grammar_builder *b; /* its error takes ours */
    const qn_analysis *analysis;
    qn_grammar *g;
    size_t chained; /* states of compile_add_chained */
    size_t branch_capacity;
    size_t state_capacity, target_capacity, repeat_capacity, group_capacity;
    uint32_t *uses, *sizes;
    uint32_t *expr_entries, *rule_entries; /* 0: not made yet */
    compile_task *tasks;
    size_t task_count, task_capacity;
    struct compile_literals *literals; /* of compile_choice.c, once there is a choice */
} compiler;

/* Room for `more` elements of the grammar's lists, or of the compiler's own. */
bool compile_reserve(compiler *c, void *block, size_t *capacity, size_t count, size_t more, size_t size);

uint32_t compile_add_state(compiler *c, qn_state_kind kind, uint32_t a, uint32_t b);
/* Takes the byte and goes on with next. Such states are as many as literals are long: they have a bound of their own.
 */
uint32_t compile_add_chained(compiler *c, uint32_t byte, uint32_t next);
void compile_set_state(compiler *c, uint32_t state, qn_state_kind kind, uint32_t a, uint32_t b);
uint32_t compile_new_entry(compiler *c);                 /* a state that is set later */
uint32_t compile_add_targets(compiler *c, size_t count); /* room for those of one split; their first index */
void compile_split(compiler *c, uint32_t state, const uint32_t *targets, size_t count);

void compile_push(compiler *c, qn_expr expr, uint32_t skip, uint32_t entry, uint32_t next, bool whole);
uint32_t compile_copy(compiler *c, qn_expr expr, uint32_t next); /* the entry of a new copy in front of `next` */
bool compile_is_shared(const compiler *c, qn_expr expr);         /* made once, as a rule that is called */

/* A choice (compile_choice.c). */
void compile_choice(compiler *c, const compile_task *t, const qn_expr_node *node);
void compile_choice_free(compiler *c);

/* Groups that are followed as one (compile_joint.c). */
void compile_joint(compiler *c, const compile_task *t, const qn_expr_node *node);

/* Takes out jumps; with `calls` also calls that return only to return. `ends` has room for an element of each state
 * (compile_jumps.c). */
void compile_straighten(qn_grammar *g, uint32_t *ends, bool calls);

#endif
