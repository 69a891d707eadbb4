/* Stop strings in streamed text: ends the output before the first stop string, and never lets a part of one out.
 *
 * Text is fed as it comes, in pieces of any size; what cannot be part of a stop string any more is given out at once,
 * a suffix that could be the beginning of one is held back. The first stop string to be complete wins; of several that
 * end at the same byte the one that began first, and of equal ones the first listed. So the result does not depend on
 * how the text was cut. A stop string may span any number of pieces.
 *
 * When the pieces and the stop strings are valid UTF-8, so is everything given out. Linear time: a byte costs one step
 * a stop string. One thread at a time. */
#ifndef QN_TEXT_STOP_H
#define QN_TEXT_STOP_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

typedef struct qn_stop qn_stop;

enum { QN_STOP_MAX_STRINGS = 64, QN_STOP_MAX_BYTES = 4096 /* of one string */ };

/* `count` strings, copied; none is fine: then all text passes. QN_USAGE: an empty string, one that is too long, or too
 * many. */
qn_status qn_stop_new(const char *const *strings, size_t count, qn_stop **out, qn_error *err);
void qn_stop_free(qn_stop *stop); /* NULL is fine */

/* Takes text[0..bytes) and appends to `out` what is now sure to lie before any stop string. Once one has matched, all
 * further text is dropped. On failure (QN_RESOURCE: `out` cannot grow) the stream is broken. */
qn_status qn_stop_feed(qn_stop *stop, const char *text, size_t bytes, qn_buffer *out, qn_error *err);

/* The index of the stop string that matched, -1 while none has. */
int qn_stop_matched(const qn_stop *stop);

/* The end of the text: appends what was held back, unless a stop string has matched. */
qn_status qn_stop_flush(qn_stop *stop, qn_buffer *out, qn_error *err);

/* Ready for another text: nothing held, nothing matched. */
void qn_stop_reset(qn_stop *stop);

#endif
