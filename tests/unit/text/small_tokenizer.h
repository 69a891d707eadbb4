/* Small tokenizer.json texts for tests: every byte is a token (ids 0..255 in the order of bytes), and a test adds what
 * it is about. */
#ifndef SMALL_TOKENIZER_H
#define SMALL_TOKENIZER_H

#include "base/buffer.h"
#include "text/tokenizer.h"

/* JSON texts; NULL takes the default. */
typedef struct small_spec {
    const char *tokens;        /* more members of vocab: "\"ab\":256"; default none */
    const char *merges;        /* default "[]" */
    const char *model;         /* more fields of the model; default none */
    const char *normalizer;    /* default "null" */
    const char *pre_tokenizer; /* default: ByteLevel alone, without regex */
    const char *decoder;       /* default: ByteLevel */
    const char *post;          /* default "null" */
    const char *added;         /* default "[]" */
    const char *more;          /* more sections; default none */
} small_spec;

#define SMALL_BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":false}"

/* An added token; flags of "wlrns": single_word, lstrip, rstrip, normalized, special. */
void small_added(qn_buffer *out, int id, const char *content, const char *flags);

/* The vocabulary's 256 members, "\"!\":33,...": no braces. */
void small_bytes(qn_buffer *out);

void small_json(const small_spec *spec, qn_buffer *out);

/* Opens it; fails the test when that is not possible. */
qn_tokenizer *small_open(const small_spec *spec);

/* Fails the test unless opening is refused with QN_BAD_INPUT and a sentence that holds `part`. */
void small_refused(const small_spec *spec, const char *part);

/* Encodes without spans and writes the ids as "1 2 3" into a buffer that the next call overwrites. */
const char *small_ids(const qn_tokenizer *tokenizer, const char *text, size_t bytes);

#endif
