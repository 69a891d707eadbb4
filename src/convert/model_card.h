/* README.md of the output: the model card, saying what was done to the release.
 *
 * Its front matter (YAML between two lines "---") takes license, license_name, license_link and base_model over from
 * the README of the release, as they stand there. The text depends on nothing but the arguments. Internal to this room.
 */
#ifndef QN_CONVERT_MODEL_CARD_H
#define QN_CONVERT_MODEL_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "checkpoint/manifest.h"

typedef struct qn_card_facts {
    bool round_to_nearest;                      /* the OCP rule, else least squared errors */
    bool importance;                            /* squared errors were weighted by measured inputs */
    bool lossy_source;                          /* made from FP8 */
    size_t expert_matrices;                     /* that became MXFP4, the MTP layer's included */
    size_t other_tensors;                       /* that did not */
    uint64_t expert_source_bytes, expert_bytes; /* of the matrices' data before, of codes and scales after */
    uint64_t other_source_bytes, other_bytes;   /* of the other tensors' data */
} qn_card_facts;

/* Appends the card. `readme` is the release's, NULL when it has none; `manifest` tells which files were carried along.
 */
void qn_model_card(const qn_card_facts *facts, const char *readme, size_t readme_bytes, const qn_manifest *manifest,
                   qn_buffer *out);

#endif
