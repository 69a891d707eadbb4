#include "server/logprobs_legacy.h"

#include <string.h>

#include "base/utf8.h"
#include "server/logprobs_json.h"

static const char *bytes_of(const qn_tokenizer *tokenizer, int32_t token, size_t *count)
{
    *count = 0;
    const char *bytes = qn_tokenizer_token_bytes(tokenizer, token, count);
    return bytes != NULL ? bytes : "";
}

static void write_name(qn_buffer *out, const qn_tokenizer *tokenizer, int32_t token)
{
    size_t count;
    const char *bytes = bytes_of(tokenizer, token, &count);
    if (qn_utf8_valid(bytes, count)) {
        qn_buffer_json_string(out, bytes, count);
        return;
    }
    qn_buffer_text(out, "\"bytes:");
    for (size_t i = 0; i < count; i++) {
        qn_buffer_format(out, "\\\\x%02x", (unsigned)(unsigned char)bytes[i]);
    }
    qn_buffer_char(out, '"');
}

static bool same_name(const qn_tokenizer *tokenizer, int32_t a, int32_t b)
{
    size_t a_count, b_count;
    const char *a_bytes = bytes_of(tokenizer, a, &a_count), *b_bytes = bytes_of(tokenizer, b, &b_count);
    return a_count == b_count && memcmp(a_bytes, b_bytes, a_count) == 0;
}

/* An added token may be spelt as an ordinary one is, and ids beyond the tokenizer's are all nameless: of those that
 * share a name, the first is told. */
static bool is_named_before(const qn_tokenizer *tokenizer, const qn_logprob *entries, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        if (same_name(tokenizer, entries[i].token, entries[at].token)) {
            return true;
        }
    }
    return false;
}

static void write_top(qn_buffer *out, const qn_tokenizer *tokenizer, const qn_logprob *entries, size_t count)
{
    for (size_t i = 0; i < count && entries[i].token >= 0; i++) {
        if (is_named_before(tokenizer, entries, i)) {
            continue;
        }
        qn_buffer_char(out, i > 0 ? ',' : '{');
        write_name(out, tokenizer, entries[i].token);
        qn_buffer_char(out, ':');
        qn_logprobs_write_number(out, entries[i].logprob);
    }
    qn_buffer_char(out, '}');
}

/* Characters are counted where they begin, so that a token within one begins where the character does. */
static size_t count_characters(const qn_tokenizer *tokenizer, int32_t token)
{
    size_t count, characters = 0;
    const char *bytes = bytes_of(tokenizer, token, &count);
    for (size_t i = 0; i < count; i++) {
        characters += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    }
    return characters;
}

static void open_token(qn_legacy_logprobs *lists, const qn_tokenizer *tokenizer, int32_t token, size_t characters)
{
    if (lists->tokens.size > 0) {
        qn_buffer_char(&lists->tokens, ',');
        qn_buffer_char(&lists->token_logprobs, ',');
        qn_buffer_char(&lists->top_logprobs, ',');
        qn_buffer_char(&lists->text_offset, ',');
    }
    write_name(&lists->tokens, tokenizer, token);
    qn_buffer_format(&lists->text_offset, "%zu", characters);
}

void qn_legacy_logprobs_add(qn_legacy_logprobs *lists, const qn_tokenizer *tokenizer, const qn_logprob *entries,
                            size_t count, size_t top, bool skip_special, size_t *characters)
{
    for (size_t i = 0; i < count; i++) {
        const qn_logprob *own = entries + i * (1 + top);
        open_token(lists, tokenizer, own->token, *characters);
        qn_logprobs_write_number(&lists->token_logprobs, own->logprob);
        write_top(&lists->top_logprobs, tokenizer, own, 1 + top);
        bool shown = !skip_special || !qn_tokenizer_is_special(tokenizer, own->token);
        *characters += shown ? count_characters(tokenizer, own->token) : 0;
    }
}

void qn_legacy_logprobs_add_first(qn_legacy_logprobs *lists, const qn_tokenizer *tokenizer, int32_t token,
                                  size_t *characters)
{
    open_token(lists, tokenizer, token, *characters);
    qn_buffer_text(&lists->token_logprobs, "null");
    qn_buffer_text(&lists->top_logprobs, "null");
    *characters += count_characters(tokenizer, token);
}

static void write_list(qn_buffer *out, const char *name, const qn_buffer *list)
{
    qn_buffer_format(out, "\"%s\":[", name);
    qn_buffer_append(out, qn_buffer_string(list), list->size);
    qn_buffer_char(out, ']');
    out->failed = out->failed || list->failed;
}

void qn_legacy_logprobs_write(const qn_legacy_logprobs *lists, qn_buffer *out)
{
    qn_buffer_char(out, '{');
    write_list(out, "tokens", &lists->tokens);
    qn_buffer_char(out, ',');
    write_list(out, "token_logprobs", &lists->token_logprobs);
    qn_buffer_char(out, ',');
    write_list(out, "top_logprobs", &lists->top_logprobs);
    qn_buffer_char(out, ',');
    write_list(out, "text_offset", &lists->text_offset);
    qn_buffer_char(out, '}');
}

void qn_legacy_logprobs_free(qn_legacy_logprobs *lists)
{
    qn_buffer_free(&lists->tokens);
    qn_buffer_free(&lists->token_logprobs);
    qn_buffer_free(&lists->top_logprobs);
    qn_buffer_free(&lists->text_offset);
}
