/* Constraints for tests, over two tokenizers: a small one, and the shipped model's. And what their masks should be: a
 * check of every token of the vocabulary with a fresh matcher. */
#ifndef CONSTRAINT_RIG_H
#define CONSTRAINT_RIG_H

#include "mask_walk.h"
#include "text/constraint.h"

/* Tokens of the small one: letters by their codes, "ab" "ba" "aa" "bb" "aab" "abab" "bba" "bbbb" from 256 on, and
 * these. BAAB is an added token that is spelled like text. */
enum { THINK = 264, THINK_END, END, STOP, CALL, BAAB, SMALL_SIZE, SMALL_VOCAB = SMALL_SIZE + 70 };
extern const int32_t small_eos[2];

/* Set-up and tear-down of a group of tests. */
int constraint_rig_open(void **state);
int constraint_rig_close(void **state);

/* Without a grammar, thoughts and budget. */
qn_constraint_options small_options(void);
qn_constraint_options tiny_options(void);

qn_grammar_builder *new_builder(void);
void hold_to(qn_constraint_options *o, qn_grammar_builder *b, qn_expr root); /* takes the builder */
void hold_to_text(qn_constraint_options *o, const char *text);
void hold_to_json(qn_constraint_options *o); /* an object, perhaps behind <tool_call> */
void let_go(qn_constraint_options *o);       /* of the grammar */
qn_constraint *constrain(const qn_constraint_options *o);

/* Behind `count` tokens of a word; false where some token has more readings than a matcher follows. */
bool expect_word(const qn_constraint_options *o, const int32_t *word, size_t count, uint64_t *mask);
/* All text and what is named besides; -1 names nothing. */
void expect_text(const qn_constraint_options *o, int32_t besides, uint64_t *mask);
void expect_all(const qn_constraint_options *o, uint64_t *mask);

/* `what` begins the sentence of a failure. */
void check_mask(qn_constraint *c, const qn_tokens *answer, const uint64_t *expected, const char *what);
void check_only(qn_constraint *c, const qn_tokens *answer, const int32_t *tokens, size_t count);

/* As ordinary text, whatever it spells. */
void add_text(const qn_tokenizer *tokenizer, const char *text, qn_tokens *out);

#endif
