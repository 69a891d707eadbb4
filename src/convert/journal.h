/* Which tensors of a file are written, and their hashes: a text file that is only ever appended to.
 *
 * A line is "KEY HASH CHECK": "header" in the first and a tensor's number in the others, the XXH3-128 of the header or
 * of the tensor's bytes, and a check of the line itself. One write each, so that what death leaves is whole lines and
 * at most one torn one, which its check gives away; such lines count for nothing. A journal of another header is begun
 * anew. Nothing is synced: what a line says is checked against the data before it is believed. */
#ifndef QN_CONVERT_JOURNAL_H
#define QN_CONVERT_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"

typedef struct qn_journal qn_journal;

/* What one line says of a tensor. The last line of a tensor holds. */
typedef void (*qn_journal_entry)(void *context, size_t tensor, qn_hash hash);

/* Opens or makes the journal of a file with this header and `count` tensors, and calls `entry` for each of its lines.
 * *fresh: it was not there, or of another header, and is empty now. */
qn_status qn_journal_open(const char *path, qn_hash header, size_t count, qn_journal_entry entry, void *context,
                          qn_journal **out, bool *fresh, qn_error *err);
void qn_journal_close(qn_journal *journal); /* NULL is fine */

/* Lines for tensors first, first + 1, ... with one write. One thread at a time. */
qn_status qn_journal_append(qn_journal *journal, size_t first, size_t count, const qn_hash *hashes, qn_error *err);

#endif
