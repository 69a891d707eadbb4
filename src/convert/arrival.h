/* Files of a source that is still being downloaded: which are there whole, and waiting for the others.
 *
 * A file of weights is there when its header is whole, its size is exactly that of header and data, and no NAME.aria2,
 * NAME.incomplete or NAME.part lies beside it, by which download programs mark a file that they have not finished
 * though it may have its size already. Internal to this room. */
#ifndef QN_CONVERT_ARRIVAL_H
#define QN_CONVERT_ARRIVAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/job.h"

enum { QN_MARKER_BYTES = 16 };

uint64_t qn_watch_interval_us(const qn_convert_options *options);

/* The suffix of the marker that lies beside the file, NULL when none does. */
const char *qn_arrival_marker(const char *path);
bool qn_arrival_is_whole(const char *path);

/* Waits until config.json and the index (or a single model.safetensors) of the folder are there, whole. A line tells at
 * first and then once a minute what is waited for. QN_CANCELLED when *stop is set; QN_BAD_INPUT when there is no
 * folder.
 */
qn_status qn_arrival_wait_for_index(const char *dir, uint64_t interval_us, const atomic_bool *stop, qn_error *err);

/* The files of a source while a run waits for them. One thread at a time. */
typedef struct qn_arrivals qn_arrivals;
qn_status qn_arrivals_new(const qn_job *job, qn_arrivals **out, qn_error *err);
void qn_arrivals_free(qn_arrivals *arrivals); /* NULL is fine */
/* Is everything there that this file of the plan is made from? A file that was seen whole is not looked at again. */
bool qn_arrivals_has_all(qn_arrivals *arrivals, size_t shard);
/* Waits one interval; tells what is waited for at first and then once a minute. */
qn_status qn_arrivals_wait(qn_arrivals *arrivals, qn_error *err);

#endif
