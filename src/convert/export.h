/* What stands around the weights of a finished conversion: carried files, model card, index, manifest, config.json.
 *
 * Written in this order, config.json last: without it a folder is no checkpoint, so that none is taken for one too
 * early. Each file is replaced at once or not at all; doing it all again gives the same bytes. */
#ifndef QN_CONVERT_EXPORT_H
#define QN_CONVERT_EXPORT_H

#include <stdint.h>

#include "base/error.h"
#include "checkpoint/manifest.h"
#include "convert/model_card.h"

typedef struct qn_export_plan {
    const char *source, *destination; /* folders */
    qn_manifest *manifest;            /* with all files of weights and the settings; the other files are added */
    qn_card_facts facts;              /* total_size of the index is expert_bytes + other_bytes */
} qn_export_plan;

qn_status qn_export(const qn_export_plan *plan, qn_error *err);

#endif
