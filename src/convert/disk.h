/* Is there room for what a run will write? Internal to this room. */
#ifndef QN_CONVERT_DISK_H
#define QN_CONVERT_DISK_H

#include "base/error.h"
#include "convert/job.h"

/* Compares the bytes that the selected open files still need with the free ones of the destination's file system:
 * QN_RESOURCE tells both. Parts of an earlier run have their space already. With delete_source_shards, on one file
 * system, the space of a source's file counts as free two files of the output after the last that needs it, since two
 * are in work at a time. What other runs will write is not known and not counted. */
qn_status qn_disk_check(const qn_job *job, qn_error *err);

#endif
