/* The bytes of the tokens run through one UTF-8 decoder that keeps at most three bytes between calls. A byte that
 * cannot continue the unfinished character ends it (one U+FFFD) and is looked at afresh, which is the replacement of
 * maximal subparts that the Unicode Standard recommends (section 3.9) and that Rust and Python do. */
#include "text/detokenizer.h"

#include <string.h>

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Length of the character that a byte starts; 0 when none starts with it. */
static size_t character_length(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* Whether the byte can follow the held ones. The second byte's range depends on the first: it shuts out overlong forms,
 * surrogates and what lies beyond U+10FFFF. */
static bool continues(const qn_detokenizer *d, uint8_t byte)
{
    uint8_t low = 0x80, high = 0xBF;
    if (d->held_bytes == 1) {
        uint8_t lead = (uint8_t)d->held[0];
        if (lead == 0xE0)
            low = 0xA0;
        if (lead == 0xED)
            high = 0x9F;
        if (lead == 0xF0)
            low = 0x90;
        if (lead == 0xF4)
            high = 0x8F;
    }
    return byte >= low && byte <= high;
}

static void feed_byte(qn_detokenizer *d, char byte, qn_buffer *out)
{
    if (d->held_bytes > 0 && !continues(d, (uint8_t)byte)) {
        qn_buffer_append(out, replacement, 3);
        d->held_bytes = 0;
    }
    if (d->held_bytes == 0) {
        d->whole_bytes = character_length((uint8_t)byte);
        if (d->whole_bytes == 0) {
            qn_buffer_append(out, replacement, 3);
            return;
        }
    }
    d->held[d->held_bytes++] = byte;
    if (d->held_bytes == d->whole_bytes) {
        qn_buffer_append(out, d->held, d->held_bytes);
        d->held_bytes = 0;
    }
}

static qn_status output_status(const qn_buffer *out, qn_error *err)
{
    return out->failed ? qn_fail_memory(err, "decoded text", out->size) : QN_OK;
}

void qn_detokenizer_start(qn_detokenizer *d, const qn_tokenizer *tokenizer, bool skip_special)
{
    *d = (qn_detokenizer){.tokenizer = tokenizer, .skip_special = skip_special};
}

qn_status qn_detokenizer_feed(qn_detokenizer *d, const int32_t *ids, size_t count, qn_buffer *out, qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        const char *text = qn_tokenizer_token_bytes(d->tokenizer, ids[i], &bytes);
        if (!text)
            return qn_fail(err, QN_USAGE, "token id %d: the tokenizer has ids 0 to %zu: decode ids of this model",
                           (int)ids[i], qn_tokenizer_size(d->tokenizer) - 1);
        if (d->skip_special && qn_tokenizer_is_special(d->tokenizer, ids[i]))
            continue;
        for (size_t k = 0; k < bytes; k++)
            feed_byte(d, text[k], out);
    }
    return output_status(out, err);
}

qn_status qn_detokenizer_flush(qn_detokenizer *d, qn_buffer *out, qn_error *err)
{
    if (d->held_bytes > 0)
        qn_buffer_append(out, replacement, 3);
    d->held_bytes = 0;
    return output_status(out, err);
}
