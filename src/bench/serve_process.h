/* A `quern serve` of a bench's own: this very program, on a free port of 127.0.0.1.
 *
 * It is in a process group of its own, so that an interrupt from the terminal reaches the bench alone, which then stops
 * it; and it gets SIGTERM when the thread that started it ends in any way. */
#ifndef QN_BENCH_SERVE_PROCESS_H
#define QN_BENCH_SERVE_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "bench/serve_client.h"

enum { QN_SERVE_MAX_FLAGS = 128 };

typedef struct qn_serve_process {
    pid_t pid;  /* 0: none */
    int log_fd; /* what it says on stdout and stderr, an unnamed file; -1: none */
    size_t told_bytes;
    char base_url[QN_SERVE_URL_BYTES];
} qn_serve_process;

/* Starts `serve` with these arguments (its model's folder and flags, no --port), waits until it listens, and says its
 * lines on (qn_log). QN_FAILED when it ends instead; QN_CANCELLED when stopped, QN_RESOURCE. Nothing runs then. The
 * program is `path`; NULL: /proc/self/exe. */
qn_status qn_serve_process_start(const char *path, const char *const *arguments, size_t count, const atomic_bool *stop,
                                 qn_serve_process *out, qn_error *err);

/* SIGTERM, and SIGKILL if it does not end within 30 s, which is said. Says the rest of its lines. Does nothing when
 * there is none. QN_FAILED when it did not end well. */
qn_status qn_serve_process_stop(qn_serve_process *process, qn_error *err);

#endif
