/* Encoding runs in the order of `tokenizers`: added tokens are cut out of the text as it is; what lies between is
 * normalized, each part for itself; the normalized added tokens are cut out of that; what lies between is split into
 * pieces; a piece is encoded by BPE. All memory for it lives for one call. */
#include "text/tokenizer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer_internal.h"
#include "text/tokenizer_nfc.h"

enum {
    LARGEST_FILE_BYTES = 1 << 29,
    LARGEST_TEXT_BYTES = 1 << 29 /* normalization may triple it, and offsets have 31 bits */
};

/* ---- lists of ids ---- */

static bool reserve_tokens(qn_tokens *tokens, size_t more)
{
    size_t needed;
    if (!qn_size_add(tokens->count, more, &needed))
        return false;
    if (needed <= tokens->capacity)
        return true;
    size_t capacity = tokens->capacity < 64 ? 64 : tokens->capacity;
    while (capacity < needed) {
        if (!qn_size_mul(capacity, 2, &capacity))
            return false;
    }
    int32_t *ids = qn_realloc(tokens->ids, capacity, sizeof *ids);
    if (!ids)
        return false;
    tokens->ids = ids;
    tokens->capacity = capacity;
    return true;
}

bool qn_tokens_add(qn_tokens *tokens, int32_t id)
{
    if (tokens->count == tokens->capacity && !reserve_tokens(tokens, 1))
        return false;
    tokens->ids[tokens->count++] = id;
    return true;
}

bool qn_tokens_append(qn_tokens *tokens, const int32_t *ids, size_t count)
{
    if (!reserve_tokens(tokens, count))
        return false;
    if (count > 0)
        memcpy(tokens->ids + tokens->count, ids, count * sizeof *ids);
    tokens->count += count;
    return true;
}

void qn_tokens_clear(qn_tokens *tokens)
{
    tokens->count = 0;
}

void qn_tokens_free(qn_tokens *tokens)
{
    qn_free(tokens->ids);
    *tokens = (qn_tokens){0};
}

/* ---- opening ---- */

static qn_status open_file(const char *path, qn_tokenizer **out, qn_error *err)
{
    qn_mapping file = {0};
    qn_status status = qn_file_map(path, &file, err);
    if (status != QN_OK)
        return status;
    if (file.bytes > LARGEST_FILE_BYTES)
        status = qn_fail(err, QN_BAD_INPUT, "%s: it has %zu bytes: a tokenizer.json of more than %d is not supported",
                         path, file.bytes, LARGEST_FILE_BYTES);
    else
        status = qn_tokenizer_parse((const char *)file.data, file.bytes, path, out, err);
    qn_file_unmap(&file);
    return status;
}

qn_status qn_tokenizer_open(const char *path, qn_tokenizer **out, qn_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return open_file(path, out, err);
    char *file = qn_path_join(path, "tokenizer.json");
    if (!file)
        return qn_fail_memory(err, path, strlen(path));
    /* no wrong path: a folder without one is a model that is random, or half copied */
    qn_status status = lstat(file, &info) != 0 && errno == ENOENT
                           ? qn_fail(err, QN_BAD_INPUT,
                                     "%s: has no tokenizer.json: copy it from the model's release, or name a folder "
                                     "that has one",
                                     path)
                           : open_file(file, out, err);
    qn_free(file);
    return status;
}

void qn_tokenizer_free(qn_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    qn_bpe_free(tokenizer->bpe);
    qn_pretokenizer_free(tokenizer->pretokenizer);
    qn_added_set_free(&tokenizer->added);
    qn_added_set_free(&tokenizer->plain);
    qn_added_set_free(&tokenizer->normalized);
    qn_free(tokenizer->kinds);
    qn_free(tokenizer);
}

/* ---- looking up ---- */

size_t qn_tokenizer_size(const qn_tokenizer *tokenizer)
{
    return qn_vocabulary_count(qn_bpe_tokens(tokenizer->bpe));
}

static bool has_id(const qn_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < qn_tokenizer_size(tokenizer);
}

const char *qn_tokenizer_token_bytes(const qn_tokenizer *tokenizer, int32_t id, size_t *bytes)
{
    return has_id(tokenizer, id) ? qn_vocabulary_bytes(qn_bpe_tokens(tokenizer->bpe), id, bytes) : NULL;
}

int32_t qn_tokenizer_find_added(const qn_tokenizer *tokenizer, const char *content)
{
    const qn_added_token *token = qn_added_set_get(&tokenizer->added, content, strlen(content));
    return token ? token->id : -1;
}

bool qn_tokenizer_is_added(const qn_tokenizer *tokenizer, int32_t id)
{
    return has_id(tokenizer, id) && tokenizer->kinds[id] & QN_TOKEN_ADDED;
}

bool qn_tokenizer_is_special(const qn_tokenizer *tokenizer, int32_t id)
{
    return has_id(tokenizer, id) && tokenizer->kinds[id] & QN_TOKEN_SPECIAL;
}

/* ---- encoding ---- */

typedef struct encoding {
    const qn_tokenizer *tokenizer;
    qn_pretokenizer_scratch *pretokenizer;
    qn_bpe_scratch bpe;
    qn_nfc_scratch nfc;
    qn_buffer normalized;
    qn_span_list part_spans, normalized_spans;
    qn_added_parts parts, normalized_parts;
    qn_tokens *out;
} encoding;

static qn_status encode_piece(void *context, const char *piece, size_t bytes, qn_error *err)
{
    encoding *e = context;
    return qn_bpe_encode(e->tokenizer->bpe, &e->bpe, piece, bytes, e->out, err);
}

