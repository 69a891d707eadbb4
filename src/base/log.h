/* Words for people, on stderr: "quern: message". Each call writes one whole line at once.
 *
 * qn_log_error prints a qn_error's sentence. Safe from any thread. A library user may send the lines
 * elsewhere with qn_log_set_sink. Control bytes and invalid UTF-8 are shown as \xNN, so that no input can forge a
 * line or drive the terminal; a message beyond QN_LOG_LINE_BYTES is cut and ends in "...". */
#ifndef QN_BASE_LOG_H
#define QN_BASE_LOG_H

#include "base/error.h"

enum { QN_LOG_LINE_BYTES = 4096 };

typedef void (*qn_log_sink)(void *context, const char *line); /* "quern: message", without a newline */

void qn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void qn_log_error(const qn_error *err);
void qn_log_set_sink(qn_log_sink sink, void *context); /* NULL: back to stderr; before threads start */

#endif
