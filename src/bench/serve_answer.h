/* What a streamed chat completion tells, with the times its pieces arrived at. Knows no network: bytes go in.
 *
 * A chunk counts where it carries text (delta.content, delta.reasoning_content or delta.reasoning). Servers do not tell
 * how many tokens one has: with drafts there may be several, and a token that is half a character gives none. So tokens
 * come from `usage`, and a gap between chunks is shared by the tokens a chunk has on average in its answer. */
#ifndef QN_BENCH_SERVE_ANSWER_H
#define QN_BENCH_SERVE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/serve_events.h"

enum { QN_SERVE_ANSWER_MAX_CHUNKS = 1 << 20 };

/* Start from {0}. */
typedef struct qn_serve_answer {
    qn_event_reader reader;
    uint64_t now_us;    /* of the bytes being read */
    uint64_t *chunk_us; /* [chunks]: when chunks with text arrived */
    size_t chunks, capacity;
    bool has_usage, has_cached, has_drafts;                 /* the server told: */
    size_t prompt_tokens, completion_tokens, cached_tokens; /* usage */
    bool has_longest_gap;
    double longest_gap_ms;          /* timings: longest_gap_ms, between two tokens, with text or without */
    size_t drafts, drafts_accepted; /* timings: drafts and drafts_accepted, or draft_n and draft_n_accepted */
    bool finished;                  /* a finish_reason came */
    bool done;                      /* [DONE] came */
} qn_serve_answer;

/* The next bytes, arrived at now_us (clock.h). QN_BAD_INPUT: no event stream of chat completion chunks; QN_FAILED: the
 * server told an error in its stream; QN_RESOURCE. Then the answer is worth nothing more. */
qn_status qn_serve_answer_read(qn_serve_answer *answer, const char *bytes, size_t count, uint64_t now_us,
                               qn_error *err);

/* After the last byte: is it whole? QN_BAD_INPUT tells what is missing. */
qn_status qn_serve_answer_check(const qn_serve_answer *answer, qn_error *err);

/* Tokens of an average chunk, at least 1. */
double qn_serve_answer_tokens_per_chunk(const qn_serve_answer *answer);

void qn_serve_answer_clear(qn_serve_answer *answer); /* as new; keeps the memory of chunk_us */
void qn_serve_answer_free(qn_serve_answer *answer);  /* back to {0} */

#endif
