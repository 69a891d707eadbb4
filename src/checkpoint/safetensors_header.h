/* The JSON header of a safetensors file -> tensors. Internal to this room.
 *
 * A parser of its own for the one shape that a header has: real headers hold 100,000 tensors and more, hostile ones are
 * as large as the file lets them be, and this one never takes more than a few times the header's bytes. */
#ifndef QN_CHECKPOINT_SAFETENSORS_HEADER_H
#define QN_CHECKPOINT_SAFETENSORS_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"

typedef struct qn_header_text {
    const char *text; /* the header, `bytes` long */
    size_t bytes;
    const uint8_t *data;            /* the data section behind it; NULL when it is not in memory */
    size_t data_bytes, data_offset; /* of that section, from the start of the file */
    const char *what;               /* the file in errors */
    bool takes_fp8;                 /* F8_E4M3 is a dtype, which it is for nobody else */
} qn_header_text;

/* One tensor's entry as it stands: its form is checked, and that its name prints, but not what it says. The dtype may
 * be one that quern does not know, and the data may end behind the end of the file. */
typedef struct qn_header_entry {
    const char *name; /* this and the next until the visit ends */
    size_t name_bytes;
    const char *dtype;
    size_t dtype_bytes; /* its whole length; the text is cut to QN_HEADER_DTYPE_BYTES with its NUL */
    uint64_t shape[QN_TENSOR_MAX_DIMS], offsets[2];
    size_t dims, offset_count; /* QN_TENSOR_MAX_DIMS + 1, 3: more than there is room for */
} qn_header_entry;

enum { QN_HEADER_DTYPE_BYTES = 32 };

/* Calls visit for each entry in the order of the text, until one fails. header->data is not looked at. */
typedef qn_status (*qn_header_visit)(void *context, const qn_header_entry *entry, qn_error *err);
qn_status qn_safetensors_header_walk(const qn_header_text *header, qn_header_visit visit, void *context, qn_error *err);

/* Reads a file's header and calls `use` with it; the text lives until that returns, `data` is NULL. Fails for a file
 * that is too short for the header it claims. Nothing is mapped. */
typedef qn_status (*qn_header_use)(void *context, const qn_header_text *header, qn_error *err);
qn_status qn_safetensors_header_of_file(const char *path, qn_header_use use, void *context, qn_error *err);

/* Fills *out with *count tensors in the order of the text, to be released with qn_free; their names lie in `names`.
 * Each tensor is checked by itself: name, dtype, shape against bytes, range inside the data. Fills nothing on failure.
 */
qn_status qn_safetensors_header_parse(const qn_header_text *header, qn_arena *names, qn_tensor **out, size_t *count,
                                      qn_error *err);

#endif
