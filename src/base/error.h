/* Errors: a status that maps to an exit code, and a sentence that tells thing, reason and way out.
 *
 * A function that can fail returns qn_status and fills the caller's qn_error on failure (never on success).
 * The sentence has the form "thing: reason: what to do"; the caller prints it as "quern: <sentence>".
 * `err` may not be NULL. A qn_error is a plain value: nothing to release. */
#ifndef QN_BASE_ERROR_H
#define QN_BASE_ERROR_H

#include <stdarg.h>

/* The values are the process's exit codes (docs/cli.md). */
typedef enum qn_status {
    QN_OK = 0,
    QN_FAILED = 1,    /* the work itself fell short: a gate, a comparison */
    QN_USAGE = 2,     /* the caller asked for something that cannot be: flags, request fields */
    QN_BAD_INPUT = 3, /* a file or a document is not what it should be */
    QN_RESOURCE = 4,  /* memory, disk, a system call that failed */
    QN_INTERNAL = 5,  /* an invariant of quern's own broke */
    QN_CANCELLED = 6  /* stopped at the caller's wish; never an exit code */
} qn_status;

enum { QN_ERROR_MESSAGE_BYTES = 1024, QN_ERROR_FIELD_BYTES = 64 };

typedef struct qn_error {
    qn_status status;
    char field[QN_ERROR_FIELD_BYTES];     /* request field or flag at fault ("" when there is none) */
    char message[QN_ERROR_MESSAGE_BYTES]; /* UTF-8, one line: control bytes of the input are shown escaped */
} qn_error;

/* Fills err with the formatted sentence, clears err->field, and returns `status`, so that callers write
 * `return qn_fail(err, QN_BAD_INPUT, "...", ...)`. Bytes below 0x20, 0x7f and invalid UTF-8 become \xNN. */
qn_status qn_fail(qn_error *err, qn_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* As qn_fail, and names the request field or flag at fault. */
qn_status qn_fail_field(qn_error *err, qn_status status, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts "context: " before the sentence already in err. Returns err->status. */
qn_status qn_error_prefix(qn_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Out of memory: `what` and the bytes asked for. */
qn_status qn_fail_memory(qn_error *err, const char *what, unsigned long long bytes);

#endif
