/* The symbols of a piece form a linked list in an array, and a heap holds the pairs that can be merged, keyed by (rank,
 * position). A pair that has changed since it went into the heap is recognised by its rank, which no other pair shares,
 * and skipped when it comes up: each merge adds at most two pairs, so the heap never exceeds twice the piece.
 *
 * Most pairs ever offered are the first ones, of single bytes, and there are only 65,536 kinds of them: those of one
 * kind are chained by position and take one place in the heap, which keeps it small and its top in place while a chain
 * is worked off. On a long piece that is three times as fast as a place for each. */
#include "text/bpe.h"

#include <string.h>

#include "base/memory.h"
#include "base/random.h"

enum { BYTE_PAIRS = 1 << 16 };

#define NO_RANK UINT32_MAX
#define NO_SYMBOL UINT32_MAX
#define CHAINED (UINT32_C(1) << 31) /* in the position of a key: the pair has a chain */

typedef struct merge {
    int32_t left, right;
    uint32_t rank; /* NO_RANK: a free slot of the table */
} merge;

struct qn_bpe {
    qn_vocabulary *vocabulary;
    bool ignore_merges;
    merge *merges;   /* as added; once sealed, a hash table with open addressing */
    int32_t *joined; /* the id that the merge of each rank makes; merging goes through it mostly in order */
    size_t count, capacity;
    uint32_t *byte_ranks; /* of the pair of two bytes: [first << 8 | second], NO_RANK when it has no merge */
    size_t slots;         /* of the table: a power of two */
    unsigned shift;       /* 64 - log2(slots) */
    uint64_t multiplier;  /* of the hash: odd and random, so that no file can make its merges collide */
    char *spelling;       /* scratch for adding merges */
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
    bpe->byte_ranks = qn_alloc(BYTE_PAIRS, sizeof *bpe->byte_ranks);
    if (!bpe->byte_ranks) {
        qn_free(bpe);
        return qn_fail_memory(err, "merges", BYTE_PAIRS * sizeof *bpe->byte_ranks);
    }
    memset(bpe->byte_ranks, 0xFF, BYTE_PAIRS * sizeof *bpe->byte_ranks); /* NO_RANK */
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
    qn_free(bpe->joined);
    qn_free(bpe->byte_ranks);
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
        if (merges)
            bpe->merges = merges;
        int32_t *joined = qn_realloc(bpe->joined, capacity, sizeof *joined);
        if (joined)
            bpe->joined = joined;
        if (!merges || !joined)
            return qn_fail_memory(err, "merges", capacity * (sizeof *merges + sizeof *joined));
        bpe->capacity = capacity;
    }
    return QN_OK;
}

static qn_status fail_merge(const qn_bpe *bpe, const char *part, size_t bytes, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "merge %zu: \"%.*s\" is not in the vocabulary: the tokenizer.json is damaged",
                   bpe->count, (int)(bytes < 80 ? bytes : 80), part);
}

/* The byte that the token stands for, when it is the one that texts start from; -1: it is not. */
static int single_byte(const qn_bpe *bpe, int32_t id)
{
    size_t bytes;
    const char *text = qn_vocabulary_bytes(bpe->vocabulary, id, &bytes);
    return bytes == 1 && qn_vocabulary_byte_id(bpe->vocabulary, (uint8_t)*text) == id ? (uint8_t)*text : -1;
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
    int32_t guess = bpe->count > 0 ? bpe->joined[bpe->count - 1] : -1;
    int32_t id = qn_vocabulary_find_joined(bpe->vocabulary, joined, bytes, guess, scratch);
    if (id < 0)
        return fail_merge(bpe, joined, bytes, err);
    int left_byte = single_byte(bpe, left_id), right_byte = single_byte(bpe, right_id);
    if (left_byte >= 0 && right_byte >= 0)
        bpe->byte_ranks[left_byte << 8 | right_byte] = (uint32_t)bpe->count;
    bpe->merges[bpe->count] = (merge){left_id, right_id, (uint32_t)bpe->count};
    bpe->joined[bpe->count++] = id;
    return QN_OK;
}

/* The slot of a pair, or the free one where it would go (multiply-shift hashing). */
static merge *find_merge(const qn_bpe *bpe, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (size_t slot = (size_t)(pair * bpe->multiplier >> bpe->shift);; slot = (slot + 1) & (bpe->slots - 1)) {
        merge *m = &bpe->merges[slot];
        if ((m->left == left && m->right == right) || m->rank == NO_RANK)
            return m;
    }
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
        table[i] = (merge){-1, -1, NO_RANK};
    bpe->merges = table;
    bpe->slots = slots;
    bpe->multiplier = qn_random_seed() | 1;
    for (size_t i = 0; i < bpe->count; i++)
        *find_merge(bpe, learned[i].left, learned[i].right) = learned[i];
    qn_free(learned);
    qn_free(bpe->spelling);
    bpe->spelling = NULL;
    return QN_OK;
}

/* ---- a heap of 64-bit keys, smallest first; four children a node, which lie in one or two cache lines ---- */

static void push(uint64_t *heap, size_t *count, uint64_t key)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 4] > key) {
        heap[at] = heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    heap[at] = key;
}

