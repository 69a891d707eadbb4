#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "small_tokenizer.h"

void small_added(qn_buffer *out, int id, const char *content, const char *flags)
{
    static const char *const names[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
    qn_buffer_format(out, "%s{\"id\":%d,\"content\":", out->size > 1 ? "," : "", id);
    qn_buffer_json_string(out, content, strlen(content));
    for (size_t i = 0; i < 5; i++)
        qn_buffer_format(out, ",\"%s\":%s", names[i], strchr(flags, "wlrns"[i]) ? "true" : "false");
    qn_buffer_char(out, '}');
}

void small_bytes(qn_buffer *out)
{
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        char spelling[4];
        size_t length = qn_utf8_encode(printable ? byte : next++, spelling);
        if (byte > 0)
            qn_buffer_char(out, ',');
        qn_buffer_json_string(out, spelling, length);
        qn_buffer_format(out, ":%u", (unsigned)byte);
    }
}

static const char *or_default(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

void small_json(const small_spec *spec, qn_buffer *out)
{
    qn_buffer_format(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":%s,",
                     or_default(spec->added, "[]"));
    qn_buffer_format(out, "\"normalizer\":%s,\"pre_tokenizer\":%s,", or_default(spec->normalizer, "null"),
                     or_default(spec->pre_tokenizer, SMALL_BYTE_LEVEL));
    qn_buffer_format(out, "\"post_processor\":%s,\"decoder\":%s,", or_default(spec->post, "null"),
                     or_default(spec->decoder, SMALL_BYTE_LEVEL));
    qn_buffer_text(out, "\"model\":{\"type\":\"BPE\",");
    if (spec->model)
        qn_buffer_format(out, "%s,", spec->model);
    qn_buffer_text(out, "\"vocab\":{");
    small_bytes(out);
    if (spec->tokens)
        qn_buffer_format(out, ",%s", spec->tokens);
    qn_buffer_format(out, "},\"merges\":%s}", or_default(spec->merges, "[]"));
    if (spec->more)
        qn_buffer_format(out, ",%s", spec->more);
    qn_buffer_char(out, '}');
}

qn_tokenizer *small_open(const small_spec *spec)
{
    qn_buffer json = {0};
    qn_error err;
    qn_tokenizer *tokenizer = NULL;
    small_json(spec, &json);
    qn_status status = qn_tokenizer_parse(json.data, json.size, "small.json", &tokenizer, &err);
    qn_buffer_free(&json);
    if (status != QN_OK)
        fail_msg("%s", err.message);
    return tokenizer;
}

void small_refused(const small_spec *spec, const char *part)
{
    qn_buffer json = {0};
    qn_error err;
    qn_tokenizer *tokenizer = NULL;
    small_json(spec, &json);
    qn_status status = qn_tokenizer_parse(json.data, json.size, "small.json", &tokenizer, &err);
    qn_buffer_free(&json);
    if (status != QN_BAD_INPUT)
        fail_msg("opened, where an error about \"%s\" was expected", part);
    if (!strstr(err.message, part) || strncmp(err.message, "small.json: ", 12) != 0)
        fail_msg("\"%s\" does not tell of \"%s\"", err.message, part);
}

const char *small_ids(const qn_tokenizer *tokenizer, const char *text, size_t bytes)
{
    static char written[65536];
    size_t at = 0;
    qn_tokens tokens = {0};
    qn_error err;
    if (qn_tokenizer_encode(tokenizer, text, bytes, NULL, 0, &tokens, &err) != QN_OK)
        fail_msg("%s", err.message);
    written[0] = '\0';
    for (size_t i = 0; i < tokens.count && at + 16 < sizeof written; i++)
        at += (size_t)snprintf(written + at, sizeof written - at, i ? " %d" : "%d", (int)tokens.ids[i]);
    qn_tokens_free(&tokens);
    return written;
}
