/* How long a sequence may be and how many blocks there are: chosen by what memory holds beside the weights, before the
 * large buffers are allocated. Internal to this room. */
#ifndef QN_ENGINE_SIZING_H
#define QN_ENGINE_SIZING_H

#include "engine/engine_internal.h"

typedef struct qn_engine_sizes {
    qn_kv_layout layout;
    size_t max_model_len; /* tokens of a sequence */
    size_t blocks;        /* of the pool: max_model_len at least */
    bool resident;        /* the weights are loaded into memory of their own */
    bool packs;           /* and dense ones packed */
} qn_engine_sizes;

/* Of an engine whose model is open, and whose max_rows, max_num_seqs and max_drafts are set. */
qn_batch_sizes qn_engine_batch_sizes(const qn_engine *engine);

/* The length asked for, by --max-model-len, by the one request there will be, or by the model's training. */
size_t qn_wanted_model_len(const qn_engine *engine, const qn_engine_options *options);

/* Logs what the run will hold, and what was cut. QN_USAGE and QN_RESOURCE name the option. */
qn_status qn_engine_choose_sizes(const qn_engine *engine, const qn_engine_options *options, qn_engine_sizes *out,
                                 qn_error *err);

#endif