/* Puts a key into the place of the smallest. */
static void replace_top(uint64_t *heap, size_t count, uint64_t key)
{
    size_t at = 0;
    for (size_t child = 1; child < count; child = 4 * at + 1) {
        size_t end = child + 4 < count ? child + 4 : count, least = child;
        for (size_t i = child + 1; i < end; i++)
            least = heap[i] < heap[least] ? i : least;
        if (key <= heap[least])
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = key;
}

/* ---- encoding ---- */

static qn_status reserve_symbols(qn_bpe_scratch *s, size_t count, qn_error *err)
{
    if (!s->first_of_pair)
        s->first_of_pair = qn_alloc_zero(BYTE_PAIRS, sizeof *s->first_of_pair);
    size_t capacity = s->capacity ? s->capacity : 64;
    while (capacity < count)
        capacity *= 2;
    size_t bytes = capacity * (sizeof(symbol) + 2 * sizeof *s->heap + sizeof *s->next_in_chain);
    if (!s->first_of_pair)
        return qn_fail_memory(err, "encoding a text", bytes);
    if (capacity == s->capacity)
        return QN_OK;
    symbol *symbols = qn_realloc(s->symbols, capacity, sizeof *symbols);
    if (symbols)
        s->symbols = symbols;
    uint64_t *heap = qn_realloc(s->heap, capacity, 2 * sizeof *heap);
    if (heap)
        s->heap = heap;
    uint32_t *next = qn_realloc(s->next_in_chain, capacity, sizeof *next);
    if (next)
        s->next_in_chain = next;
    if (!symbols || !heap || !next)
        return qn_fail_memory(err, "encoding a text", bytes);
    s->capacity = capacity;
    return QN_OK;
}

static uint64_t make_key(uint32_t rank, uint32_t position)
{
    return (uint64_t)rank << 32 | position;
}

static size_t byte_pair(const char *piece, size_t at)
{
    return (size_t)(uint8_t)piece[at] << 8 | (uint8_t)piece[at + 1];
}

/* Makes a symbol of each byte, and the heap of their pairs. Returns the size of the heap. */
static size_t start(const qn_bpe *bpe, qn_bpe_scratch *s, const char *piece, size_t bytes)
{
    for (size_t i = bytes; i-- > 0;) { /* from the end, so that chains ascend */
        bool is_last = i + 1 == bytes;
        symbol *new = &s->symbols[i];
        new->id = qn_vocabulary_byte_id(bpe->vocabulary, (uint8_t)piece[i]);
        new->previous = i > 0 ? (uint32_t)i - 1 : NO_SYMBOL;
        new->next = is_last ? NO_SYMBOL : (uint32_t)i + 1;
        new->rank = is_last ? NO_RANK : bpe->byte_ranks[byte_pair(piece, i)];
        if (new->rank != NO_RANK) {
            uint32_t *first = &s->first_of_pair[byte_pair(piece, i)]; /* one more than the position; 0: none */
            s->next_in_chain[i] = *first;
            *first = (uint32_t)i + 1;
        }
    }
    size_t pairs = 0;
    for (size_t i = 0; i + 1 < bytes; i++) {
        uint32_t *first = &s->first_of_pair[byte_pair(piece, i)];
        if (*first > 0)
            push(s->heap, &pairs, make_key(s->symbols[i].rank, (uint32_t)i | CHAINED));
        *first = 0; /* for the next piece */
    }
    return pairs;
}

/* Looks up the pair that begins at `at` and puts it into the heap if it can be merged. */
static void offer_pair(const qn_bpe *bpe, symbol *symbols, uint32_t at, uint64_t *heap, size_t *pairs)
{
    symbol *left = &symbols[at];
    left->rank = left->next == NO_SYMBOL ? NO_RANK : find_merge(bpe, left->id, symbols[left->next].id)->rank;
    if (left->rank != NO_RANK)
        push(heap, pairs, make_key(left->rank, at));
}

static void merge_all(const qn_bpe *bpe, qn_bpe_scratch *s, size_t pairs)
{
    symbol *symbols = s->symbols;
    while (pairs > 0) {
        uint64_t key = s->heap[0];
        uint32_t at = (uint32_t)key & ~CHAINED, rank = (uint32_t)(key >> 32);
        uint32_t chained = (uint32_t)key & CHAINED ? s->next_in_chain[at] : 0;
        if (chained > 0)
            replace_top(s->heap, pairs, make_key(rank, (chained - 1) | CHAINED));
        else if (--pairs > 0)
            replace_top(s->heap, pairs, s->heap[pairs]);
        symbol *left = &symbols[at];
        if (left->rank != rank)
            continue; /* the pair is no more */
        symbol *right = &symbols[left->next];
        left->id = bpe->joined[rank];
        left->next = right->next;
        right->rank = NO_RANK;
        if (left->next != NO_SYMBOL)
            symbols[left->next].previous = at;
        offer_pair(bpe, symbols, at, s->heap, &pairs);
        if (left->previous != NO_SYMBOL)
            offer_pair(bpe, symbols, left->previous, s->heap, &pairs);
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
    merge_all(bpe, s, start(bpe, s, piece, bytes));
    for (uint32_t at = 0; at != NO_SYMBOL; at = s->symbols[at].next) {
        if (!qn_tokens_add(out, s->symbols[at].id))
            return qn_fail_memory(err, "token ids", out->count * sizeof *out->ids);
    }
    return QN_OK;
}

void qn_bpe_scratch_free(qn_bpe_scratch *scratch)
{
    qn_free(scratch->symbols);
    qn_free(scratch->heap);
    qn_free(scratch->next_in_chain);
    qn_free(scratch->first_of_pair);
    *scratch = (qn_bpe_scratch){0};
}
