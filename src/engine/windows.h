/* A text longer than the context, taken in windows: what `eval ppl` and `eval kl` walk over.
 *
 * Windows of `context` tokens begin `stride` tokens apart; each token is scored once, in the first window that holds
 * it, so all but the first window's tokens have at least context - stride tokens before them. The first token of the
 * text has nothing before it and is not scored. (The sliding window of Hugging Face's "Perplexity of fixed-length
 * models".) */
#ifndef QN_ENGINE_WINDOWS_H
#define QN_ENGINE_WINDOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct qn_windows {
    size_t count, context, stride; /* tokens */
    size_t begin;                  /* of the next window */
    size_t scored_to;              /* tokens below have been scored, or can't be */
} qn_windows;

/* Tokens begin .. begin + count - 1 of the text. Row r (the r-th token's) predicts the token behind it; rows first_row
 * .. count - 2 predict tokens that no window before this one scored. */
typedef struct qn_window {
    size_t begin, count, first_row;
} qn_window;

/* QN_USAGE unless 2 <= context <= longest and 1 <= stride < context (so that each new token has one before it);
 * QN_BAD_INPUT unless count >= 2. */
qn_status qn_windows_start(size_t count, size_t context, size_t stride, size_t longest, qn_windows *out, qn_error *err);

/* False after the last window. */
bool qn_windows_next(qn_windows *windows, qn_window *out);

/* Tokens that all windows together compute, for a progress bar. */
uint64_t qn_windows_work(const qn_windows *windows);

#endif
