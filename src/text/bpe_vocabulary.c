/* Tokens are decoded from their spelling as they are read and kept as one run of bytes; a token is found by its bytes
 * and by whether it was spelt in the byte alphabet, which together are as good as the spelling. The hash is keyed by a
 * random seed, so that no file can be written that makes all its tokens collide. */
#include "text/bpe_vocabulary.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/utf8.h"

enum { LARGEST_BLOB_BYTES = 1 << 30, NO_TOKEN = -1, ID_BITS = 24 };

#define NO_SLOT UINT32_MAX
#define ID_MASK ((UINT32_C(1) << ID_BITS) - 1)

static_assert(QN_VOCABULARY_MAX_TOKENS <= ID_MASK, "an id fits a slot, and none is NO_SLOT");

/* Two words, since opening a file looks up a million of them. */
typedef struct token {
    uint32_t start;
    uint32_t kind; /* the number of bytes * 2, and 1 when it is spelt in the byte alphabet */
} token;

struct qn_vocabulary {
    char *blob;
    size_t blob_bytes, blob_capacity;
    token *tokens; /* as read, by id once sealed */
    int32_t *ids;  /* as read, NULL once sealed */
    size_t count, capacity;
    uint32_t *slots; /* open addressing: the id, and 8 more bits of the hash to tell most others by; NO_SLOT: free */
    size_t slot_mask;
    uint64_t seed;
    int32_t byte_ids[256];
    int16_t alphabet[0x144]; /* byte of a character of the alphabet, -1 for others */
};

/* GPT-2's byte alphabet: the printable characters of Latin-1 are their own bytes, the other 68 bytes in ascending order
 * are U+0100 and up. */
static void fill_alphabet(int16_t alphabet[0x144])
{
    for (size_t i = 0; i < 0x144; i++)
        alphabet[i] = -1;
    int next = 0x100;
    for (int byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
        alphabet[printable ? byte : next++] = (int16_t)byte;
    }
}

qn_status qn_vocabulary_new(qn_vocabulary **out, qn_error *err)
{
    qn_vocabulary *v = qn_alloc_zero(1, sizeof *v);
    if (!v)
        return qn_fail_memory(err, "vocabulary", sizeof *v);
    v->seed = qn_random_seed();
    fill_alphabet(v->alphabet);
    *out = v;
    return QN_OK;
}

void qn_vocabulary_free(qn_vocabulary *v)
{
    if (!v)
        return;
    qn_free(v->blob);
    qn_free(v->tokens);
    qn_free(v->ids);
    qn_free(v->slots);
    qn_free(v);
}

static uint32_t make_kind(size_t bytes, bool is_bytes)
{
    return (uint32_t)bytes << 1 | is_bytes;
}

/* Writes the bytes that a spelling stands for to out[0..bytes) and returns their kind. */
static uint32_t decode_spelling(const qn_vocabulary *v, const char *spelling, size_t bytes, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0;
        at += qn_utf8_decode(spelling + at, bytes - at, &code);
        if (code >= sizeof v->alphabet / sizeof *v->alphabet || v->alphabet[code] < 0) {
            memcpy(out, spelling, bytes);
            return make_kind(bytes, false);
        }
        out[written++] = (char)v->alphabet[code];
    }
    return make_kind(written, true);
}

static qn_status reserve(qn_vocabulary *v, size_t bytes, qn_error *err)
{
    if (bytes > LARGEST_BLOB_BYTES - v->blob_bytes)
        return qn_fail(err, QN_BAD_INPUT,
                       "vocabulary: its tokens have more than %d bytes: quern cannot use this "
                       "tokenizer",
                       LARGEST_BLOB_BYTES);
    if (!v->blob || v->blob_capacity - v->blob_bytes < bytes) {
        size_t capacity = v->blob_capacity ? v->blob_capacity : 4096;
        while (capacity - v->blob_bytes < bytes)
            capacity *= 2;
        char *blob = qn_realloc(v->blob, capacity, 1);
        if (!blob)
            return qn_fail_memory(err, "vocabulary", capacity);
        v->blob = blob;
        v->blob_capacity = capacity;
    }
    if (v->count == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 1024;
        token *tokens = qn_realloc(v->tokens, capacity, sizeof *tokens);
        if (!tokens)
            return qn_fail_memory(err, "vocabulary", capacity * sizeof *tokens);
        v->tokens = tokens;
        int32_t *ids = v->slots ? NULL : qn_realloc(v->ids, capacity, sizeof *ids);
        if (!v->slots && !ids)
            return qn_fail_memory(err, "vocabulary", capacity * sizeof *ids);
        v->ids = ids;
        v->capacity = capacity;
    }
    return QN_OK;
}

