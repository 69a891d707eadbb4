/* How fast structured output is: grammars compiled, and a mask made at each token along texts of theirs.
 *
 * A grammar comes as a line of JSON: {"schema": ...} or {"kind": "regex" | "choice" | "gbnf" | "ebnf" | "lark",
 * "grammar": ...}, with texts of it in "accept" (strings) or "tests" ([{"data": VALUE, "valid": true}]), and "name" or
 * "description" for reports. Each text is encoded and walked token by token, then texts that the grammar itself makes
 * up by taking any allowed token; all with one mask cache, new for each grammar (the first masks), then all again.
 *
 * One thread at a time. */
#ifndef QN_BENCH_GRAMMAR_SPEED_H
#define QN_BENCH_GRAMMAR_SPEED_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/statistic.h"
#include "text/tokenizer.h"

enum { QN_GRAMMAR_NAME_BYTES = 80, QN_GRAMMAR_MAX_WALK_TOKENS = 4096 };

typedef struct qn_grammar_speed_options {
    const qn_tokenizer *tokenizer; /* must outlive the bench */
    size_t walks, walk_tokens;     /* texts made up for each grammar, and their tokens at most */
    uint32_t seed;
    size_t vocab; /* tokens of a mask, as of a model whose embedding is padded; 0: the tokenizer's */
} qn_grammar_speed_options;

/* Times are in microseconds that the thread ran. */
typedef struct qn_grammar_times {
    char name[QN_GRAMMAR_NAME_BYTES];
    double compile;
    qn_statistic first, again; /* masks */
    size_t longer;             /* texts that left the grammar: walked up to there */
} qn_grammar_times;

typedef struct qn_grammar_speed {
    size_t tokens;               /* of the vocabulary */
    double trie;                 /* making its trie */
    const qn_grammar_times *all; /* in the order of the lines; the bench's */
    size_t count, refused;       /* grammars compiled, and those that are none */
    qn_statistic compile;        /* refusals too */
    qn_statistic first, again;   /* masks of all grammars together */
} qn_grammar_speed;

typedef struct qn_grammar_bench qn_grammar_bench;

qn_status qn_grammar_bench_new(const qn_grammar_speed_options *options, qn_grammar_bench **out, qn_error *err);
void qn_grammar_bench_free(qn_grammar_bench *bench); /* NULL is fine */

/* Measures one line; `what` names it in errors. A grammar that is refused (QN_USAGE of its compiler) counts as such.
 * QN_BAD_INPUT: no such line. QN_RESOURCE. */
qn_status qn_grammar_bench_line(qn_grammar_bench *bench, const json_t *line, const char *what, qn_error *err);

/* What was measured so far; valid until the next call with the bench. */
qn_grammar_speed qn_grammar_bench_speed(qn_grammar_bench *bench);

#endif
