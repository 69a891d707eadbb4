/* Which block files there are, what they build on, and which goes first. One thread at a time; knows no disk.
 *
 * A file that others build on (a file whose id is their parent's) is never the one to go: among those without children
 * it is the least recent, files of another kind before all. So chains shrink from their ends. */
#ifndef QN_KV_STORE_INDEX_H
#define QN_KV_STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

typedef enum qn_kv_entry_state {
    QN_KV_ENTRY_QUEUED,  /* to be written: has no file yet */
    QN_KV_ENTRY_STORED,  /* has a file */
    QN_KV_ENTRY_REMOVING /* its file is being removed, or could not be: still counts, is of no use */
} qn_kv_entry_state;

typedef struct qn_kv_entry qn_kv_entry;
struct qn_kv_entry {
    qn_hash id, parent_id;
    qn_kv_entry_state state;
    bool foreign;       /* not of this model and layout */
    uint64_t bytes;     /* of the file; 0 while queued */
    int64_t recency_ns; /* Unix time */
    int64_t dated_ns;   /* the recency that the file tells, or soon will */
    size_t children;    /* entries that build on it */
    size_t heap_at;     /* place among those that may go; SIZE_MAX: none */
    qn_kv_entry *next_by_id, *next_by_parent;
};

typedef struct qn_kv_index qn_kv_index;

qn_kv_index *qn_kv_index_new(size_t expected_entries); /* NULL when out of memory */
void qn_kv_index_free(qn_kv_index *index);             /* NULL is fine */

qn_kv_entry *qn_kv_index_find(const qn_kv_index *index, qn_hash id); /* NULL: none */

/* A new entry, which must not be there yet: queued, or, with bytes, stored. Recency is that of the file, or now. NULL
 * when out of memory. */
qn_kv_entry *qn_kv_index_add(qn_kv_index *index, qn_hash id, qn_hash parent_id, bool foreign);
void qn_kv_index_set_stored(qn_kv_index *index, qn_kv_entry *entry, uint64_t bytes, int64_t recency_ns);
void qn_kv_index_set_removing(qn_kv_index *index, qn_kv_entry *entry);
void qn_kv_index_erase(qn_kv_index *index, qn_kv_entry *entry);

/* A time for what is used now: the clock's, but later than any that the index has seen. */
int64_t qn_kv_index_tick(qn_kv_index *index);
void qn_kv_index_touch(qn_kv_index *index, qn_kv_entry *entry, int64_t recency_ns);

qn_kv_entry *qn_kv_index_victim(const qn_kv_index *index); /* NULL: none may go */

uint64_t qn_kv_index_bytes(const qn_kv_index *index); /* of all files */
size_t qn_kv_index_blocks(const qn_kv_index *index);  /* stored, and not foreign */

#endif
