/* What `quern inspect` has found out, and the two ways to print it. Internal to the command. */
#ifndef QN_CLI_INSPECT_H
#define QN_CLI_INSPECT_H

#include <stdbool.h>

#include "base/error.h"
#include "checkpoint/listing.h"
#include "checkpoint/summary.h"

typedef struct qn_inspection {
    const qn_listing *listing;
    const qn_summary *summary;
    const char *problem;  /* why it can't be run, as the error says it; NULL: it can */
    bool checksums;       /* the listing has them ... */
    const char *manifest; /* ... and this is what the manifest says to them, NULL: there is none */
} qn_inspection;

/* A picture for people, at most 80 columns wide; `blocks`: with the block characters of Unicode, else in ASCII. */
void qn_inspect_print_text(const qn_inspection *inspection, bool blocks);

/* One JSON object (docs/checkpoints.md). Fails for want of memory only. */
qn_status qn_inspect_print_json(const qn_inspection *inspection, qn_error *err);

#endif
