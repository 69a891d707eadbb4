/* What a block of the KV cache depends on besides its tokens and salt, in one number: blocks of another fingerprint are
 * never taken for this engine's own, in memory or on disk. Internal to this room. */
#ifndef QN_ENGINE_FINGERPRINT_H
#define QN_ENGINE_FINGERPRINT_H

#include "engine/engine.h"
#include "kernels/kernels.h"

/* Of this program's bytes, the kernels' name, the options that reach the numbers, config.json, and of the weights each
 * tensor's name, type, shape and place and each file's size and time of change (not their contents: hundreds of
 * gigabytes). QN_RESOURCE when a file can't be looked at. */
qn_status qn_fingerprint(const qn_checkpoint *checkpoint, const qn_kernels *kernels, const qn_engine_options *options,
                         size_t block_tokens, qn_hash *out, qn_error *err);

#endif
