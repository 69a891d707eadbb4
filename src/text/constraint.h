/* What an answer may be: thoughts, free up to a budget, then a word of a grammar, then its end. As a token mask
 * (engine/request.h): which tokens may follow a beginning of the answer is a function of that beginning alone, so that
 * drafts are held to it as well, and rejected ones leave no trace.
 *
 * Where there is a grammar, thoughts are text: neither another turn nor a call may begin in them, and the answer may
 * not end there. Once the grammar's word cannot go on, only the end of the answer is left.
 *
 * A thought that uses its budget up is closed with </think>, between two characters: at most three tokens later when
 * the budget ends inside of one.
 *
 * qn_constraint_fill may be called from several threads at once; it remembers the last places of the grammar and goes
 * on from the nearest one. */
#ifndef QN_TEXT_CONSTRAINT_H
#define QN_TEXT_CONSTRAINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "grammar/token_mask.h"
#include "text/tokenizer.h"

typedef enum qn_thoughts {
    QN_THOUGHTS_NONE,     /* the answer is content from its first token on */
    QN_THOUGHTS_OPEN,     /* the prompt ends inside of <think> */
    QN_THOUGHTS_OPTIONAL, /* the answer may begin with <think> */
} qn_thoughts;

typedef struct qn_constraint_options {
    const qn_tokenizer *tokenizer;
    size_t vocab_size; /* the model's: of the mask */
    const int32_t *eos;
    size_t eos_count;
    qn_thoughts thoughts; /* NONE where the tokenizer has no </think> */
    bool has_budget;
    size_t budget;                /* tokens between <think> and </think> */
    const qn_grammar *grammar;    /* NULL: what follows the thoughts is free */
    qn_mask_cache *cache;         /* of that grammar and the tokenizer's tokens; NULL without one */
    const uint64_t *thought_mask; /* of the tokenizer (qn_thought_mask_new); with a grammar that thoughts precede */
} qn_constraint_options;

/* What a thought goes on with that a word must follow, text and </think>, made once for all constraints of a tokenizer:
 * a bit for each of vocab_size tokens. The caller's, to be released with qn_free. QN_RESOURCE. */
qn_status qn_thought_mask_new(const qn_tokenizer *tokenizer, size_t vocab_size, uint64_t **out, qn_error *err);

typedef struct qn_constraint qn_constraint;

/* What the options point to must outlive it. */
qn_status qn_constraint_new(const qn_constraint_options *options, qn_constraint **out, qn_error *err);
void qn_constraint_free(qn_constraint *constraint); /* NULL is fine */

/* For qn_token_mask.fill, the constraint as its context. Behind a token that may not be there and behind the end of the
 * answer, only its end may come; nothing where `eos` names no token. QN_RESOURCE: out of memory. QN_USAGE: the grammar
 * has more readings of the answer than a matcher follows, so that what may come is not known. */
qn_status qn_constraint_fill(void *constraint, const int32_t *answer, size_t count, uint64_t *allowed);

#endif
