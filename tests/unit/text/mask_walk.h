/* Random walks through token masks, as sampling does them. */
#ifndef MASK_WALK_H
#define MASK_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "text/constraint.h"
#include "text/tokenizer.h"
#include "unit/random_stream.h"

enum { MASK_WORDS = 64 }; /* of vocabularies of up to 4,096 tokens */

bool mask_has(const uint64_t *mask, int32_t token);
void mask_set(uint64_t *mask, int32_t token);
size_t mask_count(const uint64_t *mask);

/* The n-th allowed token, from 0; -1 when there are not so many. */
int32_t mask_at(const uint64_t *mask, size_t n);

/* An allowed token at random, in one case of four an added one where there are any; -1 when nothing is allowed. */
int32_t mask_draw(const qn_tokenizer *tokenizer, const uint64_t *mask, random_stream *random);

/* Fails the test where filling fails. The mask is zeroed before. */
void mask_fill(qn_constraint *constraint, const qn_tokens *answer, uint64_t mask[MASK_WORDS]);

/* Draws tokens onto the answer until one of eos, which is left out; false when none came within `most` tokens. */
bool mask_walk(qn_constraint *constraint, const qn_constraint_options *options, size_t most, random_stream *random,
               qn_tokens *answer);

/* The bytes of the tokens from `from` on, added ones as they are spelled. */
void mask_text(const qn_tokenizer *tokenizer, const qn_tokens *answer, size_t from, qn_buffer *out);

#endif
