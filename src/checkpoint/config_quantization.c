/* quantization_config: MXFP4 as three tools write it, all else refused in one line.
 *
 * What is checked is only what the numbers mean: elements, group, scales. Which tensors are quantised is not read from
 * here: those lists are patterns of other programs' module names and not always complete, so the tensors' own dtypes
 * decide. Activations stay BF16 whatever the file asks for, with a line that says so. */
#include <stdio.h>

#include "base/log.h"
#include "checkpoint/config_parts.h"

static const char NAME[] = "quantization_config";
static const char OTHER_WAY[] = ", use the BF16 release or one with MXFP4 experts";

/* A reader of a field that is an object; object NULL when it is absent or no object (an error). The caller decrefs. */
static qn_fields open_object(qn_fields *outer, const char *name, const char *prefix)
{
    json_t *value = qn_fields_take(outer, name);
    if (value && !json_is_object(value)) {
        qn_fields_refuse(outer, name, value, "it must be an object, correct the file");
        json_decref(value);
        value = NULL;
    }
    return (
        qn_fields){.object = value, .what = outer->what, .prefix = prefix, .err = outer->err, .status = outer->status};
}

static void close_object(qn_fields *inner, qn_fields *outer)
{
    if (outer->status == QN_OK)
        outer->status = inner->status;
    json_decref(inner->object);
}

