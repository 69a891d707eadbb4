/* Added tokens: literal pieces of text that are tokens of their own ("<|user|>"), found before anything else is done to
 * the text. A set holds those of one kind, normalized or not; it never changes once sealed, threads share it. */
#ifndef QN_TEXT_TOKENIZER_ADDED_H
#define QN_TEXT_TOKENIZER_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "text/span.h"

enum { QN_ADDED_MAX_BYTES = 512 }; /* of one token's content: bounds the work a byte of text */

typedef struct qn_added_token {
    char *content;
    size_t bytes;
    int32_t id;
    bool single_word;    /* only where no character of a word touches it */
    bool lstrip, rstrip; /* takes the white space before / behind it along */
} qn_added_token;

/* Start from {0}; release with qn_added_set_free. */
typedef struct qn_added_set {
    qn_added_token *tokens; /* sorted by content once sealed */
    size_t count, capacity;
    bool begins[256]; /* whether a token begins with this byte */
} qn_added_set;

/* Copies the token and its content, 1..QN_ADDED_MAX_BYTES bytes. */
qn_status qn_added_set_add(qn_added_set *set, const qn_added_token *token, qn_error *err);

/* To be called once, after the last token. QN_BAD_INPUT: two tokens have the same content. */
qn_status qn_added_set_seal(qn_added_set *set, qn_error *err);
void qn_added_set_free(qn_added_set *set);

/* The sealed set's token with exactly this content, or NULL. */
const qn_added_token *qn_added_set_get(const qn_added_set *set, const char *content, size_t bytes);

/* A part of a text: a token's (id >= 0) or ordinary text (id -1), bytes start..end-1. */
typedef struct qn_added_part {
    size_t start, end;
    int32_t id;
} qn_added_part;

/* Start from {0}; release `items` with qn_free. */
typedef struct qn_added_parts {
    qn_added_part *items;
    size_t count, capacity;
} qn_added_parts;

/* Replaces `parts` by those of text[0..bytes): of the tokens that begin at a byte the longest, from left to right
 * without overlaps, none that has a byte in one of the spans (ascending, disjoint). Only ordinary parts need their
 * start and end; those of a token tell which text it took along. */
qn_status qn_added_set_find(const qn_added_set *set, const char *text, size_t bytes, const qn_span *spans,
                            size_t span_count, qn_added_parts *parts, qn_error *err);

#endif