static qn_status add_id(encoding *e, int32_t id, qn_error *err)
{
    return qn_tokens_add(e->out, id) ? QN_OK : qn_fail_memory(err, "token ids", e->out->count * sizeof id);
}

/* A text without plain added tokens, normalized. */
static qn_status encode_normalized(encoding *e, const char *text, size_t bytes, const qn_span_list *spans,
                                   qn_error *err)
{
    qn_status status = qn_added_set_find(&e->tokenizer->normalized, text, bytes, spans->items, spans->count,
                                         &e->normalized_parts, err);
    for (size_t i = 0; i < e->normalized_parts.count && status == QN_OK; i++) {
        const qn_added_part *part = &e->normalized_parts.items[i];
        status = part->id >= 0 ? add_id(e, part->id, err)
                               : qn_pretokenizer_run(e->tokenizer->pretokenizer, e->pretokenizer, text + part->start,
                                                     part->end - part->start, encode_piece, e, err);
    }
    return status;
}

/* Makes e->part_spans what of the spans lies in start..end-1, as offsets from start. */
static qn_status clip_spans(encoding *e, const qn_span *spans, size_t count, size_t start, size_t end, qn_error *err)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    qn_span_list_clear(&e->part_spans);
    for (size_t i = low; i < count && spans[i].start < end; i++) {
        size_t from = spans[i].start > start ? spans[i].start : start, to = spans[i].end < end ? spans[i].end : end;
        if (!qn_span_list_add(&e->part_spans, from - start, to - start))
            return qn_fail_memory(err, "spans of the text", count * sizeof *spans);
    }
    return QN_OK;
}

/* A text without plain added tokens, at `start` of the whole. */
static qn_status encode_plain(encoding *e, const char *text, size_t start, size_t end, const qn_span *spans,
                              size_t span_count, qn_error *err)
{
    qn_status status = QN_OK;
    if (e->tokenizer->normalized.count == 0)
        span_count = 0; /* nothing is left that spans could keep from being found */
    status = clip_spans(e, spans, span_count, start, end, err);
    if (status != QN_OK || !e->tokenizer->is_nfc)
        return status == QN_OK ? encode_normalized(e, text + start, end - start, &e->part_spans, err) : status;
    qn_buffer_clear(&e->normalized);
    qn_span_list_clear(&e->normalized_spans);
    status = qn_nfc_normalize(&e->nfc, text + start, end - start, e->part_spans.items, e->part_spans.count,
                              &e->normalized, &e->normalized_spans, err);
    return status == QN_OK
               ? encode_normalized(e, qn_buffer_string(&e->normalized), e->normalized.size, &e->normalized_spans, err)
               : status;
}

static qn_status check_text(const char *text, size_t bytes, const qn_span *spans, size_t span_count, qn_error *err)
{
    if (bytes > LARGEST_TEXT_BYTES)
        return qn_fail(err, QN_USAGE, "text: it has %zu bytes: at most %d can be encoded at once", bytes,
                       LARGEST_TEXT_BYTES);
    if (!qn_utf8_valid(text, bytes)) {
        size_t at = 0, length;
        uint32_t code;
        while ((length = qn_utf8_decode(text + at, bytes - at, &code)) > 0)
            at += length;
        return qn_fail(err, QN_USAGE, "text: byte %zu is not valid UTF-8: send the text as UTF-8", at);
    }
    for (size_t i = 0; i < span_count; i++) {
        if (spans[i].start > spans[i].end || spans[i].end > bytes || (i > 0 && spans[i].start < spans[i - 1].end))
            return qn_fail(err, QN_INTERNAL, "text: span %zu of its request parts is out of order: please report it",
                           i);
    }
    return QN_OK;
}

qn_status qn_tokenizer_encode(const qn_tokenizer *tokenizer, const char *text, size_t bytes, const qn_span *spans,
                              size_t span_count, qn_tokens *out, qn_error *err)
{
    qn_status status = check_text(text, bytes, spans, span_count, err);
    if (status != QN_OK || bytes == 0)
        return status;
    size_t count_before = out->count;
    encoding e = {.tokenizer = tokenizer, .out = out};
    status = qn_pretokenizer_scratch_new(&e.pretokenizer, err);
    if (status == QN_OK)
        status = qn_added_set_find(&tokenizer->plain, text, bytes, spans, span_count, &e.parts, err);
    for (size_t i = 0; i < e.parts.count && status == QN_OK; i++) {
        const qn_added_part *part = &e.parts.items[i];
        status = part->id >= 0 ? add_id(&e, part->id, err)
                               : encode_plain(&e, text, part->start, part->end, spans, span_count, err);
    }
    qn_pretokenizer_scratch_free(e.pretokenizer);
    qn_bpe_scratch_free(&e.bpe);
    qn_nfc_scratch_free(&e.nfc);
    qn_buffer_free(&e.normalized);
    qn_span_list_free(&e.part_spans);
    qn_span_list_free(&e.normalized_spans);
    qn_free(e.parts.items);
    qn_free(e.normalized_parts.items);
    if (status != QN_OK)
        out->count = count_before;
    return status;
}

/* ---- decoding ---- */

qn_status qn_tokenizer_decode(const qn_tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special,
                              qn_buffer *out, qn_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (!has_id(tokenizer, ids[i]))
            return qn_fail(err, QN_USAGE, "token id %d: the tokenizer has ids 0 to %zu: decode ids of this model",
                           (int)ids[i], qn_tokenizer_size(tokenizer) - 1);
    }
    qn_detokenizer d;
    qn_detokenizer_start(&d, tokenizer, skip_special);
    qn_status status = qn_detokenizer_feed(&d, ids, count, out, err);
    return status == QN_OK ? qn_detokenizer_flush(&d, out, err) : status;
}
