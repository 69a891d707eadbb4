/* What an answer's text has to be, compiled: a format (JSON, a schema, a regex, a grammar), tool calls, or either.
 *
 * Constant once made and counted by references: any number of answers share one, each with a constraint of its own
 * (constraint.h). */
#ifndef QN_TEXT_ANSWER_GRAMMAR_H
#define QN_TEXT_ANSWER_GRAMMAR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "grammar/token_mask.h"
#include "text/tokenizer.h"
#include "text/tool_grammar.h"

/* The trie of a tokenizer's ordinary tokens. */
qn_status qn_tokenizer_trie(const qn_tokenizer *tokenizer, qn_vocabulary_trie **out, qn_error *err);
/* The same with masks of `rows` tokens, at least the tokenizer's: those behind its own are never allowed. */
qn_status qn_tokenizer_padded_trie(const qn_tokenizer *tokenizer, size_t rows, qn_vocabulary_trie **out, qn_error *err);

typedef enum qn_format_kind {
    QN_FORMAT_TEXT, /* anything */
    QN_FORMAT_JSON_OBJECT,
    QN_FORMAT_JSON_SCHEMA,
    QN_FORMAT_REGEX,
    QN_FORMAT_CHOICE,
    QN_FORMAT_GBNF,
    QN_FORMAT_LARK
} qn_format_kind;

typedef struct qn_answer_format {
    qn_format_kind kind;
    const json_t *value; /* the schema; the list of choices; else a string: the pattern or the grammar */
    const char *field;   /* of the request, for errors */
    bool compact;        /* JSON without white space that says nothing */
} qn_answer_format;

typedef enum qn_calls_place {
    QN_CALLS_NONE,  /* the answer is of the format */
    QN_CALLS_ONLY,  /* the answer is calls, at least one */
    QN_CALLS_EITHER /* of the format, or calls; behind free text where the format is TEXT */
} qn_calls_place;

typedef struct qn_answer_grammar qn_answer_grammar;

/* Errors: QN_USAGE with the field, QN_BAD_INPUT as qn_tool_calls_expr, QN_RESOURCE. Nothing but the tokenizer and the
 * trie must outlive the call; these must outlive the grammar. */
qn_status qn_answer_grammar_new(const qn_tokenizer *tokenizer, const qn_vocabulary_trie *trie,
                                const qn_answer_format *format, qn_calls_place place, const qn_call_rules *rules,
                                qn_answer_grammar **out, qn_error *err);
qn_answer_grammar *qn_answer_grammar_share(qn_answer_grammar *grammar); /* one reference more */
void qn_answer_grammar_release(qn_answer_grammar *grammar);             /* one less; NULL is fine */

const qn_grammar *qn_answer_grammar_of(const qn_answer_grammar *grammar);
qn_mask_cache *qn_answer_grammar_masks(const qn_answer_grammar *grammar);

#endif
