/* utf8proc decomposes single characters and composes sequences, both in linear time; its ordering of combining marks
 * between the two is a quadratic exchange sort, which a megabyte of marks would turn into hours, so that step is done
 * here by counting.
 *
 * The text is taken in chunks that cannot influence each other. One begins before every inert character: one that
 * stays as it is when alone and never combines with what precedes it. So ordinary text is mostly copied, and spans can
 * be carried over chunk by chunk. */
#include "text/tokenizer_nfc.h"

#include <stdbool.h>
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum { LONGEST_DECOMPOSITION = 8 /* Unicode's longest canonical one has 4 */, COMBINING_CLASSES = 256 };

typedef struct normalizer {
    qn_nfc_scratch *scratch;
    const char *text;
    size_t bytes;
    const qn_span *spans;
    size_t span_count, span_at; /* the first span that may still matter */
    qn_buffer *out;
    size_t out_start;
    qn_span_list *out_spans;
    qn_error *err;
} normalizer;

void qn_nfc_scratch_free(qn_nfc_scratch *scratch)
{
    qn_free(scratch->codes);
    qn_free(scratch->sorted);
    *scratch = (qn_nfc_scratch){0};
}

/* A sufficient condition that is quick to check: everything below the combining marks, kana, unified ideographs,
 * Hangul syllables. */
static bool is_inert(uint32_t code)
{
    return code < 0x300 || (code >= 0x3041 && code <= 0x3096) || (code >= 0x30A1 && code <= 0x30FA) ||
           (code >= 0x3400 && code <= 0x9FFF) || (code >= 0xAC00 && code <= 0xD7A3);
}

static size_t character(const normalizer *n, size_t at, uint32_t *code)
{
    return qn_utf8_decode(n->text + at, n->bytes - at, code);
}

/* Carries the spans of text[start..end), which became out[out_start..) up to the end of `out`. */
static qn_status carry_spans(normalizer *n, size_t start, size_t end, size_t out_from)
{
    size_t to = out_from - n->out_start, to_end = n->out->size - n->out_start;
    bool same = to_end - to == end - start && memcmp(n->text + start, n->out->data + out_from, end - start) == 0;
    while (n->span_at < n->span_count && n->spans[n->span_at].end <= start)
        n->span_at++;
    for (size_t i = n->span_at; i < n->span_count && n->spans[i].start < end; i++) {
        qn_span span = n->spans[i];
        if (span.start == span.end)
            continue;
        size_t from = to, until = to_end;
        if (same) {
            from = span.start > start ? to + (span.start - start) : to;
            until = span.end < end ? to + (span.end - start) : to_end;
        }
        if (!qn_span_list_add(n->out_spans, from, until))
            return qn_fail_memory(n->err, "spans of the text", n->out_spans->count * sizeof span);
        if (!same)
            break; /* all of it is in already */
    }
    return QN_OK;
}

static qn_status reserve(normalizer *n, size_t count)
{
    qn_nfc_scratch *s = n->scratch;
    if (count <= s->capacity)
        return QN_OK;
    size_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < count)
        capacity *= 2; /* count is at most a small multiple of the text's size */
    int32_t *codes = qn_realloc(s->codes, capacity, sizeof *codes);
    if (codes)
        s->codes = codes;
    int32_t *sorted = qn_realloc(s->sorted, capacity, sizeof *sorted);
    if (sorted)
        s->sorted = sorted;
    if (!codes || !sorted)
        return qn_fail_memory(n->err, "text normalization", 2 * capacity * sizeof *codes);
    s->capacity = capacity;
    return QN_OK;
}

static uint8_t combining_class(int32_t code)
{
    return (uint8_t)utf8proc_get_property(code)->combining_class;
}

