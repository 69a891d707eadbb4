#include "server/logprobs_json.h"

#include <inttypes.h>
#include <math.h>

/* JSON has no infinity; vLLM tells the same number. */
static const float lowest_told = -9999.0F;

void qn_logprobs_write_number(qn_buffer *out, float logprob)
{
    qn_buffer_format(out, "%.9g", (double)(isfinite(logprob) && logprob > lowest_told ? logprob : lowest_told));
}

/* The text of one token as a JSON string. scratch is emptied. */
static void write_text(qn_buffer *out, const qn_tokenizer *tokenizer, int32_t token, qn_buffer *scratch)
{
    qn_error err;
    qn_buffer_clear(scratch);
    qn_tokenizer_decode(tokenizer, &token, 1, false, scratch, &err); /* nothing for an id that it does not have */
    out->failed = out->failed || scratch->failed;
    qn_buffer_json_string(out, qn_buffer_string(scratch), scratch->size);
}

void qn_logprobs_write_text(qn_buffer *out, const qn_tokenizer *tokenizer, int32_t token)
{
    qn_buffer scratch = {0};
    write_text(out, tokenizer, token, &scratch);
    qn_buffer_free(&scratch);
}

static void write_bytes(qn_buffer *out, const qn_tokenizer *tokenizer, int32_t token)
{
    size_t count = 0;
    const char *bytes = qn_tokenizer_token_bytes(tokenizer, token, &count);
    qn_buffer_char(out, '[');
    for (size_t i = 0; bytes != NULL && i < count; i++) {
        qn_buffer_format(out, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)bytes[i]);
    }
    qn_buffer_char(out, ']');
}

/* {"token", "logprob", "bytes" and no closing brace. */
static void open_entry(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entry, qn_buffer *scratch)
{
    qn_buffer_text(out, "{\"token\":");
    write_text(out, tokenizer, entry->token, scratch);
    qn_buffer_text(out, ",\"logprob\":");
    qn_logprobs_write_number(out, entry->logprob);
    qn_buffer_text(out, ",\"bytes\":");
    write_bytes(out, tokenizer, entry->token);
}

static bool among(const qn_logprob *entries, size_t count, int32_t token)
{
    for (size_t i = 0; i < count; i++) {
        if (entries[i].token == token) {
            return true;
        }
    }
    return false;
}

void qn_logprobs_write_content(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entries, size_t count,
                               size_t top)
{
    qn_buffer scratch = {0};
    for (size_t i = 0; i < count; i++) {
        const qn_logprob *own = entries + i * (1 + top), *best = own + 1;
        bool shown = among(best, top, own->token);
        if (out->size > 0) {
            qn_buffer_char(out, ',');
        }
        open_entry(out, tokenizer, own, &scratch);
        qn_buffer_text(out, ",\"top_logprobs\":[");
        for (size_t j = 0; j < top && best[j].token >= 0; j++) {
            qn_buffer_text(out, j > 0 ? "," : "");
            open_entry(out, tokenizer, !shown && j + 1 == top ? own : &best[j], &scratch);
            qn_buffer_char(out, '}');
        }
        qn_buffer_text(out, "]}");
    }
    qn_buffer_free(&scratch);
}

static void write_prompt_entry(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entry, uint32_t rank,
                               qn_buffer *scratch)
{
    qn_buffer_format(out, "\"%" PRId32 "\":{\"logprob\":", entry->token);
    qn_logprobs_write_number(out, entry->logprob);
    qn_buffer_format(out, ",\"rank\":%" PRIu32 ",\"decoded_token\":", rank);
    write_text(out, tokenizer, entry->token, scratch);
    qn_buffer_char(out, '}');
}

void qn_logprobs_write_prompt(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entries,
                              const uint32_t *ranks, size_t count, size_t top)
{
    qn_buffer scratch = {0};
    qn_buffer_text(out, "[null");
    for (size_t i = 0; i < count; i++) {
        const qn_logprob *own = entries + i * (1 + top), *best = own + 1;
        qn_buffer_text(out, ",{");
        write_prompt_entry(out, tokenizer, own, ranks[i], &scratch);
        for (size_t j = 0; j < top; j++) {
            if (best[j].token >= 0 && best[j].token != own->token) {
                qn_buffer_char(out, ',');
                write_prompt_entry(out, tokenizer, &best[j], (uint32_t)j + 1, &scratch);
            }
        }
        qn_buffer_char(out, '}');
    }
    qn_buffer_char(out, ']');
    qn_buffer_free(&scratch);
}
