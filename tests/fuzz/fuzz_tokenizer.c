/* room: text */
/* covers: src/text/tokenizer*.c src/text/bpe*.c src/text/pretokenizer*.c src/text/detokenizer.c */
/* max_len: 2048 */

/* A tokenizer.json from anywhere, and a text for it: opening fails with a sentence, or the text becomes ids of the
 * tokenizer, the ids text again, and a stream of them the same text.
 *
 * The input is JSON, NUL, text, NUL, controls. In the JSON, @BYTES@ stands for the 256 members of a vocabulary that
 * have to be there. The first control byte, unless 0, makes that allocation fail; each two of the rest are the length
 * of a trusted part of the text and of a part that came from a request. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

static void hold(int condition)
{
    if (!condition)
        abort();
}

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static qn_buffer bytes_members;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    qn_log_set_sink(drop_line, NULL);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; byte++) {
        bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        char spelling[4];
        size_t length = qn_utf8_encode(printable ? byte : next++, spelling);
        if (byte > 0)
            qn_buffer_char(&bytes_members, ',');
        qn_buffer_json_string(&bytes_members, spelling, length);
        qn_buffer_format(&bytes_members, ":%u", (unsigned)byte);
    }
    return 0;
}

typedef struct part {
    const char *data;
    size_t bytes;
} part;

/* Takes what comes before the next NUL off the input. */
static part take_part(part *input)
{
    const char *end = input->bytes ? memchr(input->data, '\0', input->bytes) : NULL;
    size_t bytes = end ? (size_t)(end - input->data) : input->bytes;
    part taken = {input->data, bytes};
    input->data += bytes + (end != NULL);
    input->bytes -= bytes + (end != NULL);
    return taken;
}

static void expand(part json, qn_buffer *out)
{
    static const char mark[] = "@BYTES@";
    const char *at = json.bytes ? memmem(json.data, json.bytes, mark, strlen(mark)) : NULL;
    if (!at) {
        qn_buffer_append(out, json.data, json.bytes);
        return;
    }
    size_t before = (size_t)(at - json.data), used = before + strlen(mark);
    qn_buffer_append(out, json.data, before);
    qn_buffer_append(out, bytes_members.data, bytes_members.size);
    qn_buffer_append(out, json.data + used, json.bytes - used);
}

enum { MOST_SPANS = 8 };

static size_t read_spans(part controls, size_t text_bytes, qn_span spans[MOST_SPANS])
{
    size_t count = 0, at = 0;
    for (size_t i = 1; i + 1 < controls.bytes && count < MOST_SPANS; i += 2) {
        size_t start = at + (uint8_t)controls.data[i], end = start + (uint8_t)controls.data[i + 1];
        if (end > text_bytes)
            break;
        spans[count++] = (qn_span){start, end};
        at = end;
    }
    return count;
}

static void check_decoding(const qn_tokenizer *t, const qn_tokens *ids, bool skip_special)
{
    qn_error err;
    qn_buffer whole = {0}, pieces = {0};
    qn_detokenizer d;
    qn_detokenizer_start(&d, t, skip_special);
    qn_status status = qn_tokenizer_decode(t, ids->ids, ids->count, skip_special, &whole, &err);
    for (size_t i = 0; i < ids->count && status == QN_OK; i++)
        status = qn_detokenizer_feed(&d, &ids->ids[i], 1, &pieces, &err);
    if (status == QN_OK)
        status = qn_detokenizer_flush(&d, &pieces, &err);
    hold(status == QN_OK || status == QN_RESOURCE);
    if (status == QN_OK) {
        hold(qn_utf8_valid(qn_buffer_string(&whole), whole.size) && whole.size == pieces.size);
        hold(memcmp(qn_buffer_string(&whole), qn_buffer_string(&pieces), whole.size) == 0);
    }
    qn_buffer_free(&whole);
    qn_buffer_free(&pieces);
}

static void check_encoding(const qn_tokenizer *t, part text, part controls)
{
    qn_error err;
    qn_span spans[MOST_SPANS];
    qn_tokens ids = {0}, again = {0};
    size_t count = read_spans(controls, text.bytes, spans);
    qn_status status = qn_tokenizer_encode(t, text.data, text.bytes, spans, count, &ids, &err);
    hold(status == QN_OK || err.message[0] != '\0');
    hold(status == QN_OK || ids.count == 0);
    hold(status != QN_OK || qn_utf8_valid(text.data, text.bytes));
    if (status == QN_OK && qn_tokenizer_encode(t, text.data, text.bytes, spans, count, &again, &err) == QN_OK) {
        hold(ids.count == again.count);
        hold(ids.count == 0 || memcmp(ids.ids, again.ids, ids.count * sizeof *ids.ids) == 0);
    }
    for (size_t i = 0; i < ids.count; i++)
        hold(ids.ids[i] >= 0 && (size_t)ids.ids[i] < qn_tokenizer_size(t));
    check_decoding(t, &ids, false);
    check_decoding(t, &ids, true);
    qn_tokens_free(&ids);
    qn_tokens_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    part rest = {(const char *)data, bytes};
    part json = take_part(&rest), text = take_part(&rest);
    qn_buffer expanded = {0};
    qn_error err = {0};
    qn_tokenizer *t = NULL;
    expand(json, &expanded);
    if (rest.bytes > 0 && rest.data[0] != 0)
        qn_fault_arm(QN_FAULT_ALLOC, (uint8_t)rest.data[0]);
    qn_status status = qn_tokenizer_parse(qn_buffer_string(&expanded), expanded.size, "tokenizer.json", &t, &err);
    if (status == QN_OK) {
        size_t length;
        int32_t found = qn_tokenizer_find_added(t, "<x>");
        hold(found < 0 || (qn_tokenizer_is_added(t, found) && qn_tokenizer_token_bytes(t, found, &length)));
        check_encoding(t, text, rest);
        qn_tokenizer_free(t);
    } else {
        hold(t == NULL && strncmp(err.message, "tokenizer.json: ", 16) == 0);
    }
    qn_fault_disarm();
    qn_buffer_free(&expanded);
    return 0;
}