/* Brings each run of combining marks into the order of their classes, marks of one class staying in theirs. */
static void order_marks(qn_nfc_scratch *s, size_t count)
{
    for (size_t start = 0; start < count;) {
        size_t end = start;
        while (end < count && combining_class(s->codes[end]) > 0)
            end++;
        if (end - start > 1) {
            size_t place[COMBINING_CLASSES + 1] = {0};
            for (size_t i = start; i < end; i++)
                place[combining_class(s->codes[i]) + 1]++;
            for (size_t c = 1; c <= COMBINING_CLASSES; c++)
                place[c] += place[c - 1];
            for (size_t i = start; i < end; i++)
                s->sorted[place[combining_class(s->codes[i])]++] = s->codes[i];
            memcpy(s->codes + start, s->sorted, (end - start) * sizeof *s->codes);
        }
        start = end + 1;
    }
}

/* Normalises text[start..end), a chunk. */
static qn_status normalize_chunk(normalizer *n, size_t start, size_t end)
{
    size_t count = 0;
    for (size_t at = start; at < end;) {
        uint32_t code = 0;
        at += character(n, at, &code);
        qn_status status = reserve(n, count + LONGEST_DECOMPOSITION);
        if (status != QN_OK)
            return status;
        int boundary = 0;
        utf8proc_ssize_t added = utf8proc_decompose_char((int32_t)code, n->scratch->codes + count,
                                                         LONGEST_DECOMPOSITION, UTF8PROC_STABLE | UTF8PROC_COMPOSE,
                                                         &boundary);
        if (added < 0 || added > LONGEST_DECOMPOSITION)
            return qn_fail(n->err, QN_INTERNAL, "text normalization: utf8proc error %ld on U+%04X: please report it",
                           (long)added, (unsigned)code);
        count += (size_t)added;
    }
    order_marks(n->scratch, count);
    utf8proc_ssize_t composed = utf8proc_normalize_utf32(n->scratch->codes, (utf8proc_ssize_t)count,
                                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (composed < 0)
        return qn_fail(n->err, QN_INTERNAL, "text normalization: utf8proc error %ld: please report it", (long)composed);
    for (size_t i = 0; i < (size_t)composed; i++) {
        char encoded[4];
        qn_buffer_append(n->out, encoded, qn_utf8_encode((uint32_t)n->scratch->codes[i], encoded));
    }
    return QN_OK;
}

/* The end of the run of characters from `at` that are copied as they are: inert ones that no other kind follows, and
 * those that must be left alone. */
static size_t copied_until(const normalizer *n, size_t at)
{
    uint32_t code, next;
    size_t length = at < n->bytes ? character(n, at, &code) : 0;
    while (at < n->bytes) {
        size_t next_length = at + length < n->bytes ? character(n, at + length, &next) : 0;
        if (!qn_unicode_is_left_alone(code) &&
            (!is_inert(code) || (next_length > 0 && !is_inert(next) && !qn_unicode_is_left_alone(next))))
            break;
        at += length;
        length = next_length;
        code = next;
    }
    return at;
}

/* The end of the chunk that begins at `at`. */
static size_t chunk_until(const normalizer *n, size_t at)
{
    uint32_t code;
    at += character(n, at, &code);
    while (at < n->bytes) {
        size_t length = character(n, at, &code);
        if (is_inert(code) || qn_unicode_is_left_alone(code))
            break;
        at += length;
    }
    return at;
}

qn_status qn_nfc_normalize(qn_nfc_scratch *scratch, const char *text, size_t bytes, const qn_span *spans,
                           size_t span_count, qn_buffer *out, qn_span_list *out_spans, qn_error *err)
{
    normalizer n = {.scratch = scratch,
                    .text = text,
                    .bytes = bytes,
                    .spans = spans,
                    .span_count = span_count,
                    .out = out,
                    .out_start = out->size,
                    .out_spans = out_spans,
                    .err = err};
    for (size_t at = 0; at < bytes;) {
        size_t out_from = out->size, end = copied_until(&n, at);
        qn_status status = QN_OK;
        if (end > at) {
            qn_buffer_append(out, text + at, end - at);
        } else {
            end = chunk_until(&n, at);
            status = normalize_chunk(&n, at, end);
        }
        if (status == QN_OK && out->failed)
            status = qn_fail_memory(err, "text normalization", bytes);
        if (status == QN_OK && span_count > 0)
            status = carry_spans(&n, at, end, out_from);
        if (status != QN_OK)
            return status;
        at = end;
    }
    return QN_OK;
}
