/* Checkpoints to break: a copy of one of the reference checkpoints in a folder of its own, and a reader that takes all
 * that a model would. All functions assert that they succeed. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <jansson.h>
#include <stddef.h>

#include "checkpoint/checkpoint.h"

typedef struct fixture {
    char dir[64];
} fixture;

void fixture_copy(fixture *f, const char *name); /* config, weights and index of tests/data/oracle/NAME */
void fixture_remove(fixture *f);
void fixture_path(const fixture *f, const char *file, char out[512]);

void fixture_write(const fixture *f, const char *file, const void *data, size_t bytes);
void fixture_truncate(const fixture *f, const char *file, size_t bytes);
size_t fixture_size(const fixture *f, const char *file);

/* Edits a JSON document, or the header of a safetensors file whose data stay. */
typedef void (*fixture_edit)(json_t *root, const void *context);
void fixture_edit_json(const fixture *f, const char *file, fixture_edit edit, const void *context);
void fixture_edit_header(const fixture *f, const char *file, fixture_edit edit, const void *context);

/* Overwrites bytes of a tensor's data. */
void fixture_patch_tensor(const fixture *f, const char *file, const char *tensor, size_t at, const void *data,
                          size_t bytes);

/* Takes every tensor that the model takes, as the forward pass names them, and finishes. */
qn_status fixture_take_all(qn_checkpoint *checkpoint, qn_error *err);

#endif
