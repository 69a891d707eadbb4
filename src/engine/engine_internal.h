/* What the files of the engine share: the engine itself. */
#ifndef QN_ENGINE_ENGINE_INTERNAL_H
#define QN_ENGINE_ENGINE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "engine/engine.h"
#include "engine/generation_config.h"
#include "engine/speculate.h"
#include "engine/turnstile.h"

struct qn_engine {
    qn_pool *pool;
    qn_checkpoint *checkpoint;
    qn_tokenizer *tokenizer;        /* NULL: without text */
    qn_chat *chat;                  /* NULL: without text */
    int32_t think_begin, think_end; /* token ids; -1: none */
    bool trust_content_tokens;
    qn_model *model;
    const qn_config *config;
    qn_generation_config generation;
    size_t max_model_len, max_rows, max_drafts;
    uint64_t load_us;

    /* What a request works in; whoever is inside the turnstile owns it. */
    qn_turnstile turnstile;
    qn_kv_pool *blocks;
    qn_kv_sequence sequence;
    qn_sampler *sampler;
    qn_drafter *drafter;       /* NULL: no speculation */
    int32_t *tokens;           /* [max_model_len]: prompt and answer */
    float *hidden;             /* [max_rows, hidden_size]: of the last call of the model */
    float *logits;             /* [max_drafts + 1, vocab_size] */
    const float **hidden_rows; /* [max_drafts + 1] */
    float **logit_rows;        /* [max_drafts + 1], into logits */

    /* First drafts of a step since start, for the warning about an MTP layer that guesses nothing. */
    size_t first_drafts, first_drafts_accepted;
    bool warned_of_acceptance;
};

#endif
