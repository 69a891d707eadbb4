/* KV blocks of shared prefixes on disk, so that a restarted server answers a known prompt without computing it again.
 *
 * One file a block in a folder that one process has at a time (a lock in it says whose). A file is written under a
 * temporary name and renamed once whole; header and contents carry XXH3-128 checksums and are checked at every read, so
 * that neither a kill at any moment nor damage nor a foreign file can give a wrong block. What does not check is
 * removed with a line, and the block computed again. Nothing is synced: after a power cut some files may be damaged,
 * and are then found to be.
 *
 * The files together stay within max_bytes. What goes first are files of another model or layout, then the block that
 * was written, read or touched longest ago among those that no stored block builds on: a chain without its head is
 * useless. Recency is the files' modification time, and so outlives a restart.
 *
 * The engine's thread is the only caller of these functions. None of them waits for the disk but open and close: that
 * is done by threads of the store, which also call wake().
 *
 * Memory: three buffers of a file's size, the queue (below 1 MB for blocks of 128 tokens), and some 200 bytes a stored
 * block. */
#ifndef QN_KV_STORE_H
#define QN_KV_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"

enum {
    QN_KV_STORE_MAX_JOBS = 1024,  /* reads and writes from the call to take_done */
    QN_KV_STORE_MAX_WRITES = 512, /* of them, writes */
};

typedef struct qn_kv_store qn_kv_store;

typedef struct qn_kv_store_options {
    const char *dir;
    /* Of the model and of all that changes a bit of the contents. Files of another fingerprint, block_bytes or
     * block_tokens are never read, and are removed first when room is needed. */
    qn_hash fingerprint;
    size_t block_bytes, block_tokens; /* tokens: 1..1024 */
    uint64_t max_bytes;               /* all block files together, the one being written too; at least one of them */
    uint64_t retry_us;                /* no writing for so long after one that failed; 0: a minute */
    void (*wake)(void *context);      /* on a store's thread, when a completion is ready; NULL: none */
    void *wake_context;               /* used until close returns */
} qn_kv_store_options;

/* What a store of these options allocates at most, as told above; 0 for options that qn_kv_store_open refuses. */
size_t qn_kv_store_bytes(const qn_kv_store_options *options);

/* Makes the folder if it is absent (not those above it), removes what an ended process left unfinished and files that
 * are damaged, reads the headers of the others and logs one line: blocks, bytes, tokens. QN_USAGE: max_bytes below one
 * file; QN_RESOURCE: another process has the folder (the sentence says which), no memory, no thread. */
qn_status qn_kv_store_open(const qn_kv_store_options *options, qn_kv_store **out, qn_error *err);

/* Finishes queued writes, with progress when that lasts, and forgets queued reads. Blocks of both must be left alone
 * until it returns; completions not taken are lost. NULL is fine. */
void qn_kv_store_close(qn_kv_store *store);

/* How many of the keys, from the front on, are stored or queued for writing. */
size_t qn_kv_store_find(qn_kv_store *store, const qn_hash *keys, size_t count);

/* Blocks with these keys are of use though nobody reads them here (they are hit in memory): refreshes their recency,
 * those that are stored. */
void qn_kv_store_touch(qn_kv_store *store, const qn_hash *keys, size_t count);

/* Queues block [block_bytes] of tokens ids[block_tokens] for writing; it must stay valid and unchanged until its
 * completion, ids are copied. Writes are done in order. False, and nothing will happen: stored or queued already; the
 * queue is full; a write failed lately; its parent was wanted here but found no room (the block would be of no use).
 * A completion that is not ok left nothing behind: the store failed, or has no room besides what builds on each other.
 */
bool qn_kv_store_write(qn_kv_store *store, qn_hash parent, qn_hash key, const int32_t *ids, const uint8_t *block,
                       void *tag);

/* Queues a read into block [block_bytes], which nobody else touches until the completion. Reads go before writes, and
 * run several at a time. ok: checksums, key, parent, ids, fingerprint and sizes all agree; else the block's contents
 * are as before. False, and nothing will happen: not stored, or the queue is full. */
bool qn_kv_store_read(qn_kv_store *store, qn_hash parent, qn_hash key, const int32_t *ids, uint8_t *block, void *tag);

typedef struct qn_kv_store_done {
    void *tag;
    bool is_read, ok;
} qn_kv_store_done;

/* Takes up to `max` completions, in the order in which they came; returns how many. */
size_t qn_kv_store_take_done(qn_kv_store *store, qn_kv_store_done *out, size_t max);

typedef struct qn_kv_store_state {
    size_t blocks;   /* that can be read */
    uint64_t bytes;  /* of all block files, those of other models too */
    uint64_t writes; /* since open, here and below: done */
    uint64_t reads;  /* that were ok */
    uint64_t failed_reads;
    uint64_t evictions; /* files removed to make room */
} qn_kv_store_state;

void qn_kv_store_get_state(qn_kv_store *store, qn_kv_store_state *out);

#endif