/* After reserve. */
static void add_token(qn_vocabulary *v, const char *spelling, size_t bytes)
{
    token *t = &v->tokens[v->count++];
    t->start = (uint32_t)v->blob_bytes;
    t->kind = decode_spelling(v, spelling, bytes, v->blob + v->blob_bytes);
    v->blob_bytes += t->kind >> 1;
}

qn_status qn_vocabulary_add(qn_vocabulary *v, const char *spelling, size_t bytes, int64_t id, qn_error *err)
{
    if (id < 0 || id >= QN_VOCABULARY_MAX_TOKENS)
        return qn_fail(err, QN_BAD_INPUT, "vocabulary: the token \"%.*s\" has id %lld: ids from 0 to %d are supported",
                       (int)(bytes < 40 ? bytes : 40), spelling, (long long)id, QN_VOCABULARY_MAX_TOKENS - 1);
    qn_status status = reserve(v, bytes, err);
    if (status != QN_OK)
        return status;
    v->ids[v->count] = (int32_t)id;
    add_token(v, spelling, bytes);
    return QN_OK;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(const qn_vocabulary *v, const char *text, uint32_t kind)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t h = v->seed ^ kind;
    for (size_t bytes = kind >> 1; bytes > 0;) {
        uint64_t word = 0;
        size_t part = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, text, part);
        h = mix(h ^ word, odd) + v->seed;
        text += part;
        bytes -= part;
    }
    return mix(h, odd);
}

static bool is_token(const qn_vocabulary *v, int32_t id, const char *text, uint32_t kind)
{
    const token *t = &v->tokens[id];
    return t->kind == kind && memcmp(v->blob + t->start, text, kind >> 1) == 0;
}

/* The slot that holds such a token, or the free one where it would go; *tag is for the one who fills it. */
static uint32_t *find_slot(const qn_vocabulary *v, const char *text, uint32_t kind, uint32_t *tag)
{
    uint64_t h = hash(v, text, kind);
    *tag = (uint32_t)(h >> 32) & ~ID_MASK;
    for (size_t at = (size_t)h & v->slot_mask;; at = (at + 1) & v->slot_mask) {
        uint32_t *slot = &v->slots[at];
        if (*slot == NO_SLOT || ((*slot & ~ID_MASK) == *tag && is_token(v, (int32_t)(*slot & ID_MASK), text, kind)))
            return slot;
    }
}

static int32_t find_id(const qn_vocabulary *v, const char *text, uint32_t kind)
{
    uint32_t tag, slot = *find_slot(v, text, kind, &tag);
    return slot == NO_SLOT ? NO_TOKEN : (int32_t)(slot & ID_MASK);
}

static qn_status sort_by_id(qn_vocabulary *v, qn_error *err)
{
    token *by_id = qn_alloc(v->count, sizeof *by_id);
    if (!by_id)
        return qn_fail_memory(err, "vocabulary", v->count * sizeof *by_id);
    for (size_t i = 0; i < v->count; i++)
        by_id[i].start = UINT32_MAX; /* no token's */
    qn_status status = QN_OK;
    for (size_t i = 0; i < v->count && status == QN_OK; i++) {
        int32_t id = v->ids[i];
        if ((size_t)id >= v->count)
            status = qn_fail(err, QN_BAD_INPUT, "vocabulary: id %d among %zu tokens: ids must run from 0 without holes",
                             (int)id, v->count);
        else if (by_id[id].start != UINT32_MAX)
            status = qn_fail(err, QN_BAD_INPUT, "vocabulary: id %d is given to two tokens: ids must be unique",
                             (int)id);
        else
            by_id[id] = v->tokens[i];
    }
    if (status != QN_OK) {
        qn_free(by_id);
        return status;
    }
    qn_free(v->tokens);
    qn_free(v->ids);
    v->tokens = by_id;
    v->ids = NULL;
    v->capacity = v->count;
    return QN_OK;
}

