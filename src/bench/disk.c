/* A sample is a piece of 64 MiB: four threads take requests out of it until it is done. */
#include "bench/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/size.h"

enum {
    DEPTH = 4,
    BLOCK = 4096,
    REQUEST_BYTES = 16 << 20,
    EXPERT_BYTES = 6684672, /* 6144 x 2048 in MXFP4, scales included: a multiple of 4096 */
    PIECE_BYTES = 64 << 20,
    FILE_BYTES = 1 << 30,
    MAX_SAMPLES = 64
};

typedef struct job {
    int fd;
    uint8_t *buffer[DEPTH]; /* [REQUEST_BYTES] each */
    size_t file_bytes, request_bytes, first_request;
    bool write, at_random;
    atomic_int failure; /* an errno, or -1 for a read that ended early */
} job;

static size_t place(const job *j, size_t request)
{
    if (!j->at_random)
        return request * j->request_bytes % j->file_bytes;
    uint64_t x = (request + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (size_t)(x >> 16) % ((j->file_bytes - j->request_bytes) / BLOCK + 1) * BLOCK;
}

static void transfer(void *context, size_t item, size_t worker)
{
    job *j = context;
    size_t at = place(j, j->first_request + item), done = 0;
    while (done < j->request_bytes) {
        uint8_t *data = j->buffer[worker] + done;
        size_t left = j->request_bytes - done;
        ssize_t moved = qn_fault_hit(j->write ? QN_FAULT_WRITE : QN_FAULT_READ) ? (errno = EIO, -1)
                        : j->write ? pwrite(j->fd, data, left, (off_t)(at + done))
                                   : pread(j->fd, data, left, (off_t)(at + done));
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0) {
            j->failure = moved < 0 ? errno : -1;
            return;
        }
        done += (size_t)moved;
    }
}

/* One sample: GB/s, or 0 after a failure. */
static double run_piece(job *j, qn_pool *pool)
{
    size_t requests = qn_max_size(PIECE_BYTES / j->request_bytes, 1);
    uint64_t started = qn_now_us();
    qn_pool_run(pool, requests, transfer, j);
    if (j->write && fdatasync(j->fd) != 0)
        j->failure = errno;
    uint64_t us = qn_now_us() - started;
    j->first_request += requests;
    return j->failure == 0 ? (double)(requests * j->request_bytes) / (double)(us > 0 ? us : 1) / 1e3 : 0;
}

/* Pieces until the time is up or `most` are done; true when all went well. */
static bool sample(job *j, qn_pool *pool, double seconds, size_t most, qn_statistic *out, size_t *pieces)
{
    double values[MAX_SAMPLES];
    uint64_t end = qn_now_us() + (uint64_t)(seconds * 1e6);
    size_t count = 0;
    do {
        values[count++] = run_piece(j, pool);
    } while (j->failure == 0 && count < most && qn_now_us() < end);
    *pieces = count;
    *out = qn_statistic_of(values, count);
    return j->failure == 0;
}

static qn_status failed(const char *folder, const char *what, int code, qn_error *err)
{
    if (code == -1)
        return qn_fail(err, QN_RESOURCE, "%s: %s: the file ended early: check the disk", folder, what);
    if (code == EINVAL || code == EOPNOTSUPP)
        return qn_fail(
            err, QN_RESOURCE,
            "%s: %s: this file system has no O_DIRECT or no unnamed files: name a folder on the disk that is "
            "meant",
            folder, what);
    return qn_fail(err, QN_RESOURCE, "%s: %s: %s: name a folder on a disk with space that can be written", folder, what,
                   strerror(code));
}

static qn_status measure(const char *folder, job *j, qn_pool *pool, size_t most, double seconds, qn_disk_rates *out,
                         qn_error *err)
{
    size_t pieces, ignored;
    *j = (job){.fd = j->fd,
               .buffer = {j->buffer[0], j->buffer[1], j->buffer[2], j->buffer[3]},
               .file_bytes = FILE_BYTES,
               .request_bytes = REQUEST_BYTES,
               .write = true};
    if (!sample(j, pool, seconds / 3, most, &out->write, &pieces))
        return failed(folder, "write", j->failure, err);
    j->write = false;
    j->file_bytes = pieces * PIECE_BYTES;
    j->first_request = 0;
    if (!sample(j, pool, seconds / 3, MAX_SAMPLES, &out->sequential, &ignored))
        return failed(folder, "read", j->failure, err);
    j->request_bytes = EXPERT_BYTES;
    j->at_random = true;
    if (!sample(j, pool, seconds / 3, MAX_SAMPLES, &out->random, &ignored))
        return failed(folder, "read", j->failure, err);
    return QN_OK;
}

/* Pieces of which the file may consist: 0 when not even one fits. */
static size_t room_for(int fd)
{
    struct statvfs info;
    if (fstatvfs(fd, &info) != 0)
        return 1;
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    uint64_t quarter = free_bytes / 4 < FILE_BYTES ? free_bytes / 4 : FILE_BYTES;
    return (size_t)(quarter / PIECE_BYTES);
}

static qn_status measure_with_buffers(const char *folder, job *j, double seconds, qn_disk_rates *out, qn_error *err)
{
    uint8_t *memory = qn_alloc_aligned(1, (size_t)DEPTH * REQUEST_BYTES + BLOCK);
    if (!memory)
        return qn_fail_memory(err, "disk buffers", (unsigned long long)DEPTH * REQUEST_BYTES);
    uint8_t *aligned = memory + (BLOCK - (uintptr_t)memory % BLOCK) % BLOCK;
    for (size_t i = 0; i < DEPTH; i++) {
        j->buffer[i] = aligned + i * REQUEST_BYTES;
        /* a disk that leaves out zeros or packs them is not to gain by it */
        for (size_t k = 0; k < REQUEST_BYTES; k += sizeof(uint64_t)) {
            uint64_t word = (k + i + 1) * 0x9e3779b97f4a7c15u;
            word = (word ^ (word >> 31)) * 0xbf58476d1ce4e5b9u;
            memcpy(j->buffer[i] + k, &word, sizeof word);
        }
    }
    qn_pool *pool = NULL;
    qn_status status = qn_pool_new(DEPTH, &pool, err);
    size_t most = room_for(j->fd);
    if (status == QN_OK && most == 0)
        status = qn_fail(err, QN_RESOURCE, "%s: less than 256 MiB are free: free some, or name another folder", folder);
    if (status == QN_OK)
        status = measure(folder, j, pool, most, seconds, out, err);
    qn_pool_free(pool);
    qn_free(memory);
    return status;
}

qn_status qn_disk_measure(const char *folder, double seconds, qn_disk_rates *out, qn_error *err)
{
    *out = (qn_disk_rates){0};
    job j = {.fd = open(folder, O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600)};
    if (j.fd < 0)
        return failed(folder, "open", errno, err);
    qn_status status = measure_with_buffers(folder, &j, seconds, out, err);
    close(j.fd);
    return status;
}
