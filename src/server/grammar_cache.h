/* Grammars of answers that requests asked for lately, so that agents that send the same tools with every turn have them
 * compiled once, and share the token masks that earlier answers have computed.
 *
 * Any number of threads. Least recently used goes first. A grammar lives on while an answer holds it. */
#ifndef QN_SERVER_GRAMMAR_CACHE_H
#define QN_SERVER_GRAMMAR_CACHE_H

#include <stddef.h>

#include "base/error.h"
#include "text/answer_grammar.h"

enum {
    QN_GRAMMAR_CACHE_ENTRIES = 32,
    QN_GRAMMAR_CACHE_BYTES = 128 << 20,      /* of the masks of all of them, looked at whenever one is asked for */
    QN_GRAMMAR_CACHE_MAX_KEY_BYTES = 1 << 20 /* of a request's tools and format; a larger one is compiled each time */
};

typedef struct qn_grammar_cache qn_grammar_cache;

/* Tokenizer and trie must outlive it. QN_RESOURCE. */
qn_status qn_grammar_cache_new(const qn_tokenizer *tokenizer, const qn_vocabulary_trie *trie, qn_grammar_cache **out,
                               qn_error *err);
void qn_grammar_cache_free(qn_grammar_cache *cache); /* NULL is fine */

/* As qn_answer_grammar_new; *out is a reference of the caller's. */
qn_status qn_grammar_cache_get(qn_grammar_cache *cache, const qn_answer_format *format, qn_calls_place place,
                               const qn_call_rules *rules, qn_answer_grammar **out, qn_error *err);

typedef struct qn_grammar_counts {
    size_t hits, compiled; /* since the beginning: grammars that were there; that had to be compiled */
    size_t kept, bytes;    /* now: grammars, and their masks' bytes */
} qn_grammar_counts;

qn_grammar_counts qn_grammar_cache_counts(qn_grammar_cache *cache);

#endif
