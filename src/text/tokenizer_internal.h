/* What a tokenizer is made of: shared by its loader and by encoding, opaque to everyone else. */
#ifndef QN_TEXT_TOKENIZER_INTERNAL_H
#define QN_TEXT_TOKENIZER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_added.h"

enum { QN_TOKEN_ADDED = 1, QN_TOKEN_SPECIAL = 2 };

struct qn_tokenizer {
    qn_bpe *bpe;
    qn_pretokenizer *pretokenizer;
    bool is_nfc;
    qn_added_set added;      /* all, by the content that the file gives */
    qn_added_set plain;      /* those found in the text as it is */
    qn_added_set normalized; /* those found in the text once normalized, by their normalized content */
    uint8_t *kinds;          /* QN_TOKEN_* of each id */
};

/* Makes the added tokens of a tokenizer whose vocabulary and normalizer are there, and with them its kinds. list: the
 * array of a tokenizer.json; NULL: none. QN_BAD_INPUT: an entry is not right; QN_RESOURCE: no memory. */
qn_status qn_tokenizer_load_added(qn_tokenizer *tokenizer, const json_t *list, qn_error *err);

#endif
