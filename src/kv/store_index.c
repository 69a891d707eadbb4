/* Entries hang in two hash tables, by id and by parent's id; the second finds the children of an entry that comes later
 * than they do, as happens when a folder is read. Those that may go, the leaves, are a binary heap.
 *
 * Ids are hashes already, so their low bits choose the bucket. The tables are sized once, for what the folder may hold.
 */
#include "kv/store_index.h"

#include <time.h>

#include "base/memory.h"

enum { MIN_BUCKETS = 1 << 8, MAX_BUCKETS = 1 << 20, MIN_HEAP = 64 };
static const int64_t NS_PER_S = 1000000000;

struct qn_kv_index {
    size_t buckets; /* a power of two */
    qn_kv_entry **by_id, **by_parent;
    qn_kv_entry **heap; /* [heap_capacity], the first heap_count; room for all entries */
    size_t heap_count, heap_capacity, count, blocks;
    uint64_t bytes;
    int64_t newest_ns;
};

qn_kv_index *qn_kv_index_new(size_t expected_entries)
{
    qn_kv_index *index = qn_alloc_zero(1, sizeof *index);
    if (!index)
        return NULL;
    index->buckets = MIN_BUCKETS;
    while (index->buckets < expected_entries && index->buckets < MAX_BUCKETS)
        index->buckets *= 2;
    index->by_id = qn_alloc_zero(index->buckets, sizeof *index->by_id);
    index->by_parent = qn_alloc_zero(index->buckets, sizeof *index->by_parent);
    if (!index->by_id || !index->by_parent) {
        qn_kv_index_free(index);
        return NULL;
    }
    return index;
}

void qn_kv_index_free(qn_kv_index *index)
{
    if (!index)
        return;
    for (size_t i = 0; index->by_id && i < index->buckets; i++) {
        for (qn_kv_entry *entry = index->by_id[i], *next; entry; entry = next) {
            next = entry->next_by_id;
            qn_free(entry);
        }
    }
    qn_free(index->by_id);
    qn_free(index->by_parent);
    qn_free(index->heap);
    qn_free(index);
}

static qn_kv_entry **bucket(const qn_kv_index *index, qn_kv_entry **table, qn_hash id)
{
    return &table[id.low & (index->buckets - 1)];
}

qn_kv_entry *qn_kv_index_find(const qn_kv_index *index, qn_hash id)
{
    qn_kv_entry *entry = *bucket(index, index->by_id, id);
    while (entry && !qn_hash_equal(entry->id, id))
        entry = entry->next_by_id;
    return entry;
}

static bool goes_before(const qn_kv_entry *a, const qn_kv_entry *b)
{
    if (a->foreign != b->foreign)
        return a->foreign;
    return a->recency_ns < b->recency_ns;
}

static void place(qn_kv_index *index, size_t at, qn_kv_entry *entry)
{
    index->heap[at] = entry;
    entry->heap_at = at;
}

