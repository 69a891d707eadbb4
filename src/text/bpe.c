/* The symbols of a piece form a linked list in an array, and a heap holds the pairs that can be merged, keyed by (rank,
 * position). A pair that has changed since it went into the heap is recognised by its rank, which no other pair shares,
 * and skipped when it comes up: each merge adds at most two pairs, so the heap never exceeds twice the piece. */
#include "text/bpe.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { NO_RANK = UINT32_MAX, NO_SYMBOL = UINT32_MAX };

static const uint64_t no_pair = UINT64_MAX;

typedef struct merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank;
    int32_t id; /* of the joined token */
} merge;

struct qn_bpe {
    qn_vocabulary *vocabulary;
    bool ignore_merges;
    merge *merges; /* as added; once sealed, a hash table with open addressing */
    size_t count, capacity;
    size_t slots;        /* of the table: a power of two */
    unsigned shift;      /* 64 - log2(slots) */
    uint64_t multiplier; /* of the hash: odd and random, so that no file can make its merges collide */
    char *spelling;      /* scratch for adding merges */
    size_t spelling_capacity;
};

typedef struct qn_bpe_symbol {
    int32_t id;
    uint32_t previous, next; /* positions, NO_SYMBOL at the ends */
    uint32_t rank;           /* of the pair that this symbol and the next make; NO_RANK: none, or merged away */
} symbol;

qn_status qn_bpe_new(qn_vocabulary *vocabulary, bool ignore_merges, qn_bpe **out, qn_error *err)
{
    qn_bpe *bpe = qn_alloc_zero(1, sizeof *bpe);
    if (!bpe)
        return qn_fail_memory(err, "merges", sizeof *bpe);
    bpe->vocabulary = vocabulary;
    bpe->ignore_merges = ignore_merges;
    *out = bpe;
    return QN_OK;
}

void qn_bpe_free(qn_bpe *bpe)
{
    if (!bpe)
        return;
    qn_vocabulary_free(bpe->vocabulary);
    qn_free(bpe->merges);
    qn_free(bpe->spelling);
    qn_free(bpe);
}

qn_vocabulary *qn_bpe_vocabulary(qn_bpe *bpe)
{
    return bpe->vocabulary;
}

const qn_vocabulary *qn_bpe_tokens(const qn_bpe *bpe)
{
    return bpe->vocabulary;
}

static qn_status reserve_merge(qn_bpe *bpe, size_t spelling_bytes, qn_error *err)
{
    if (bpe->spelling_capacity < 2 * spelling_bytes) {
        char *spelling = qn_realloc(bpe->spelling, spelling_bytes, 4);
        if (!spelling)
            return qn_fail_memory(err, "merges", 4 * spelling_bytes);
        bpe->spelling = spelling;
        bpe->spelling_capacity = 4 * spelling_bytes;
    }
    if (bpe->count == bpe->capacity) {
        size_t capacity = bpe->capacity ? bpe->capacity * 2 : 1024;
        merge *merges = qn_realloc(bpe->merges, capacity, sizeof *merges);
        if (!merges)
            return qn_fail_memory(err, "merges", capacity * sizeof *merges);
        bpe->merges = merges;
        bpe->capacity = capacity;
    }
    return QN_OK;
}

static qn_status fail_merge(const qn_bpe *bpe, const char *part, size_t bytes, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "merge %zu: \"%.*s\" is not in the vocabulary: the tokenizer.json is damaged",
                   bpe->count, (int)(bytes < 80 ? bytes : 80), part);
}

qn_status qn_bpe_add_merge(qn_bpe *bpe, const char *left, size_t left_bytes, const char *right, size_t right_bytes,
                           qn_error *err)
{
    if (left_bytes == 0 || right_bytes == 0)
        return qn_fail(err, QN_BAD_INPUT, "merge %zu: a part of it is empty: the tokenizer.json is damaged",
                       bpe->count);
    if (bpe->count >= NO_RANK)
        return qn_fail(err, QN_BAD_INPUT, "merges: there are more than %u: quern cannot use this tokenizer", NO_RANK);
    size_t bytes = left_bytes + right_bytes;
    qn_status status = reserve_merge(bpe, bytes, err);
    if (status != QN_OK)
        return status;
    char *joined = bpe->spelling, *scratch = bpe->spelling + bytes;
    memcpy(joined, left, left_bytes);
    memcpy(joined + left_bytes, right, right_bytes);
    int32_t left_id = qn_vocabulary_find(bpe->vocabulary, left, left_bytes, scratch);
    if (left_id < 0)
        return fail_merge(bpe, left, left_bytes, err);
    int32_t right_id = qn_vocabulary_find(bpe->vocabulary, right, right_bytes, scratch);
    if (right_id < 0)
        return fail_merge(bpe, right, right_bytes, err);
    int32_t id = qn_vocabulary_find(bpe->vocabulary, joined, bytes, scratch);
    if (id < 0)
        return fail_merge(bpe, joined, bytes, err);
    uint64_t pair = (uint64_t)(uint32_t)left_id << 32 | (uint32_t)right_id;
    bpe->merges[bpe->count] = (merge){pair, (uint32_t)bpe->count, id};
    bpe->count++;
    return QN_OK;
}

/* The slot of a pair, or the free one where it would go (multiply-shift hashing). */
static merge *find_merge(const qn_bpe *bpe, uint64_t pair)
{
    size_t slot = (size_t)(pair * bpe->multiplier >> bpe->shift);
    while (bpe->merges[slot].pair != pair && bpe->merges[slot].pair != no_pair)
        slot = (slot + 1) & (bpe->slots - 1);
    return &bpe->merges[slot];
}

