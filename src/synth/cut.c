/* Each cut changes the parsed config and the document side by side. Fields that a document does not have are not added,
 * but for those without which the cut would not show. */
#include "synth/cut.h"

#include <string.h>

#include "base/memory.h"
#include "base/size.h"

/* A failed json_object_set_new means that memory is short, nothing else: the keys are constants. */
static qn_status set(json_t *document, const char *name, json_t *value, qn_error *err)
{
    return json_object_set_new(document, name, value) == 0 ? QN_OK : qn_fail_memory(err, name, sizeof(json_t));
}

static qn_status set_size(json_t *document, const char *name, size_t value, qn_error *err)
{
    return set(document, name, json_integer((json_int_t)value), err);
}

static qn_status check_most(const char *field, size_t value, size_t most, qn_error *err)
{
    if (value <= most)
        return QN_OK;
    return qn_fail_field(err, QN_USAGE, field, "--%s %zu: the config has %zu: ask for no more than that", field, value,
                         most);
}

/* Lists with an entry for each layer, or a string with a letter for each. */
static qn_status cut_list(json_t *document, const char *name, size_t layers, qn_error *err)
{
    json_t *list = json_object_get(document, name);
    if (json_is_string(list))
        return set(document, name, json_stringn(json_string_value(list), layers), err);
    while (json_is_array(list) && json_array_size(list) > layers)
        json_array_remove(list, json_array_size(list) - 1);
    return QN_OK;
}

static qn_status cut_layers(size_t layers, json_t *document, qn_config *config, qn_error *err)
{
    static const char *const lists[] = {"mlp_layer_types", "indexer_types", "index_topk_pattern", "layer_types"};
    qn_status status = check_most("layers", layers, config->num_hidden_layers, err);
    if (status == QN_OK)
        status = set_size(document, "num_hidden_layers", layers, err);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && status == QN_OK; i++)
        status = cut_list(document, lists[i], layers, err);
    for (size_t i = layers; i < QN_MAX_LAYERS; i++)
        config->layer_is_sparse[i] = config->layer_has_indexer[i] = false;
    config->num_hidden_layers = layers;
    return status;
}

static qn_status move_sparse(size_t first, json_t *document, qn_config *config, qn_error *err)
{
    qn_status status = check_most("sparse-from", first, config->num_hidden_layers, err);
    json_t *types = json_array();
    for (size_t i = 0; i < config->num_hidden_layers && status == QN_OK; i++) {
        config->layer_is_sparse[i] = i >= first;
        if (json_array_append_new(types, json_string(i >= first ? "sparse" : "dense")) != 0)
            status = qn_fail_memory(err, "mlp_layer_types", sizeof(json_t));
    }
    if (status != QN_OK) {
        json_decref(types);
        return status;
    }
    status = set(document, "mlp_layer_types", types, err);
    return status == QN_OK ? set_size(document, "first_k_dense_replace", first, err) : status;
}

static qn_status cut_experts(size_t experts, json_t *document, qn_config *config, qn_error *err)
{
    static const char *const counts[] = {"n_routed_experts", "num_experts", "num_local_experts"};
    qn_status status = check_most("experts", experts, config->n_routed_experts, err);
    if (status == QN_OK && (experts % config->n_group != 0 || (config->n_group > 1 && experts < 2 * config->n_group)))
        status = qn_fail_field(err, QN_USAGE, "experts",
                               "--experts %zu: the config has %zu groups of two or more experts: ask for a multiple",
                               experts, config->n_group);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && status == QN_OK; i++) {
        if (json_object_get(document, counts[i]))
            status = set_size(document, counts[i], experts, err);
    }
    if (status != QN_OK)
        return status;
    config->n_routed_experts = experts;
    config->num_experts_per_tok = qn_min_size(config->num_experts_per_tok,
                                              experts / config->n_group * config->topk_group);
    return set_size(document, "num_experts_per_tok", config->num_experts_per_tok, err);
}

static bool is_token(const json_t *id, size_t vocab)
{
    return json_is_integer(id) && json_integer_value(id) >= 0 && (size_t)json_integer_value(id) < vocab;
}

static qn_status cut_token_ids(json_t *document, const char *name, size_t vocab, qn_error *err)
{
    json_t *ids = json_object_get(document, name);
    for (size_t i = json_array_size(ids); i-- > 0;) {
        if (!is_token(json_array_get(ids, i), vocab))
            json_array_remove(ids, i);
    }
    bool none = json_is_array(ids) ? json_array_size(ids) == 0 : ids && !is_token(ids, vocab);
    return none ? set(document, name, json_null(), err) : QN_OK;
}

static qn_status cut_vocab(size_t vocab, json_t *document, qn_config *config, qn_error *err)
{
    static const char *const tokens[] = {"eos_token_id", "bos_token_id", "pad_token_id"};
    qn_status status = check_most("vocab", vocab, config->vocab_size, err);
    if (status == QN_OK)
        status = set_size(document, "vocab_size", vocab, err);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens && status == QN_OK; i++)
        status = cut_token_ids(document, tokens[i], vocab, err);
    size_t kept = 0;
    for (size_t i = 0; i < config->eos_count; i++) {
        if ((size_t)config->eos_token_id[i] < vocab)
            config->eos_token_id[kept++] = config->eos_token_id[i];
    }
    for (size_t i = kept; i < QN_MAX_EOS; i++)
        config->eos_token_id[i] = 0;
    config->eos_count = kept;
    config->vocab_size = vocab;
    return status;
}

qn_status qn_synth_cut_apply(const qn_synth_cut *cut, json_t *document, qn_config *config, qn_error *err)
{
    qn_status status = QN_OK;
    if (cut->layers > 0)
        status = cut_layers(cut->layers, document, config, err);
    if (status == QN_OK && cut->moves_sparse)
        status = move_sparse(cut->sparse_from, document, config, err);
    if (status == QN_OK && cut->experts > 0)
        status = cut_experts(cut->experts, document, config, err);
    if (status == QN_OK && cut->vocab > 0)
        status = cut_vocab(cut->vocab, document, config, err);
    if (status == QN_OK && cut->without_mtp) {
        config->num_nextn_predict_layers = 0;
        status = set_size(document, "num_nextn_predict_layers", 0, err);
    }
    return status;
}