static bool is_empty(const json_t *value)
{
    return !value || (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

/* A field that must be absent or empty, since with it the numbers would mean something else. */
static void expect_nothing(qn_fields *f, const char *name, const char *what)
{
    json_t *value = qn_fields_take(f, name);
    if (!is_empty(value))
        qn_fields_refuse(f, name, value, "quern does not support %s%s", what, OTHER_WAY);
    json_decref(value);
}

static void note_activations(qn_fields *f, const char *const *names, size_t count, bool *noted)
{
    for (size_t i = 0; i < count; i++) {
        json_t *value = qn_fields_take(f, names[i]);
        if (!is_empty(value) && !*noted) {
            qn_log("%s: %s%s asks for quantised activations: quern computes them in BF16 or better", f->what, f->prefix,
                   names[i]);
            *noted = true;
        }
        json_decref(value);
    }
}

static void read_compressed_tensors_group(qn_fields *groups, const char *name, bool *noted)
{
    static const char PREFIX[] = "quantization_config.config_groups.*.weights.";
    qn_fields group = open_object(groups, name, "quantization_config.config_groups.*.");
    if (group.object) {
        qn_fields_expect_string(&group, "format", "mxfp4-pack-quantized", OTHER_WAY);
        static const char *const activations[] = {"input_activations", "output_activations"};
        note_activations(&group, activations, 2, noted);
        qn_fields weights = open_object(&group, "weights", PREFIX);
        if (weights.object) {
            qn_fields_expect_size(&weights, "num_bits", 4, OTHER_WAY);
            qn_fields_expect_string(&weights, "type", "float", OTHER_WAY);
            qn_fields_expect_size(&weights, "group_size", 32, OTHER_WAY);
            qn_fields_expect_string(&weights, "strategy", "group", OTHER_WAY);
            qn_fields_expect_bool(&weights, "symmetric", true, OTHER_WAY);
            qn_fields_expect_bool(&weights, "dynamic", false, OTHER_WAY);
            qn_fields_expect_string(&weights, "scale_dtype", "torch.uint8", OTHER_WAY);
        }
        close_object(&weights, &group);
    }
    close_object(&group, groups);
}

static void read_compressed_tensors(qn_fields *f)
{
    bool noted = false;
    if (!qn_fields_expect_string(f, "format", "mxfp4-pack-quantized", OTHER_WAY))
        qn_fields_fail(f, "format", "is absent: quern supports \"mxfp4-pack-quantized\" only%s", OTHER_WAY);
    qn_fields groups = open_object(f, "config_groups", "quantization_config.config_groups.");
    while (groups.object && groups.status == QN_OK && json_object_size(groups.object) > 0) {
        char name[64];
        const char *key = json_object_iter_key(json_object_iter(groups.object));
        int length = snprintf(name, sizeof name, "%s", key);
        if (length >= (int)sizeof name)
            qn_fields_fail(&groups, name, "... is a name of more than %zu bytes: correct the file", sizeof name - 1);
        else
            read_compressed_tensors_group(&groups, name, &noted);
    }
    close_object(&groups, f);
    expect_nothing(f, "kv_cache_scheme", "a quantised KV cache");
    expect_nothing(f, "moe_sparsity_config", "sparse weights");
    expect_nothing(f, "sparsity_config", "sparse weights");
    expect_nothing(f, "transform_config", "transforms of weights or activations");
}

/* One of Quark's {weight, input_tensors, output_tensors, bias}. Returns whether it describes MXFP4 weights. */
static bool read_quark_spec(qn_fields *spec, bool *noted)
{
    static const char PREFIX[] = "quantization_config.*.weight.";
    static const char *const activations[] = {"input_tensors", "output_tensors"};
    note_activations(spec, activations, 2, noted);
    expect_nothing(spec, "bias", "quantised biases");
    qn_fields weight = open_object(spec, "weight", PREFIX);
    bool found = weight.object != NULL;
    if (found) {
        if (!qn_fields_expect_string(&weight, "dtype", "fp4", OTHER_WAY))
            qn_fields_fail(&weight, "dtype", "is absent: quern supports \"fp4\" only%s", OTHER_WAY);
        qn_fields_expect_string(&weight, "qscheme", "per_group", OTHER_WAY);
        qn_fields_expect_size(&weight, "group_size", 32, OTHER_WAY);
        qn_fields_expect_string(&weight, "scale_format", "e8m0", OTHER_WAY);
        qn_fields_expect_bool(&weight, "is_dynamic", false, OTHER_WAY);
        qn_fields_expect_bool(&weight, "is_scale_quant", false, OTHER_WAY);
    }
    close_object(&weight, spec);
    return found;
}

static bool read_quark_layers(qn_fields *f, const char *name, bool *noted)
{
    bool found = false;
    qn_fields layers = open_object(f, name, "quantization_config.layer_quant_config.");
    const char *key;
    json_t *value;
    json_object_foreach(layers.object, key, value)
    {
        qn_fields spec = {.object = value,
                          .what = f->what,
                          .prefix = "quantization_config.layer_quant_config.",
                          .err = f->err,
                          .status = layers.status};
        if (!json_is_object(value))
            qn_fields_refuse(&spec, key, value, "it must be an object, correct the file");
        else
            found = read_quark_spec(&spec, noted) || found;
        layers.status = spec.status;
    }
    close_object(&layers, f);
    return found;
}

static void read_quark(qn_fields *f)
{
    bool noted = false, found = false;
    qn_fields all = open_object(f, "global_quant_config", "quantization_config.global_quant_config.");
    if (all.object)
        found = read_quark_spec(&all, &noted);
    close_object(&all, f);
    found = read_quark_layers(f, "layer_quant_config", &noted) || found;
    found = read_quark_layers(f, "layer_type_quant_config", &noted) || found;
    if (!found)
        qn_fields_fail(f, "global_quant_config", "has no weight: quern needs the format of the quantised weights%s",
                       OTHER_WAY);
    qn_fields export = open_object(f, "export", "quantization_config.export.");
    if (export.object)
        qn_fields_expect_string(&export, "weight_format", "real_quantized", OTHER_WAY);
    close_object(&export, f);
    expect_nothing(f, "kv_cache_quant_config", "a quantised KV cache");
    expect_nothing(f, "softmax_quant_spec", "a quantised softmax");
}

static void read_method(qn_fields *f, qn_config *out)
{
    json_t *method = qn_fields_take(f, "quant_method");
    if (qn_value_is(method, "compressed-tensors")) {
        out->expert_format = QN_EXPERTS_COMPRESSED_TENSORS;
        read_compressed_tensors(f);
    } else if (qn_value_is(method, "quark")) {
        out->expert_format = QN_EXPERTS_QUARK;
        read_quark(f);
    } else if (qn_value_is(method, "mxfp4")) {
        out->expert_format = QN_EXPERTS_GPT_OSS;
    } else if (!method) {
        qn_fields_fail(f, "quant_method", "is absent: quern cannot tell how the weights are quantised%s", OTHER_WAY);
    } else {
        qn_fields_refuse(f, "quant_method", method,
                         "quern reads \"compressed-tensors\", \"quark\" and \"mxfp4\", all with MXFP4 experts%s",
                         OTHER_WAY);
    }
    json_decref(method);
}

void qn_config_read_quantization(qn_fields *f, qn_config *out)
{
    qn_fields inner = open_object(f, NAME, "quantization_config.");
    out->expert_format = QN_EXPERTS_PLAIN;
    if (inner.object)
        read_method(&inner, out);
    close_object(&inner, f);
}
