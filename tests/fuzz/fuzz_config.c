/* room: checkpoint */
/* covers: src/checkpoint/config*.c */
/* max_len: 8192 */

/* config.json from anywhere: it is refused with a sentence, or every size is within what later products rely on. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "checkpoint/config.h"

static void hold(int condition)
{
    if (!condition)
        abort();
}

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    qn_json_init();
    qn_log_set_sink(drop_line, NULL);
    return 0;
}

static void check(const qn_config *c)
{
    hold(c->num_hidden_layers >= 1 && c->num_hidden_layers <= QN_MAX_LAYERS && c->num_nextn_predict_layers <= 1);
    hold(c->hidden_size >= 1 && c->vocab_size >= 1 && c->hidden_size * c->vocab_size < (size_t)1 << 40);
    hold(c->n_group >= 1 && c->n_routed_experts % c->n_group == 0 && c->topk_group <= c->n_group);
    hold(c->num_experts_per_tok >= 1 && c->num_experts_per_tok <= c->n_routed_experts);
    hold(c->qk_rope_head_dim % 2 == 0 && c->qk_rope_head_dim <= c->index_head_dim);
    hold(c->layer_has_indexer[0] && c->eos_count <= QN_MAX_EOS);
    for (size_t i = 0; i < c->eos_count; i++)
        hold(c->eos_token_id[i] >= 0 && (size_t)c->eos_token_id[i] < c->vocab_size);
    hold(c->rms_norm_eps > 0 && isfinite(c->rms_norm_eps) && isfinite(c->routed_scaling_factor));
    hold(c->rope.rope_theta >= 1 && isfinite(c->rope.rope_theta));
    if (c->rope.rope_type == QN_ROPE_YARN)
        hold(c->rope.factor >= 1 && isfinite(c->rope.factor) && c->rope.original_max_position_embeddings >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static qn_config config;
    qn_error err = {0};
    qn_status status = qn_config_parse((const char *)data, bytes, "config.json", &config, &err);
    if (status == QN_OK)
        check(&config);
    else
        hold(status == err.status && strncmp(err.message, "config.json: ", 13) == 0);
    return 0;
}
