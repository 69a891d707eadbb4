/* The checksums of what a listing lists, and what a manifest has to say to them. */
#include <string.h>

#include "base/memory.h"
#include "base/progress.h"
#include "checkpoint/checksum.h"
#include "checkpoint/listing.h"

static qn_status checksum_file(qn_checksummer *c, qn_listing *l, size_t number, qn_error *err)
{
    qn_listed_file *file = &l->files[number];
    qn_listed_tensor *tensors = l->tensors + file->first_tensor;
    qn_stretch *stretches = qn_alloc_zero(file->tensors + 1, sizeof *stretches);
    char *path = qn_listing_file_path(l, number);
    qn_status status = QN_OK;
    if (!stretches || !path) {
        status = qn_fail_memory(err, l->path, (file->tensors + 1) * sizeof *stretches);
    } else {
        stretches[0].bytes = file->header_bytes;
        for (size_t i = 0; i < file->tensors; i++)
            stretches[1 + i] = (qn_stretch){.offset = tensors[i].offset,
                                            .bytes = tensors[i].whole ? tensors[i].bytes : 0};
        status = qn_checksummer_run(c, path, stretches, file->tensors + 1, err);
        file->header_hash = stretches[0].hash;
        for (size_t i = 0; i < file->tensors && status == QN_OK; i++) {
            if (tensors[i].whole)
                tensors[i].hash = stretches[1 + i].hash;
        }
    }
    qn_free(path);
    qn_free(stretches);
    return status;
}

qn_status qn_listing_checksum(qn_listing *listing, FILE *json, const atomic_bool *stop, qn_error *err)
{
    qn_progress_setup setup = {.label = "checksums", .unit = "bytes", .json = json};
    for (size_t i = 0; i < listing->file_count; i++)
        setup.total += listing->files[i].header_bytes;
    for (size_t i = 0; i < listing->tensor_count; i++)
        setup.total += listing->tensors[i].whole ? listing->tensors[i].bytes : 0;
    qn_progress progress;
    qn_progress_begin(&progress, &setup);
    qn_checksummer *c = NULL;
    qn_status status = qn_checksummer_new(0, &progress, stop, &c, err);
    for (size_t i = 0; i < listing->file_count && status == QN_OK; i++) {
        if (listing->files[i].header_bytes > 0)
            status = checksum_file(c, listing, i, err);
    }
    qn_checksummer_free(c);
    qn_progress_finish(&progress);
    return status;
}

static const qn_listed_file *find_file(const qn_listing *l, const char *name)
{
    for (size_t i = 0; i < l->file_count; i++) {
        if (strcmp(l->files[i].name, name) == 0)
            return &l->files[i];
    }
    return NULL;
}

/* Mismatches so far, and the place of the first. */
typedef struct comparison {
    size_t mismatches;
    const char *file, *tensor;
} comparison;

static void note(comparison *c, const char *file, const char *tensor)
{
    if (c->mismatches++ > 0)
        return;
    c->file = file;
    c->tensor = tensor;
}

/* A header with the same hash lists the same tensors at the same places, in the order of their data as the manifest
 * does; so a tensor is found by its number. */
static void compare_file(const qn_listing *l, const qn_manifest_file *expected, comparison *c)
{
    const qn_listed_file *file = find_file(l, expected->name);
    if (!file || file->header_bytes == 0 || file->tensors != expected->tensor_count ||
        !qn_hash_equal(file->header_hash, expected->hash)) {
        note(c, expected->name, NULL);
        return;
    }
    for (size_t i = 0; i < file->tensors; i++) {
        const qn_listed_tensor *t = &l->tensors[file->first_tensor + i];
        if (strcmp(t->name, expected->tensors[i].name) != 0 || !t->whole ||
            !qn_hash_equal(t->hash, expected->tensors[i].hash))
            note(c, expected->name, expected->tensors[i].name);
    }
}

qn_status qn_listing_compare(const qn_listing *listing, const qn_manifest *manifest, qn_error *err)
{
    comparison c = {0};
    for (size_t i = 0; i < qn_manifest_count(manifest); i++) {
        const qn_manifest_file *expected = qn_manifest_at(manifest, i);
        if (expected->tensors)
            compare_file(listing, expected, &c);
    }
    if (c.mismatches == 0)
        return QN_OK;
    return qn_fail(err, QN_FAILED,
                   "%s: its weights have %zu mismatch%s with %s, the first in %s%s%s: restore these files, or convert "
                   "anew; quern convert --verify lists them all",
                   listing->path, c.mismatches, c.mismatches == 1 ? "" : "es", QN_MANIFEST_NAME, c.file,
                   c.tensor ? ": tensor " : "", c.tensor ? c.tensor : "");
}
