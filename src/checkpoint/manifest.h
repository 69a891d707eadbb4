/* quern-manifest.json of a converted folder: what every file must be, down to each tensor.
 *
 *   {"format": "quern-manifest", "version": 1,
 *    "settings": {"rule": "...", ...},
 *    "files": [
 *     {"name": "config.json", "bytes": N, "hash": H},
 *     {"name": "model-00001-of-00002.safetensors", "bytes": N, "header": H, "tensors": {"NAME": H, ...}}]}
 *
 * H is the XXH3-128 of the bytes as they lie in the file (base/hash.h): of a whole file; of a header (the eight bytes
 * of length, the text and its padding: all before the data); of one tensor's data. Settings are strings that tell how
 * the folder was made. Nothing in it depends on when, where or by how many threads it was written, so that the
 * manifests of two conversions with the same settings are the same bytes. The manifest does not list itself.
 *
 * One entry of `files` alone is also a document: what a worker leaves beside a finished file until all are merged.
 *
 * Readers are strict: unknown and missing fields, names with a path, a name twice, other versions are errors
 * (QN_BAD_INPUT) that name the document and the place. A manifest belongs to one thread at a time; read-only use is
 * safe from any. Strings that are handed out live until qn_manifest_free. */
#ifndef QN_CHECKPOINT_MANIFEST_H
#define QN_CHECKPOINT_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"

#define QN_MANIFEST_NAME "quern-manifest.json"

enum {
    QN_MANIFEST_LIMIT_BYTES = 48 << 20, /* three times that of the largest release, 120,000 tensors */
    QN_MANIFEST_MAX_FILES = 8192,
    QN_MANIFEST_MAX_TENSORS = 1 << 20, /* of one file */
    QN_MANIFEST_MAX_SETTINGS = 64,
    QN_MANIFEST_SETTING_BYTES = 1024, /* of a setting's name or value */
    QN_MANIFEST_FILE_NAME_BYTES = 255
};

typedef struct qn_manifest_tensor {
    const char *name;
    qn_hash hash;
} qn_manifest_tensor;

typedef struct qn_manifest_file {
    const char *name; /* plain, without a folder; a file of weights ends in ".safetensors", no other does */
    uint64_t bytes;
    qn_hash hash;                      /* of weights the header's, else the whole file's */
    const qn_manifest_tensor *tensors; /* of weights: those in the file, in order of their data; else NULL */
    size_t tensor_count;
} qn_manifest_file;

/* What is wrong with the name of a file, with or without tensors, for a manifest; NULL when nothing is. And whether a
 * tensor's name is one. */
const char *qn_manifest_check_file(const char *name, bool weights);
bool qn_manifest_check_tensor(const char *name);

typedef struct qn_manifest qn_manifest;

qn_status qn_manifest_new(qn_manifest **out, qn_error *err); /* without files and settings */
void qn_manifest_free(qn_manifest *manifest);                /* NULL is fine */

/* Copies the file's entry in. A name that is there already or has no place in a manifest is QN_USAGE. */
qn_status qn_manifest_add(qn_manifest *manifest, const qn_manifest_file *file, qn_error *err);
/* A setting, new or in place of the one with that name. Text of at most QN_MANIFEST_SETTING_BYTES, valid UTF-8. */
qn_status qn_manifest_set(qn_manifest *manifest, const char *name, const char *value, qn_error *err);

size_t qn_manifest_count(const qn_manifest *manifest);
const qn_manifest_file *qn_manifest_at(const qn_manifest *manifest, size_t i);           /* ascending names */
const qn_manifest_file *qn_manifest_find(const qn_manifest *manifest, const char *name); /* NULL: not listed */
size_t qn_manifest_setting_count(const qn_manifest *manifest);
const char *qn_manifest_setting_at(const qn_manifest *manifest, size_t i, const char **value); /* its name */
const char *qn_manifest_setting(const qn_manifest *manifest, const char *name); /* its value; NULL: not there */

/* Whole documents. `what` names the text in errors. Write replaces the file at once or not at all. */
qn_status qn_manifest_parse(const char *text, size_t bytes, const char *what, qn_manifest **out, qn_error *err);
qn_status qn_manifest_read(const char *path, qn_manifest **out, qn_error *err);
qn_status qn_manifest_write(const qn_manifest *manifest, const char *path, qn_error *err);
void qn_manifest_format(const qn_manifest *manifest, qn_buffer *out); /* the text that write writes */

/* One entry as a document of its own; read adds it to the manifest. */
qn_status qn_manifest_entry_parse(const char *text, size_t bytes, const char *what, qn_manifest *into, qn_error *err);
qn_status qn_manifest_entry_read(const char *path, qn_manifest *into, qn_error *err);
qn_status qn_manifest_entry_write(const qn_manifest_file *file, const char *path, qn_error *err);

#endif