qn_status qn_bpe_seal(qn_bpe *bpe, qn_error *err)
{
    size_t slots = 1024;
    bpe->shift = 64 - 10;
    while (slots < bpe->count + bpe->count / 2) {
        slots *= 2;
        bpe->shift--;
    }
    merge *learned = bpe->merges;
    merge *table = qn_alloc(slots, sizeof *table);
    if (!table)
        return qn_fail_memory(err, "merges", slots * sizeof *table);
    for (size_t i = 0; i < slots; i++)
        table[i].pair = no_pair;
    bpe->merges = table;
    bpe->slots = slots;
    bpe->multiplier = qn_random_seed() | 1;
    for (size_t i = 0; i < bpe->count; i++)
        *find_merge(bpe, learned[i].pair) = learned[i];
    qn_free(learned);
    qn_free(bpe->spelling);
    bpe->spelling = NULL;
    return QN_OK;
}

static uint32_t pair_rank(const qn_bpe *bpe, int32_t left, int32_t right)
{
    const merge *m = find_merge(bpe, (uint64_t)(uint32_t)left << 32 | (uint32_t)right);
    return m->pair == no_pair ? NO_RANK : m->rank;
}

static int32_t merged_id(const qn_bpe *bpe, int32_t left, int32_t right)
{
    return find_merge(bpe, (uint64_t)(uint32_t)left << 32 | (uint32_t)right)->id;
}

/* ---- a heap of 64-bit keys, smallest first ---- */

static void sift_down(uint64_t *heap, size_t count, size_t at)
{
    uint64_t key = heap[at];
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (key <= heap[child])
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = key;
}

static void push(uint64_t *heap, size_t *count, uint64_t key)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > key) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = key;
}

static uint64_t pop(uint64_t *heap, size_t *count)
{
    uint64_t key = heap[0];
    heap[0] = heap[--*count];
    if (*count > 0)
        sift_down(heap, *count, 0);
    return key;
}

/* ---- encoding ---- */

static qn_status reserve_symbols(qn_bpe_scratch *s, size_t count, qn_error *err)
{
    if (count <= s->capacity)
        return QN_OK;
    size_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < count)
        capacity *= 2;
    symbol *symbols = qn_realloc(s->symbols, capacity, sizeof *symbols);
    if (symbols)
        s->symbols = symbols;
    uint64_t *heap = qn_realloc(s->heap, capacity, 2 * sizeof *heap);
    if (heap)
        s->heap = heap;
    if (!symbols || !heap)
        return qn_fail_memory(err, "encoding a text", capacity * (sizeof *symbols + 2 * sizeof *heap));
    s->capacity = capacity;
    return QN_OK;
}

/* Sets the rank of the pair that begins at `at` and puts it into the heap if it can be merged. */
static void offer_pair(const qn_bpe *bpe, symbol *symbols, uint32_t at, uint64_t *heap, size_t *pairs)
{
    symbol *left = &symbols[at];
    left->rank = left->next == NO_SYMBOL ? NO_RANK : pair_rank(bpe, left->id, symbols[left->next].id);
    if (left->rank != NO_RANK)
        push(heap, pairs, (uint64_t)left->rank << 32 | at);
}

static void merge_all(const qn_bpe *bpe, symbol *symbols, uint64_t *heap, size_t pairs)
{
    while (pairs > 0) {
        uint64_t key = pop(heap, &pairs);
        uint32_t at = (uint32_t)key;
        symbol *left = &symbols[at];
        if (left->rank != (uint32_t)(key >> 32))
            continue; /* the pair is no more */
        symbol *right = &symbols[left->next];
        left->id = merged_id(bpe, left->id, right->id);
        left->next = right->next;
        right->rank = NO_RANK;
        if (left->next != NO_SYMBOL)
            symbols[left->next].previous = at;
        offer_pair(bpe, symbols, at, heap, &pairs);
        if (left->previous != NO_SYMBOL)
            offer_pair(bpe, symbols, left->previous, heap, &pairs);
    }
}

qn_status qn_bpe_encode(const qn_bpe *bpe, qn_bpe_scratch *s, const char *piece, size_t bytes, qn_tokens *out,
                        qn_error *err)
{
    if (bytes == 0)
        return QN_OK;
    int32_t whole = bpe->ignore_merges ? qn_vocabulary_find_bytes(bpe->vocabulary, piece, bytes) : -1;
    if (whole >= 0)
        return qn_tokens_add(out, whole) ? QN_OK : qn_fail_memory(err, "token ids", out->count * sizeof *out->ids);
    qn_status status = reserve_symbols(s, bytes, err);
    if (status != QN_OK)
        return status;
    symbol *symbols = s->symbols;
    for (size_t i = 0; i < bytes; i++)
        symbols[i] = (symbol){.id = qn_vocabulary_byte_id(bpe->vocabulary, (uint8_t)piece[i]),
                              .previous = i > 0 ? (uint32_t)i - 1 : NO_SYMBOL,
                              .next = i + 1 < bytes ? (uint32_t)i + 1 : NO_SYMBOL};
    size_t pairs = 0;
    for (size_t i = 0; i < bytes; i++)
        offer_pair(bpe, symbols, (uint32_t)i, s->heap, &pairs);
    merge_all(bpe, symbols, s->heap, pairs);
    for (uint32_t at = 0; at != NO_SYMBOL; at = symbols[at].next) {
        if (!qn_tokens_add(out, symbols[at].id))
            return qn_fail_memory(err, "token ids", out->count * sizeof *out->ids);
    }
    return QN_OK;
}

void qn_bpe_scratch_free(qn_bpe_scratch *scratch)
{
    qn_free(scratch->symbols);
    qn_free(scratch->heap);
    *scratch = (qn_bpe_scratch){0};
}
