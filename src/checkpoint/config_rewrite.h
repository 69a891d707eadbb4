/* config.json of a checkpoint with MXFP4 experts that quern writes: another's with quantization_config telling of the
 * MXFP4 experts.
 *
 * The text of every other field is taken over as it stands, so order, spelling of numbers (1e-05) and integers of any
 * size stay. The form is that of compressed-tensors, `mxfp4-pack-quantized`
 * (https://github.com/vllm-project/compressed-tensors): all Linear modules are targets but those that the ignore list
 * names, which leaves exactly the routed experts, the MTP layer's included, and leaves them under vLLM's fused names as
 * well. */
#ifndef QN_CHECKPOINT_CONFIG_REWRITE_H
#define QN_CHECKPOINT_CONFIG_REWRITE_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/* Appends the new text to *out. A quantization_config of the source (of FP8) is dropped; the new one stands last.
 * QN_BAD_INPUT when the text is no JSON object. `what` names it in errors. */
qn_status qn_config_rewrite(const char *text, size_t bytes, const char *what, qn_buffer *out, qn_error *err);

#endif
