/* What the two halves of the manifest share: its data and its reader. Internal to this room. */
#ifndef QN_CHECKPOINT_MANIFEST_PARTS_H
#define QN_CHECKPOINT_MANIFEST_PARTS_H

#include <stdbool.h>

/* What is wrong with a file of that name, with or without tensors; NULL when nothing is. */
const char *qn_manifest_check_file(const char *name, bool weights);
bool qn_manifest_check_tensor(const char *name);

#endif
