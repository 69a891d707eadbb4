/* Byte-pair encoding of one piece of text: starting from single bytes, the adjacent pair whose merge was learned first
 * is joined, the leftmost of equals, until no pair has a merge (Sennrich et al., "Neural Machine Translation of Rare
 * Words with Subword Units", 2016, in the form of Hugging Face `tokenizers`).
 *
 * O(n log n) for a piece of n bytes, whatever its contents. Filled by one thread, then immutable and shared; a
 * qn_bpe_scratch belongs to one thread at a time. */
#ifndef QN_TEXT_BPE_H
#define QN_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/bpe_vocabulary.h"
#include "text/tokenizer.h"

typedef struct qn_bpe qn_bpe;

/* Memory that is kept between pieces. Start from {0}; release with qn_bpe_scratch_free. */
typedef struct qn_bpe_scratch {
    struct qn_bpe_symbol *symbols; /* `capacity` */
    uint64_t *heap;                /* 2 * capacity */
    uint32_t *next_in_chain;       /* capacity */
    uint32_t *first_of_pair;       /* one for each pair of bytes */
    size_t capacity;
} qn_bpe_scratch;

/* `vocabulary` is sealed; it becomes the model's when this succeeds. `ignore_merges`: a piece that is a token as a
 * whole is that token, however its merges would go. */
qn_status qn_bpe_new(qn_vocabulary *vocabulary, bool ignore_merges, qn_bpe **out, qn_error *err);
void qn_bpe_free(qn_bpe *bpe); /* NULL is fine; frees the vocabulary too */

/* Adds a merge in the order in which they were learned, both parts as a tokenizer.json spells them. A pair that comes
 * again takes its later place. QN_BAD_INPUT: a part, or the two joined, is not a token of the vocabulary. */
qn_status qn_bpe_add_merge(qn_bpe *bpe, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                           qn_error *err);

/* To be called once, after the last merge. */
qn_status qn_bpe_seal(qn_bpe *bpe, qn_error *err);

qn_vocabulary *qn_bpe_vocabulary(qn_bpe *bpe);
const qn_vocabulary *qn_bpe_tokens(const qn_bpe *bpe);

/* Appends the ids of piece[0..bytes), at most INT32_MAX bytes, to `out`. Any bytes will do. Fails only when out of
 * memory. */
qn_status qn_bpe_encode(const qn_bpe *bpe, qn_bpe_scratch *scratch, const char *piece, size_t bytes, qn_tokens *out,
                        qn_error *err);
void qn_bpe_scratch_free(qn_bpe_scratch *scratch);

#endif