static qn_status fill_slots(qn_vocabulary *v, qn_error *err)
{
    size_t slots = 1024;
    while (slots < v->count + v->count / 4)
        slots *= 2;
    v->slots = qn_alloc(slots, sizeof *v->slots);
    if (!v->slots)
        return qn_fail_memory(err, "vocabulary", slots * sizeof *v->slots);
    v->slot_mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        v->slots[i] = NO_SLOT;
    for (size_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        uint32_t tag;
        uint32_t *slot = find_slot(v, v->blob + t->start, t->kind, &tag);
        if (*slot != NO_SLOT)
            return qn_fail(err, QN_BAD_INPUT, "vocabulary: ids %d and %zu are the same token: tokens must be unique",
                           (int)(*slot & ID_MASK), id);
        *slot = (uint32_t)id | tag;
    }
    return QN_OK;
}

qn_status qn_vocabulary_seal(qn_vocabulary *v, qn_error *err)
{
    qn_status status = sort_by_id(v, err);
    if (status == QN_OK)
        status = fill_slots(v, err);
    for (int byte = 0; byte < 256 && status == QN_OK; byte++) {
        char c = (char)byte;
        v->byte_ids[byte] = qn_vocabulary_find_bytes(v, &c, 1);
        if (v->byte_ids[byte] == NO_TOKEN)
            status = qn_fail(err, QN_BAD_INPUT,
                             "vocabulary: it has no token for the byte 0x%02X: only byte-level "
                             "tokenizers are supported",
                             (unsigned)byte);
    }
    return status;
}

qn_status qn_vocabulary_append(qn_vocabulary *v, const char *spelling, size_t bytes, qn_error *err)
{
    if (v->count >= QN_VOCABULARY_MAX_TOKENS)
        return qn_fail(err, QN_BAD_INPUT, "vocabulary: more than %d tokens are not supported",
                       QN_VOCABULARY_MAX_TOKENS);
    qn_status status = reserve(v, bytes, err);
    if (status == QN_OK)
        add_token(v, spelling, bytes);
    return status;
}

size_t qn_vocabulary_count(const qn_vocabulary *v)
{
    return v->count;
}

const char *qn_vocabulary_bytes(const qn_vocabulary *v, int32_t id, size_t *bytes)
{
    *bytes = v->tokens[id].kind >> 1;
    return v->blob + v->tokens[id].start;
}

int32_t qn_vocabulary_find(const qn_vocabulary *v, const char *spelling, size_t bytes, char *scratch)
{
    uint32_t kind = decode_spelling(v, spelling, bytes, scratch);
    return find_id(v, scratch, kind);
}

int32_t qn_vocabulary_find_joined(const qn_vocabulary *v, const char *spelling, size_t bytes, int32_t guess,
                                  char *scratch)
{
    uint32_t kind = decode_spelling(v, spelling, bytes, scratch);
    for (int32_t id = guess; id >= 0 && id <= guess + 1 && (size_t)id < v->count; id++) {
        if (is_token(v, id, scratch, kind))
            return id;
    }
    return find_id(v, scratch, kind);
}

int32_t qn_vocabulary_find_bytes(const qn_vocabulary *v, const char *text, size_t bytes)
{
    return find_id(v, text, make_kind(bytes, true));
}

int32_t qn_vocabulary_byte_id(const qn_vocabulary *v, uint8_t byte)
{
    return v->byte_ids[byte];
}
