/* generation_config.json: the token ids that end an answer, and the sampling that the checkpoint asks for.
 *
 * Read as vLLM does: temperature, top_p, top_k and min_p become the defaults of a request. `do_sample: false` means
 * greedy. null counts as absent. A field that would change the output and is not supported is told in a log line,
 * unless it has its neutral value; so is one never heard of. */
#ifndef QN_ENGINE_GENERATION_CONFIG_H
#define QN_ENGINE_GENERATION_CONFIG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "checkpoint/config.h"
#include "sampling/sampler.h"

enum { QN_GENERATION_MAX_EOS = 2 * QN_MAX_EOS };

typedef struct qn_generation_config {
    int32_t eos_token_id[QN_GENERATION_MAX_EOS]; /* config.json's and generation_config.json's, each once */
    size_t eos_count;
    qn_sampling sampling; /* the seed is 0 */
} qn_generation_config;

/* vLLM's defaults (temperature 1, top_p 1, top_k off, min_p 0) and the eos ids of config.json. */
void qn_generation_config_default(const qn_config *config, qn_generation_config *out);

/* Applies the fields of an object over what *config holds (the file's, or --override-generation-config's); eos ids are
 * added, each must lie below vocab_size. `what` names the document in errors and log lines. A field that is not
 * honoured gets a log line in a file that came with a model, and is refused (refuse_others) where somebody asked for
 * it. */
qn_status qn_generation_config_apply(qn_generation_config *config, const json_t *fields, size_t vocab_size,
                                     const char *what, bool refuse_others, qn_error *err);

/* The defaults, then model_dir's generation_config.json where there is one. */
qn_status qn_generation_config_read(const char *model_dir, const qn_config *config, qn_generation_config *out,
                                    qn_error *err);

#endif
