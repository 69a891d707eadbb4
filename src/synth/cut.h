/* Cuts of a config: fewer layers, experts or tokens, in config.json and in what was read from it alike. */
#ifndef QN_SYNTH_CUT_H
#define QN_SYNTH_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config.h"

typedef struct qn_synth_cut {
    size_t layers;     /* the first so many; 0: all */
    bool moves_sparse; /* layers from sparse_from on have experts, those before a dense MLP, whatever the config says */
    size_t sparse_from;
    size_t experts; /* routed experts of a layer; 0: all */
    size_t vocab;   /* 0: all */
    bool without_mtp;
} qn_synth_cut;

/* Edits both. `document` is config.json as an object and `config` what qn_config_parse made of it; afterwards the one
 * still follows from the other. Lists by layer are cut, num_experts_per_tok goes down to what there is, token ids
 * beyond the vocabulary are dropped. QN_USAGE with the flag's name as field ("layers", "sparse-from", "experts",
 * "vocab") when a number is larger than the config's, or experts do not make groups. */
qn_status qn_synth_cut_apply(const qn_synth_cut *cut, json_t *document, qn_config *config, qn_error *err);

#endif
