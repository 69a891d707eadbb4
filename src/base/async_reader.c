/* A request is widened to whole blocks, as direct_reader.c does, and asked for again from where it stopped when the
 * system gives less than all of it. The ring has as many places as reads may be under way, so a place is always there
 * for one that is taken off the queues. */
#include "base/async_reader.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/size.h"

typedef struct queue {
    qn_async_read *first, *last;
} queue;

struct qn_async_reader {
    struct io_uring ring;
    size_t depth, under_way, hoped_under_way, most_hoped;
    uint64_t bytes; /* that arrived */
    uint64_t patience_us;
    uint64_t moved_us; /* when a read got on last, or the first of those under way was started */
    uint64_t moves;    /* how often one did */
    int submit_error;  /* of the last submission: an errno, or 0 */
    queue urgent, hoped;
    uint64_t forgotten; /* how often hopes were */
};

/* What a wait is given however long nothing has got on. */
static const uint64_t GRACE_US = 1000000;

static qn_status fail_setup(qn_error *err, int error)
{
    if (error == EPERM || error == ENOSYS || error == EACCES)
        return qn_fail(err, QN_RESOURCE,
                       "io_uring: this system does not allow it (%s): set kernel.io_uring_disabled to 0, or let the "
                       "container's seccomp profile pass io_uring_setup, io_uring_enter and io_uring_register",
                       strerror(error));
    return qn_fail_errno(err, "io_uring", "set up", error);
}

qn_status qn_async_reader_new(size_t depth, uint64_t patience_us, qn_async_reader **out, qn_error *err)
{
    qn_async_reader *reader = qn_alloc_zero(1, sizeof *reader);
    if (!reader)
        return qn_fail_memory(err, "reader", sizeof *reader);
    reader->depth = qn_max_size(1, qn_min_size(depth, QN_ASYNC_MAX_DEPTH));
    reader->most_hoped = qn_max_size(1, reader->depth / 3);
    reader->patience_us = patience_us;
    int result = qn_fault_hit(QN_FAULT_READ) ? -EPERM : io_uring_queue_init((unsigned)reader->depth, &reader->ring, 0);
    if (result < 0) {
        qn_free(reader);
        return fail_setup(err, -result);
    }
    *out = reader;
    return QN_OK;
}

static void push(queue *q, qn_async_read *read)
{
    read->next = NULL;
    if (q->last)
        q->last->next = read;
    else
        q->first = read;
    q->last = read;
}

static void push_front(queue *q, qn_async_read *read)
{
    read->next = q->first;
    q->first = read;
    if (!q->last)
        q->last = read;
}

static qn_async_read *pop(queue *q)
{
    qn_async_read *read = q->first;
    if (read) {
        q->first = read->next;
        if (!q->first)
            q->last = NULL;
    }
    return read;
}

/* False: it is not there. */
static bool take_out(queue *q, const qn_async_read *read)
{
    qn_async_read *before = NULL;
    for (qn_async_read *at = q->first; at; before = at, at = at->next) {
        if (at != read)
            continue;
        if (before)
            before->next = at->next;
        else
            q->first = at->next;
        if (q->last == at)
            q->last = before;
        return true;
    }
    return false;
}

/* A read that stopped inside of a block has met the file's end, or goes on at the block's start once more. In tests, a
 * failing write loses the request: a disk that never answers. */
static void ask(qn_async_reader *reader, qn_async_read *read)
{
    if (qn_fault_hit(QN_FAULT_WRITE))
        return;
    struct io_uring_sqe *place = io_uring_get_sqe(&reader->ring);
    read->got -= read->got % QN_DIRECT_ALIGNMENT;
    io_uring_prep_read(place, qn_direct_reader_descriptor(read->file), (uint8_t *)read->buffer + read->got,
                       (unsigned)qn_min_size(qn_direct_widened(read->offset, read->bytes) - read->got,
                                             read->hoped ? QN_ASYNC_HOPED_PIECE : 1u << 30),
                       read->offset - qn_direct_bytes_before(read->offset) + read->got);
    io_uring_sqe_set_data(place, read);
}

