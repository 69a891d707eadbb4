/* What the parts of an open checkpoint share: checkpoint.c opens it, checkpoint_take.c gives its tensors to the model.
 */
#ifndef QN_CHECKPOINT_CHECKPOINT_PARTS_H
#define QN_CHECKPOINT_CHECKPOINT_PARTS_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"

typedef struct qn_shard {
    char *path; /* as opened: for errors */
    const char *name;
    qn_safetensors *file;
} qn_shard;

typedef struct qn_entry {
    const qn_tensor *tensor;
    const qn_shard *shard;
    bool taken; /* by the model */
} qn_entry;

struct qn_checkpoint {
    char *dir;
    qn_config config;
    qn_shard *shards;
    size_t shard_count;
    qn_entry *entries; /* all tensors of all files, in order of shard and offset */
    qn_entry **by_name;
    size_t count;
};

/* NULL: there is no tensor of that name. */
qn_entry *qn_entry_find(const qn_checkpoint *checkpoint, const char *name);

/* QN_BAD_INPUT, with file and tensor before the reason. */
qn_status qn_entry_fail(qn_error *err, const qn_entry *e, const char *reason);

#endif
