/* Which tokens of a vocabulary may come next at a place of a grammar.
 *
 * qn_vocabulary_trie: the bytes of all ordinary tokens as a trie, built once for a tokenizer, constant, shared.
 * Added tokens (the caller passes them with bytes NULL) are in no text: they are allowed only where the grammar has
 * them as letters. A token is allowed when the matcher takes all its bytes. Empty tokens never are. */
#ifndef QN_GRAMMAR_TOKEN_MASK_H
#define QN_GRAMMAR_TOKEN_MASK_H

#include <stddef.h>
#include <stdint.h>

#include "grammar/matcher.h"

typedef struct qn_vocabulary_trie qn_vocabulary_trie;

/* bytes(context, token, &length): the token's bytes, or NULL for one that is no text; they are copied. */
qn_status qn_vocabulary_trie_new(size_t token_count, const char *(*bytes)(void *context, int32_t token, size_t *length),
                                 void *context, qn_vocabulary_trie **out, qn_error *err);
void qn_vocabulary_trie_free(qn_vocabulary_trie *trie);

/* What the masks of one grammar over one vocabulary have in common, computed as needed and kept, bounded in memory;
 * safe for any number of threads. Both must outlive it. */
typedef struct qn_mask_cache qn_mask_cache;
qn_status qn_mask_cache_new(const qn_grammar *grammar, const qn_vocabulary_trie *trie, qn_mask_cache **out,
                            qn_error *err);
void qn_mask_cache_free(qn_mask_cache *cache);

/* What it keeps at present, in bytes, about; at most 64 MiB. */
size_t qn_mask_cache_bytes(qn_mask_cache *cache);

/* Sets bit t % 64 of allowed[t / 64] for each token that may come next; the words come zeroed. The end of the answer is
 * the caller's matter (qn_matcher_can_end). Errors: QN_USAGE, the grammar has more readings here than a matcher
 * follows, or they take too much work; QN_RESOURCE, out of memory.
 *
 * Readings may run out inside of a token. It is left out when its first byte is a token too, for its text can be
 * written that way, until the byte at which they run out is the next one: that is QN_USAGE. So nothing that can be
 * completed is lost, and no token is allowed whose text is not known to be right. */
qn_status qn_mask_fill(qn_mask_cache *cache, const qn_matcher *matcher, uint64_t *allowed, qn_error *err);

#endif
