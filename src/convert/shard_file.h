/* One file of the output while it is written: safe against death at any moment.
 *
 * On disk, below DST/.quern-convert/:
 *   NAME.part     the file with its final header, at its final size; tensors are written at their places in any order
 *   NAME.journal  a line for each tensor that is written whole: its number, its hash, a check of the line
 *   NAME.json     the file's manifest entry (checkpoint/manifest.h), written once all tensors are in
 * and DST/NAME in the end. Nothing is synced on the way, since nothing is believed: opening a part again hands out the
 * journalled tensors for checking, and one whose bytes do not have the journalled hash is written anew. When all are
 * in, the part is synced, its entry written and synced, then the part renamed into place. So DST/NAME is whole whenever
 * it is there, and after death between any two of these steps the same steps lead on.
 *
 * Several threads may write and commit tensors at once; all else is one thread's. */
#ifndef QN_CONVERT_SHARD_FILE_H
#define QN_CONVERT_SHARD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/safetensors_writer.h"

enum { QN_SHARD_DATA_ALIGNMENT = 4096 };

typedef struct qn_shard_file qn_shard_file;

/* Is DST/name there and whole, as its entry tells: size and header as entered? A file without an entry, or unlike it,
 * is QN_BAD_INPUT: it is not of this conversion, or damaged. *done false and QN_OK: not there. */
qn_status qn_shard_file_done(const char *dst, const char *name, bool *done, qn_error *err);

/* The folder of the state below a destination, and a file's place in it: "DST/.quern-convert/NAME.part". NULL when out
 * of memory; released with qn_free. */
#define QN_CONVERT_FOLDER ".quern-convert"
char *qn_convert_state_path(const char *dst, const char *name, const char *suffix);

/* Opens or makes the part, its space allocated (QN_RESOURCE when the disk lacks it). A part with another header than
 * the one that follows from `tensors` is made anew. The caller holds the file's lock. */
qn_status qn_shard_file_open(const char *dst, const char *name, const qn_tensor_declaration *tensors, size_t count,
                             qn_shard_file **out, qn_error *err);
void qn_shard_file_close(qn_shard_file *file); /* leaves what is on disk as it is; NULL is fine */

uint64_t qn_shard_file_tensor_bytes(const qn_shard_file *file, size_t tensor);

/* Was it journalled before, or committed since? */
bool qn_shard_file_has(qn_shard_file *file, size_t tensor);
/* Reads back a journalled tensor, with `buffer` to work in; *same: its bytes have its hash. One that has not is
 * forgotten: it must be written anew. */
qn_status qn_shard_file_check(qn_shard_file *file, size_t tensor, void *buffer, size_t buffer_bytes, bool *same,
                              qn_error *err);

/* Bytes [at, at + bytes) of a tensor. */
qn_status qn_shard_file_write(qn_shard_file *file, size_t tensor, uint64_t at, const void *data, size_t bytes,
                              qn_error *err);
/* All bytes of tensors [first, first + count) are written, and these are their hashes: journals them. */
qn_status qn_shard_file_commit(qn_shard_file *file, size_t first, size_t count, const qn_hash *hashes, qn_error *err);

/* All tensors are in: syncs, enters, renames, removes the journal. */
qn_status qn_shard_file_finish(qn_shard_file *file, qn_error *err);

#endif