/* Moves entry, which may be placed at the free place `at`, to where it belongs. */
static void sift(qn_kv_index *index, size_t at, qn_kv_entry *entry)
{
    while (at > 0 && goes_before(entry, index->heap[(at - 1) / 2])) {
        place(index, at, index->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (size_t child; (child = 2 * at + 1) < index->heap_count; at = child) {
        if (child + 1 < index->heap_count && goes_before(index->heap[child + 1], index->heap[child]))
            child++;
        if (!goes_before(index->heap[child], entry))
            break;
        place(index, at, index->heap[child]);
    }
    place(index, at, entry);
}

static void leave_heap(qn_kv_index *index, qn_kv_entry *entry)
{
    size_t at = entry->heap_at;
    if (at == SIZE_MAX)
        return;
    entry->heap_at = SIZE_MAX;
    qn_kv_entry *last = index->heap[--index->heap_count];
    if (last != entry)
        sift(index, at, last);
}

/* Puts entry among those that may go, or takes it from them. */
static void update_heap(qn_kv_index *index, qn_kv_entry *entry)
{
    bool may_go = entry->state == QN_KV_ENTRY_STORED && entry->children == 0;
    if (!may_go)
        leave_heap(index, entry);
    else if (entry->heap_at == SIZE_MAX)
        sift(index, index->heap_count++, entry);
}

static bool reserve(qn_kv_index *index)
{
    if (index->count < index->heap_capacity)
        return true;
    size_t capacity = index->heap_capacity > 0 ? 2 * index->heap_capacity : MIN_HEAP;
    qn_kv_entry **heap = qn_realloc(index->heap, capacity, sizeof *heap);
    if (!heap)
        return false;
    index->heap = heap;
    index->heap_capacity = capacity;
    return true;
}

static size_t count_children(const qn_kv_index *index, qn_hash id)
{
    size_t count = 0;
    for (const qn_kv_entry *e = *bucket(index, index->by_parent, id); e; e = e->next_by_parent)
        count += qn_hash_equal(e->parent_id, id);
    return count;
}

qn_kv_entry *qn_kv_index_add(qn_kv_index *index, qn_hash id, qn_hash parent_id, bool foreign)
{
    qn_kv_entry *entry = reserve(index) ? qn_alloc_zero(1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    qn_kv_entry **by_id = bucket(index, index->by_id, id), **by_parent = bucket(index, index->by_parent, parent_id);
    *entry = (qn_kv_entry){.id = id,
                           .parent_id = parent_id,
                           .state = QN_KV_ENTRY_QUEUED,
                           .foreign = foreign,
                           .children = count_children(index, id),
                           .heap_at = SIZE_MAX,
                           .next_by_id = *by_id,
                           .next_by_parent = *by_parent};
    *by_id = *by_parent = entry;
    index->count++;
    qn_kv_entry *parent = qn_kv_index_find(index, parent_id);
    if (parent) {
        parent->children++;
        update_heap(index, parent);
    }
    return entry;
}

void qn_kv_index_set_stored(qn_kv_index *index, qn_kv_entry *entry, uint64_t bytes, int64_t recency_ns)
{
    entry->state = QN_KV_ENTRY_STORED;
    entry->bytes = bytes;
    entry->recency_ns = entry->dated_ns = recency_ns;
    index->bytes += bytes;
    index->blocks += !entry->foreign;
    if (index->newest_ns < recency_ns)
        index->newest_ns = recency_ns;
    update_heap(index, entry);
}

void qn_kv_index_set_removing(qn_kv_index *index, qn_kv_entry *entry)
{
    index->blocks -= entry->state == QN_KV_ENTRY_STORED && !entry->foreign;
    entry->state = QN_KV_ENTRY_REMOVING;
    update_heap(index, entry);
}

static void unlink_entry(qn_kv_index *index, qn_kv_entry *entry)
{
    qn_kv_entry **at = bucket(index, index->by_id, entry->id);
    while (*at != entry)
        at = &(*at)->next_by_id;
    *at = entry->next_by_id;
    at = bucket(index, index->by_parent, entry->parent_id);
    while (*at != entry)
        at = &(*at)->next_by_parent;
    *at = entry->next_by_parent;
}

void qn_kv_index_erase(qn_kv_index *index, qn_kv_entry *entry)
{
    qn_kv_index_set_removing(index, entry);
    unlink_entry(index, entry);
    qn_kv_entry *parent = qn_kv_index_find(index, entry->parent_id);
    if (parent) {
        parent->children--;
        update_heap(index, parent);
    }
    index->bytes -= entry->bytes;
    index->count--;
    qn_free(entry);
}

int64_t qn_kv_index_tick(qn_kv_index *index)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
    index->newest_ns = now_ns > index->newest_ns ? now_ns : index->newest_ns + 1;
    return index->newest_ns;
}

void qn_kv_index_touch(qn_kv_index *index, qn_kv_entry *entry, int64_t recency_ns)
{
    entry->recency_ns = recency_ns;
    if (entry->heap_at != SIZE_MAX)
        sift(index, entry->heap_at, entry);
}

qn_kv_entry *qn_kv_index_victim(const qn_kv_index *index)
{
    return index->heap_count > 0 ? index->heap[0] : NULL;
}

uint64_t qn_kv_index_bytes(const qn_kv_index *index)
{
    return index->bytes;
}

size_t qn_kv_index_blocks(const qn_kv_index *index)
{
    return index->blocks;
}