static void submit_queued(qn_async_reader *reader)
{
    while (reader->under_way < reader->depth) {
        qn_async_read *read = pop(&reader->urgent);
        bool hoped = !read && reader->hoped_under_way < reader->most_hoped;
        if (hoped)
            read = pop(&reader->hoped);
        if (!read)
            break;
        read->hoped = hoped;
        reader->hoped_under_way += hoped;
        if (reader->under_way++ == 0)
            reader->moved_us = qn_now_us();
        read->state = QN_ASYNC_UNDER_WAY;
        ask(reader, read);
    }
    int submitted = io_uring_submit(&reader->ring); /* what it did not take is submitted with the next */
    reader->submit_error = submitted < 0 ? -submitted : 0;
}

static void note_move(qn_async_reader *reader)
{
    reader->moved_us = qn_now_us();
    reader->moves++;
}

static void finish(qn_async_reader *reader, qn_async_read *read, int error)
{
    read->error = error;
    read->state = QN_ASYNC_DONE;
    reader->under_way--;
    reader->hoped_under_way -= read->hoped;
    note_move(reader);
}

/* The rest of a read of which some has arrived. One that is not urgent gives its place back, and takes it again if
 * nothing urgent queues, unless it was forgotten meanwhile. */
static void go_on(qn_async_reader *reader, qn_async_read *read)
{
    if (!read->hoped) {
        ask(reader, read);
        return;
    }
    reader->under_way--;
    reader->hoped_under_way--;
    bool forgotten = read->forgotten != reader->forgotten;
    read->state = forgotten ? QN_ASYNC_IDLE : QN_ASYNC_QUEUED;
    if (!forgotten)
        push_front(&reader->hoped, read);
}

static void take_note(qn_async_reader *reader, qn_async_read *read, int result)
{
    size_t before = read->got;
    if (qn_fault_hit(QN_FAULT_READ))
        result = -EIO;
    if (result == -EINTR || result == -EAGAIN) { /* which is no getting on: a device may say so for ever */
        ask(reader, read);
        return;
    }
    if (result < 0) {
        finish(reader, read, -result);
        return;
    }
    read->got += (size_t)result;
    reader->bytes += (size_t)result;
    if (read->got >= qn_direct_bytes_before(read->offset) + read->bytes)
        finish(reader, read, 0);
    else if (result == 0 || read->got / QN_DIRECT_ALIGNMENT == before / QN_DIRECT_ALIGNMENT)
        finish(reader, read, QN_ASYNC_CUT_OFF);
    else {
        note_move(reader);
        go_on(reader, read);
    }
}

/* Takes the answers that were there at its start: those that come meanwhile to what is asked for again wait. */
static void collect(qn_async_reader *reader)
{
    struct io_uring_cqe *answer;
    unsigned ready = io_uring_cq_ready(&reader->ring);
    while (ready-- > 0 && io_uring_peek_cqe(&reader->ring, &answer) == 0) {
        qn_async_read *read = io_uring_cqe_get_data(answer);
        int result = answer->res;
        io_uring_cqe_seen(&reader->ring, answer);
        take_note(reader, read, result);
    }
}

void qn_async_reader_start(qn_async_reader *reader, qn_async_read *read, bool urgent)
{
    read->forgotten = reader->forgotten;
    if (read->state == QN_ASYNC_UNDER_WAY) {
        if (urgent && read->hoped) {
            read->hoped = false;
            reader->hoped_under_way--;
        }
        return;
    }
    if (read->state == QN_ASYNC_QUEUED) {
        if (urgent && take_out(&reader->hoped, read))
            push(&reader->urgent, read);
        return;
    }
    if (read->state == QN_ASYNC_DONE)
        read->got = 0;
    read->error = 0;
    read->state = QN_ASYNC_QUEUED;
    push(urgent ? &reader->urgent : &reader->hoped, read);
}

