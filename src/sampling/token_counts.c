/* Entries lie one behind the other in the order of their arrival, so that a row's penalties walk them without holes; an
 * open-addressing index, at most half full, finds the entry of a token. */
#include "sampling/token_counts.h"

#include <string.h>

#include "base/memory.h"
#include "base/size.h"

enum { LEAST_ENTRIES = 64, SLOTS_PER_ENTRY = 2 };

struct qn_token_counts {
    qn_token_count *entries;
    uint32_t *slots;        /* [SLOTS_PER_ENTRY * capacity]: index of an entry + 1; 0: free */
    size_t count, capacity; /* of entries; capacity is a power of two */
};

/* The slot that holds the token, or the free one where it belongs. */
static size_t find_slot(const qn_token_counts *counts, int32_t token)
{
    size_t mask = SLOTS_PER_ENTRY * counts->capacity - 1;
    /* Multiplied by 2^64 / golden ratio, ids that follow each other spread over the high bits. */
    size_t slot = (size_t)(((uint64_t)(uint32_t)token * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
    while (counts->slots[slot] != 0 && counts->entries[counts->slots[slot] - 1].token != token) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

static qn_status grow(qn_token_counts *counts, size_t capacity, qn_error *err)
{
    qn_token_count *entries = qn_realloc(counts->entries, capacity, sizeof *entries);
    if (entries == NULL) {
        return qn_fail_memory(err, "token counts of a request", capacity * sizeof *entries);
    }
    counts->entries = entries;
    uint32_t *slots = qn_alloc_zero(capacity, SLOTS_PER_ENTRY * sizeof *slots);
    if (slots == NULL) {
        return qn_fail_memory(err, "token counts of a request", capacity * SLOTS_PER_ENTRY * sizeof *slots);
    }
    qn_free(counts->slots);
    counts->slots = slots;
    counts->capacity = capacity;
    for (size_t i = 0; i < counts->count; i++) {
        slots[find_slot(counts, entries[i].token)] = (uint32_t)i + 1;
    }
    return QN_OK;
}

qn_status qn_token_counts_reserve(qn_token_counts *counts, size_t tokens, qn_error *err)
{
    size_t need, capacity = qn_max_size(counts->capacity, LEAST_ENTRIES);
    if (!qn_size_add(counts->count, tokens, &need) || need > UINT32_MAX / 2) {
        return qn_fail(err, QN_RESOURCE, "token counts of a request: %zu tokens are too many: ask for fewer", tokens);
    }
    while (capacity < need) {
        capacity *= 2;
    }
    return capacity == counts->capacity ? QN_OK : grow(counts, capacity, err);
}

/* The entry of a token, made when there is none; NULL when there is no room for it (err tells). */
static qn_token_count *take_entry(qn_token_counts *counts, int32_t token, qn_error *err)
{
    size_t slot = find_slot(counts, token);
    if (counts->slots[slot] != 0) {
        return &counts->entries[counts->slots[slot] - 1];
    }
    if (counts->count == counts->capacity) {
        if (qn_token_counts_reserve(counts, 1, err) != QN_OK) {
            return NULL;
        }
        slot = find_slot(counts, token);
    }
    qn_token_count *entry = &counts->entries[counts->count++];
    *entry = (qn_token_count){.token = token};
    counts->slots[slot] = (uint32_t)counts->count;
    return entry;
}

qn_status qn_token_counts_new(const int32_t *prompt, size_t count, qn_token_counts **out, qn_error *err)
{
    qn_token_counts *counts = qn_alloc_zero(1, sizeof *counts);
    if (counts == NULL) {
        return qn_fail_memory(err, "token counts of a request", sizeof *counts);
    }
    qn_status status = qn_token_counts_reserve(counts, LEAST_ENTRIES, err);
    for (size_t i = 0; status == QN_OK && i < count; i++) {
        qn_token_count *entry = take_entry(counts, prompt[i], err);
        if (entry == NULL) {
            status = err->status;
        } else {
            entry->in_prompt = true;
        }
    }
    if (status != QN_OK) {
        qn_token_counts_free(counts);
        return status;
    }
    *out = counts;
    return QN_OK;
}

void qn_token_counts_free(qn_token_counts *counts)
{
    if (counts != NULL) {
        qn_free(counts->entries);
        qn_free(counts->slots);
        qn_free(counts);
    }
}

qn_status qn_token_counts_add(qn_token_counts *counts, int32_t token, qn_error *err)
{
    qn_token_count *entry = take_entry(counts, token, err);
    if (entry == NULL) {
        return err->status;
    }
    entry->in_answer++;
    return QN_OK;
}

qn_token_count qn_token_counts_of(const qn_token_counts *counts, int32_t token)
{
    uint32_t index = counts->slots[find_slot(counts, token)];
    return index == 0 ? (qn_token_count){.token = token} : counts->entries[index - 1];
}

size_t qn_token_counts_list(const qn_token_counts *counts, const qn_token_count **list)
{
    *list = counts->entries;
    return counts->count;
}
