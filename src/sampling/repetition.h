/* The loop guard: does an answer end with one n-gram, over and over?
 *
 * An n-gram counts as a loop when it has come `repeats` times in a row and these cover QN_REPETITION_LEAST_TOKENS
 * tokens at least. The second bound is for short n-grams, which repeat in good answers, too: a row of zeros, a ruler,
 * an indented brace. A real loop never ends, so what the guard waits longer costs little, and an answer cut by mistake
 * much. Off by default, as even a long repetition can be what was asked for. */
#ifndef QN_SAMPLING_REPETITION_H
#define QN_SAMPLING_REPETITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    QN_REPETITION_LEAST_TOKENS = 128,
    QN_REPETITION_NGRAM = 128, /* where none is given: sentences, table rows and short paragraphs */
    QN_REPETITION_MAX_NGRAM = 256,
    QN_REPETITION_MAX_REPEATS = 1000
};

typedef struct qn_repetition_limits {
    size_t max_ngram; /* tokens, 1 to QN_REPETITION_MAX_NGRAM */
    size_t repeats;   /* 2 to QN_REPETITION_MAX_REPEATS; 0: off, whatever max_ngram is */
} qn_repetition_limits;

/* "REPEATS" or "REPEATS:NGRAM", as in 8 or 8:64. QN_USAGE names `flag` as the field at fault. */
qn_status qn_repetition_limits_parse(const char *text, const char *flag, qn_repetition_limits *out, qn_error *err);
/* QN_USAGE as above. Off is fine. */
qn_status qn_repetition_limits_check(const qn_repetition_limits *limits, const char *flag, qn_error *err);

/* State of one answer; a plain value of about 2 KiB, to be started by qn_repetition_start. */
typedef struct qn_repetition {
    qn_repetition_limits limits;
    uint64_t count;                            /* tokens fed */
    int32_t recent[QN_REPETITION_MAX_NGRAM];   /* the last max_ngram of them, token i at i mod max_ngram */
    uint32_t matches[QN_REPETITION_MAX_NGRAM]; /* [n - 1]: so many tokens at the end equal the one n before */
} qn_repetition;

/* limits have passed qn_repetition_limits_check. */
void qn_repetition_start(qn_repetition *guard, qn_repetition_limits limits);

/* The answer's next token. True: it ends with a loop; the caller ends the answer. O(max_ngram), nothing when off. */
bool qn_repetition_add(qn_repetition *guard, int32_t token);

#endif