void qn_async_reader_forget_hoped(qn_async_reader *reader)
{
    reader->forgotten++;
    for (qn_async_read *read = pop(&reader->hoped); read; read = pop(&reader->hoped))
        read->state = QN_ASYNC_IDLE;
}

void qn_async_reader_poll(qn_async_reader *reader)
{
    collect(reader);
    submit_queued(reader);
}

static qn_status fail_stalled(const qn_async_reader *reader, const char *what, qn_error *err)
{
    if (reader->submit_error != 0)
        return qn_fail_errno(err, what, "submit a read of", reader->submit_error);
    return qn_fail(
        err, QN_RESOURCE,
        "%s: no read has got on for %.1f s: see whether the disk is well (dmesg tells), or take a faster one", what,
        (double)(qn_now_us() - reader->moved_us) / 1e6);
}

/* Until some read gets on, or none is under way. `what`: to be named when that takes too long. */
static qn_status wait_for_move(qn_async_reader *reader, const char *what, qn_error *err)
{
    uint64_t seen = reader->moves;
    qn_async_reader_poll(reader);
    uint64_t grace = qn_now_us() + (reader->patience_us < GRACE_US ? reader->patience_us : GRACE_US);
    uint64_t patience = reader->moved_us + reader->patience_us, end = patience > grace ? patience : grace;
    while (reader->moves == seen && reader->under_way > 0) {
        uint64_t now = qn_now_us();
        if (now >= end)
            return fail_stalled(reader, what, err);
        struct io_uring_cqe *answer;
        struct __kernel_timespec left = {.tv_sec = (long long)((end - now) / 1000000),
                                         .tv_nsec = (long long)((end - now) % 1000000) * 1000};
        int result = io_uring_wait_cqe_timeout(&reader->ring, &answer, &left);
        if (result < 0 && result != -ETIME && result != -EINTR && result != -EAGAIN)
            return qn_fail_errno(err, what, "wait for a read of", -result);
        qn_async_reader_poll(reader);
    }
    return QN_OK;
}

bool qn_async_reader_free(qn_async_reader *reader)
{
    if (!reader)
        return true;
    qn_error err;
    reader->urgent = reader->hoped = (queue){0};
    reader->most_hoped = 0; /* nor are further pieces of what is under way */
    while (reader->under_way > 0 && wait_for_move(reader, "disk", &err) == QN_OK) {
    }
    bool ended = reader->under_way == 0;
    io_uring_queue_exit(&reader->ring);
    qn_free(reader);
    return ended;
}

qn_status qn_async_reader_wait_any(qn_async_reader *reader, const qn_async_read *named, qn_error *err)
{
    if (!named)
        named = reader->urgent.first ? reader->urgent.first : reader->hoped.first;
    return wait_for_move(reader, named ? qn_direct_reader_path(named->file) : "disk", err);
}

uint64_t qn_async_reader_bytes(const qn_async_reader *reader)
{
    return reader->bytes;
}

qn_status qn_async_reader_wait(qn_async_reader *reader, const qn_async_read *read, qn_error *err)
{
    const char *path = qn_direct_reader_path(read->file);
    while (read->state == QN_ASYNC_QUEUED || read->state == QN_ASYNC_UNDER_WAY) {
        qn_status status = wait_for_move(reader, path, err);
        if (status != QN_OK)
            return status;
    }
    if (read->error == QN_ASYNC_CUT_OFF)
        return qn_direct_fail_cut_off(read->file, read->offset - qn_direct_bytes_before(read->offset) + read->got, err);
    if (read->error != 0)
        return qn_fail_errno(err, path, "read", read->error);
    return QN_OK;
}

const uint8_t *qn_async_read_data(const qn_async_read *read)
{
    return (const uint8_t *)read->buffer + qn_direct_bytes_before(read->offset);
}
