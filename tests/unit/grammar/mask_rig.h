/* What the tests of token masks share: a small vocabulary, and what a mask over it means. */
#ifndef MASK_RIG_H
#define MASK_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "grammar/token_mask.h"

enum { RIG_TOKENS = 300, RIG_WORDS = (RIG_TOKENS + 63) / 64, RIG_LONGEST = 12, RIG_BYTES = 32 };

typedef struct mask_vocabulary {
    char bytes[RIG_TOKENS][RIG_BYTES];
    size_t lengths[RIG_TOKENS];
    bool no_text[RIG_TOKENS];
} mask_vocabulary;

/* The texts are the first tokens; the others have none. */
void mask_rig_list(mask_vocabulary *v, const char *const *texts, size_t count);

/* Of a mask_vocabulary as the context (token_mask.h). */
const char *mask_rig_bytes(void *context, int32_t token, size_t *length);
qn_vocabulary_trie *mask_rig_trie(mask_vocabulary *v);

qn_grammar_builder *mask_rig_builder(void);
qn_grammar *mask_rig_build(qn_grammar_builder *b, qn_expr root); /* frees the builder */
qn_grammar *mask_rig_regex(const char *regex);
qn_mask_cache *mask_rig_cache(const qn_grammar *g, const qn_vocabulary_trie *trie);

/* What a mask means, one token after the other; *exhausted: some token ran out of stacks. */
void mask_rig_fill(const qn_matcher *m, const mask_vocabulary *v, uint64_t mask[RIG_WORDS], bool *exhausted);

#endif
