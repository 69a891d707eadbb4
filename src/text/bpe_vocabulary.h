/* The vocabulary of a byte-level tokenizer: which bytes each id stands for, and back.
 *
 * A tokenizer.json spells bytes as characters of GPT-2's byte alphabet ("Ġ" for the space). A token spelt in it
 * stands for those bytes; any other token ("a b", with a real space) for its own UTF-8, and no text is ever encoded to
 * it unless it is an added token. Filled by one thread, then immutable and shared. */
#ifndef QN_TEXT_BPE_VOCABULARY_H
#define QN_TEXT_BPE_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct qn_vocabulary qn_vocabulary;

enum { QN_VOCABULARY_MAX_TOKENS = 1 << 23 };

qn_status qn_vocabulary_new(qn_vocabulary **out, qn_error *err);
void qn_vocabulary_free(qn_vocabulary *vocabulary); /* NULL is fine */

/* Adds a token as a tokenizer.json spells it, in any order of ids. QN_BAD_INPUT: the id is negative or beyond
 * QN_VOCABULARY_MAX_TOKENS, or all tokens together exceed 1 GiB. */
qn_status qn_vocabulary_add(qn_vocabulary *vocabulary, const char *spelling, size_t bytes, int64_t id, qn_error *err);

/* To be called once, after the tokens of the model and before the functions below. QN_BAD_INPUT: the ids are not
 * 0..count-1, each once; two tokens are spelt alike; or one of the 256 single bytes is missing. */
qn_status qn_vocabulary_seal(qn_vocabulary *vocabulary, qn_error *err);

/* After sealing: one more token with the next id, which is not found by its spelling or bytes. */
qn_status qn_vocabulary_append(qn_vocabulary *vocabulary, const char *spelling, size_t bytes, qn_error *err);

size_t qn_vocabulary_count(const qn_vocabulary *vocabulary);

/* The bytes of an id below the count. */
const char *qn_vocabulary_bytes(const qn_vocabulary *vocabulary, int32_t id, size_t *bytes);

/* The id of the token spelt so, -1 when there is none. *scratch, at least `bytes` long, is overwritten. */
int32_t qn_vocabulary_find(const qn_vocabulary *vocabulary, const char *spelling, size_t bytes, char *scratch);

/* The same; `guess` and the id behind it are tried first. The tokens that merges make mostly come in order of id, so
 * that the one before is a good guess and saves the search; -1 is none. */
int32_t qn_vocabulary_find_joined(const qn_vocabulary *vocabulary, const char *spelling, size_t bytes, int32_t guess,
                                  char *scratch);

/* The id of the token that is spelt in the byte alphabet and stands for exactly these bytes, -1 when there is none. */
int32_t qn_vocabulary_find_bytes(const qn_vocabulary *vocabulary, const char *text, size_t bytes);

/* The id of the token that stands for the single byte. */
int32_t qn_vocabulary_byte_id(const qn_vocabulary *vocabulary, uint8_t byte);

#endif
