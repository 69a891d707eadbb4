/* Many reads at once, by io_uring: a disk gives its full speed only to whoever asks for several things together.
 *
 * A read is started, goes on by itself, and is waited for when its bytes are needed. `depth` of them are under way at
 * any time; the others queue. Those that are only hoped to be of use go behind the urgent ones, a third of `depth` at a
 * time and in pieces of QN_ASYNC_HOPED_PIECE: what is under way can't be called off, and the urgent ones that come next
 * wait for it. Between two pieces they give way to what is urgent. Until a read is done, its buffer and the
 * qn_async_read itself stay where they are. One thread uses a reader.
 *
 * Nothing waits for ever: a wait ends with an error once no read at all has got on for the reader's patience. The read
 * is then still under way, and may be waited for again; until something does get on, such waits last a second at most.
 */
#ifndef QN_BASE_ASYNC_READER_H
#define QN_BASE_ASYNC_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/direct_reader.h"
#include "base/error.h"

typedef struct qn_async_reader qn_async_reader;

typedef enum qn_async_state { QN_ASYNC_IDLE, QN_ASYNC_QUEUED, QN_ASYNC_UNDER_WAY, QN_ASYNC_DONE } qn_async_state;

typedef struct qn_async_read {
    /* the caller's, set before the start */
    const qn_direct_reader *file;
    uint64_t offset;
    size_t bytes;
    void *buffer; /* aligned to QN_DIRECT_ALIGNMENT, qn_direct_buffer_bytes(bytes) long */
    /* the reader's, zero before the first start; a read that is done may be started again, from its first byte */
    qn_async_state state;
    int error;          /* of a read that is done: an errno, 0 when all bytes are there, or QN_ASYNC_CUT_OFF */
    size_t got;         /* bytes of the widened range that are there */
    bool hoped;         /* was under way, or is, without being urgent */
    uint64_t forgotten; /* how often hopes were forgotten before its last start */
    struct qn_async_read *next;
} qn_async_read;

enum { QN_ASYNC_CUT_OFF = -1, QN_ASYNC_MAX_DEPTH = 256, QN_ASYNC_HOPED_PIECE = 1 << 20 };

/* QN_RESOURCE where the system does not allow io_uring. depth: 1..QN_ASYNC_MAX_DEPTH. */
qn_status qn_async_reader_new(size_t depth, uint64_t patience_us, qn_async_reader **out, qn_error *err);
/* Waits for what is under way, as long as its patience lasts; what is queued is forgotten. False: a read never ended,
 * and the system may yet write to its buffer, which must stay mapped. NULL is fine. */
bool qn_async_reader_free(qn_async_reader *reader);

/* Never waits. An urgent start of a read that is queued already moves it forward, and of one that is under way makes
 * the rest of it urgent. */
void qn_async_reader_start(qn_async_reader *reader, qn_async_read *read, bool urgent);

/* Reads that are only hoped to be of use are QN_ASYNC_IDLE again, at once or when their piece under way has come. What
 * they have got they keep: started again for the same bytes, they go on behind it; `got` is to be set to 0 by who wants
 * other bytes. */
void qn_async_reader_forget_hoped(qn_async_reader *reader);

/* Takes note of what is done, and starts what is queued; never waits. */
void qn_async_reader_poll(qn_async_reader *reader);

/* Waits until some read has got on, whichever. QN_OK at once when none is queued or under way. `named`: a read whose
 * file is to be named when none gets on; may be NULL. */
qn_status qn_async_reader_wait_any(qn_async_reader *reader, const qn_async_read *named, qn_error *err);

/* Waits until this read is done and tells how it went: QN_RESOURCE for a failed read, or one that got nowhere;
 * QN_BAD_INPUT for a file that ends too early. All name the file. */
qn_status qn_async_reader_wait(qn_async_reader *reader, const qn_async_read *read, qn_error *err);

/* So many bytes have arrived since the start, those that came with whole blocks included. */
uint64_t qn_async_reader_bytes(const qn_async_reader *reader);

/* Where the first byte of a read that is done lies. */
const uint8_t *qn_async_read_data(const qn_async_read *read);

#endif
