/* What the disk of a folder gives past the page cache (O_DIRECT), for cold starts, conversions and weights that do not
 * fit memory. */
#ifndef QN_BENCH_DISK_H
#define QN_BENCH_DISK_H

#include "base/error.h"
#include "bench/statistic.h"

typedef struct qn_disk_rates {
    qn_statistic sequential, random, write; /* GB/s */
} qn_disk_rates;

/* Writes a file that has no name (so that nothing stays, whatever happens) of up to 1 GiB and a quarter of what is
 * free, then reads it in order, 16 MiB at once, and at random places, 6.7 MB at once, 4 requests in flight. Takes about
 * `seconds`, and at least one piece of 64 MiB each way. QN_RESOURCE where the folder can't be written, is full, or
 * knows no O_DIRECT. */
qn_status qn_disk_measure(const char *folder, double seconds, qn_disk_rates *out, qn_error *err);

#endif
