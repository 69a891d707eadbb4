/* Which layers have experts and which an indexer of their own. As in transformers a list by layer wins over the rule
 * that it spells out, but which layers have experts must not be told in two ways; the rules are DeepSeek's and GLM's.
 */
#include <string.h>

#include "checkpoint/config_parts.h"

/* A list of num_hidden_layers strings, each `yes` or `no`. Returns whether it was there. */
static bool read_list(qn_fields *f, const char *name, const char *yes, const char *no, size_t layers, bool *out)
{
    json_t *list = qn_fields_take(f, name);
    if (!list)
        return false;
    if (!json_is_array(list) || json_array_size(list) != layers) {
        qn_fields_refuse(f, name, list, "it must be a list of num_hidden_layers (%zu) strings, correct the file",
                         layers);
    } else {
        for (size_t i = 0; i < layers; i++) {
            const json_t *entry = json_array_get(list, i);
            out[i] = qn_value_is(entry, yes);
            if (!out[i] && !qn_value_is(entry, no))
                qn_fields_refuse(f, name, entry,
                                 "in the entry of layer %zu, quern knows \"%s\" and \"%s\", correct the file", i, yes,
                                 no);
        }
    }
    json_decref(list);
    return true;
}

static void read_mlp_types(qn_fields *f, qn_config *out)
{
    size_t dense = 0, layers = out->num_hidden_layers;
    bool listed = read_list(f, "mlp_layer_types", "sparse", "dense", layers, out->layer_is_sparse);
    bool counted = qn_fields_size(f, "first_k_dense_replace", !listed, 0, QN_MAX_LAYERS, &dense);
    qn_fields_expect_size(f, "moe_layer_freq", 1, ", use a GLM-5 checkpoint");
    for (size_t i = 0; i < layers && !listed; i++)
        out->layer_is_sparse[i] = i >= dense;
    for (size_t i = 0; i < layers && listed && counted; i++) {
        if (out->layer_is_sparse[i] != (i >= dense))
            qn_fields_fail(f, "first_k_dense_replace",
                           "is %zu, and mlp_layer_types has layer %zu as a %s one: remove the one that is wrong", dense,
                           i, out->layer_is_sparse[i] ? "sparse" : "dense");
    }
}

/* "FFFSSSF...": F full, S shared; or a list like indexer_types. Returns whether it was there. */
static bool read_pattern(qn_fields *f, size_t layers, bool *out)
{
    static const char name[] = "index_topk_pattern";
    const json_t *pattern = json_object_get(f->object, name);
    if (json_is_array(pattern))
        return read_list(f, name, "full", "shared", layers, out);
    json_t *value = qn_fields_take(f, name);
    if (!value)
        return false;
    const char *text = json_string_value(value);
    if (!text || strlen(text) != layers || strspn(text, "FS") != layers)
        qn_fields_refuse(f, name, value, "it must have an F or an S for each of the %zu layers, correct the file",
                         layers);
    for (size_t i = 0; i < layers && f->status == QN_OK; i++)
        out[i] = text[i] == 'F';
    json_decref(value);
    return true;
}

static void read_indexer_types(qn_fields *f, qn_config *out)
{
    enum { MOST = 1 << 20 };
    size_t layers = out->num_hidden_layers, period = 1, offset = 2;
    bool pattern[QN_MAX_LAYERS];
    bool listed = read_list(f, "indexer_types", "full", "shared", layers, out->layer_has_indexer);
    bool drawn = read_pattern(f, layers, pattern);
    qn_fields_size(f, "index_topk_freq", false, 0, MOST, &period);
    qn_fields_size(f, "index_skip_topk_offset", false, 0, MOST, &offset);
    if (f->status != QN_OK)
        return;
    if (period == 0) /* as transformers has it */
        period = 1;
    for (size_t i = 0; i < layers && !listed; i++) {
        size_t since = i + 1 > offset ? i + 1 - offset : 0;
        out->layer_has_indexer[i] = drawn ? pattern[i] : since % period == 0;
    }
    if (!out->layer_has_indexer[0])
        qn_fields_fail(f,
                       listed  ? "indexer_types"
                       : drawn ? "index_topk_pattern"
                               : "index_skip_topk_offset",
                       "makes the first layer a shared one: it has none before it to share with, correct the file");
}

void qn_config_read_layers(qn_fields *f, qn_config *out)
{
    bool ignored[QN_MAX_LAYERS];
    if (f->status != QN_OK)
        return;
    read_mlp_types(f, out);
    read_indexer_types(f, out);
    /* what transformers writes for its cache classes: every layer is the same kind of attention */
    read_list(f, "layer_types", "deepseek_sparse_attention", "deepseek_sparse_attention", out->num_hidden_layers,
              ignored);
}
