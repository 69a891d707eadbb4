/* Checkpoints of any shape with random weights, written to a temporary directory: for tests whose shapes no shipped
 * checkpoint has. Weights are scaled so that attention is peaked, the router spread and nothing overflows. */
#ifndef QN_TESTS_RANDOM_CHECKPOINT_H
#define QN_TESTS_RANDOM_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

typedef struct random_shape {
    size_t vocab_size, hidden_size, intermediate_size, moe_intermediate_size;
    size_t num_attention_heads, q_lora_rank, kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
    size_t index_topk, index_n_heads, index_head_dim;
    size_t n_routed_experts, n_shared_experts, num_experts_per_tok, n_group, topk_group;
    size_t max_position_embeddings;
    const char *layers; /* one letter per layer: F or S, full or shared indexer, dense MLP; f or s the same, sparse */
    bool has_mtp, tie_word_embeddings;
    bool mtp_has_own_head; /* shared_head.head and embed_tokens of its own */
    qn_dtype dtype;        /* of the matrices: BF16, F16 or F32 */
    bool mxfp4_experts;    /* compressed-tensors; inputs of the experts are then multiples of 32 */
    const char *infinite;  /* NULL, or the name of a matrix of which every value is infinite */
} random_shape;

/* A few layers of all kinds, everything small. */
random_shape random_shape_small(void);

enum { RANDOM_DIR_BYTES = 256 };

/* Makes a directory, named in dir, and writes config.json and model.safetensors. Fails the running test on errors. */
void random_checkpoint_make(const random_shape *shape, uint64_t seed, char dir[RANDOM_DIR_BYTES]);
void random_checkpoint_remove(const char *dir);

#endif
