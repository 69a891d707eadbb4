/* Normalization Form C (Unicode Standard Annex 15) as Hugging Face `tokenizers` computes it: with the tables of Unicode
 * 9, whatever version utf8proc has. Later characters are left as they are (text/unicode.h). */
#ifndef QN_TEXT_TOKENIZER_NFC_H
#define QN_TEXT_TOKENIZER_NFC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "text/span.h"

/* Memory that is kept between calls. Start from {0}; release with qn_nfc_scratch_free. */
typedef struct qn_nfc_scratch {
    int32_t *codes, *sorted; /* `capacity` each */
    size_t capacity;
} qn_nfc_scratch;

void qn_nfc_scratch_free(qn_nfc_scratch *scratch);

/* Appends the NFC of text[0..bytes), which is valid UTF-8, to `out`, and to `out_spans` (NULL when there are no spans)
 * where the text of `spans` (ascending, disjoint) now lies, as offsets from the first byte appended. Characters that
 * change together with some of a span belong to it entirely. Linear time. */
qn_status qn_nfc_normalize(qn_nfc_scratch *scratch, const char *text, size_t bytes, const qn_span *spans,
                           size_t span_count, qn_buffer *out, qn_span_list *out_spans, qn_error *err);

#endif
