#include "engine/generation_config.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"

enum { FILE_LIMIT_BYTES = 1 << 20 };

/* Fields that say nothing about the output. */
static const char *const harmless[] = {"_from_model_config", "transformers_version", "pad_token_id", "bos_token_id",
                                       "use_cache",          "cache_implementation", "max_length"};

/* Fields that would change it, and the value at which they don't. */
static const struct {
    const char *name;
    double neutral;
} unsupported[] = {
    {"typical_p", 1.0},      {"epsilon_cutoff", 0.0},       {"eta_cutoff", 0.0},
    {"num_beams", 1.0},      {"no_repeat_ngram_size", 0.0}, {"min_length", 0.0},
    {"min_new_tokens", 0.0}, {"num_return_sequences", 1.0}, {"penalty_alpha", 0.0},
    {"guidance_scale", 1.0}, {"diversity_penalty", 0.0},    {"length_penalty", 1.0},
    {"top_h", 0.0},
};

enum {
    HARMLESS_COUNT = sizeof harmless / sizeof *harmless,
    UNSUPPORTED_COUNT = sizeof unsupported / sizeof *unsupported
};

void qn_generation_config_default(const qn_config *config, qn_generation_config *out)
{
    *out = (qn_generation_config){.eos_count = 0, .sampling = qn_sampling_greedy()};
    out->sampling.temperature = 1.0F;
    for (size_t i = 0; i < config->eos_count; i++) {
        out->eos_token_id[out->eos_count++] = config->eos_token_id[i];
    }
}

static qn_status wrong_type(const char *what, const char *name, const char *wanted, const json_t *value, qn_error *err)
{
    return qn_fail(err, QN_BAD_INPUT, "%s: %s: expected %s, got %s: correct the field or remove it", what, name, wanted,
                   qn_json_type_name(value));
}

static qn_status add_eos(qn_generation_config *config, const json_t *value, size_t vocab_size, const char *what,
                         qn_error *err)
{
    if (!json_is_integer(value)) {
        return wrong_type(what, "eos_token_id", "a token id or a list of them", value, err);
    }
    json_int_t id = json_integer_value(value);
    if (id < 0 || (uint64_t)id >= vocab_size) {
        return qn_fail(err, QN_BAD_INPUT,
                       "%s: eos_token_id: %lld is no token of a vocabulary of %zu: correct the field", what,
                       (long long)id, vocab_size);
    }
    for (size_t i = 0; i < config->eos_count; i++) {
        if (config->eos_token_id[i] == (int32_t)id) {
            return QN_OK;
        }
    }
    if (config->eos_count == QN_GENERATION_MAX_EOS) {
        return qn_fail(err, QN_BAD_INPUT, "%s: eos_token_id: more than %d different ids: list fewer", what,
                       QN_GENERATION_MAX_EOS);
    }
    config->eos_token_id[config->eos_count++] = (int32_t)id;
    return QN_OK;
}

static qn_status apply_eos(qn_generation_config *config, const json_t *value, size_t vocab_size, const char *what,
                           qn_error *err)
{
    if (!json_is_array(value)) {
        return add_eos(config, value, vocab_size, what, err);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        qn_status status = add_eos(config, json_array_get(value, i), vocab_size, what, err);
        if (status != QN_OK) {
            return status;
        }
    }
    return QN_OK;
}

static qn_status apply_number(float *out, const char *name, const json_t *value, const char *what, qn_error *err)
{
    if (!json_is_number(value)) {
        return wrong_type(what, name, "a number", value, err);
    }
    *out = (float)json_number_value(value);
    return QN_OK;
}

static qn_status apply_top_k(qn_generation_config *config, const json_t *value, const char *what, qn_error *err)
{
    if (!json_is_integer(value)) {
        return wrong_type(what, "top_k", "an integer", value, err);
    }
    json_int_t k = json_integer_value(value);
    config->sampling.top_k = k > INT32_MAX ? INT32_MAX : k < -2 ? -2 : (int32_t)k;
    return QN_OK;
}

/* A field that is not honoured: told or refused, unless it asks for nothing. */
static qn_status other_field(const char *name, const json_t *value, const char *what, bool refuse, qn_error *err)
{
    for (size_t i = 0; i < HARMLESS_COUNT; i++) {
        if (strcmp(name, harmless[i]) == 0) {
            return QN_OK;
        }
    }
    for (size_t i = 0; i < UNSUPPORTED_COUNT; i++) {
        if (strcmp(name, unsupported[i].name) == 0) {
            if (json_is_number(value) && json_number_value(value) == unsupported[i].neutral) {
                return QN_OK;
            }
            if (refuse) {
                return qn_fail(err, QN_BAD_INPUT, "%s: %s: not supported in this version: leave it out", what, name);
            }
            qn_log("%s: %s: not supported in this version: answers are made without it", what, name);
            return QN_OK;
        }
    }
    if (refuse) {
        return qn_fail(
            err, QN_BAD_INPUT,
            "%s: %s: unknown field: give temperature, top_p, top_k, min_p, a penalty, do_sample or eos_token_id", what,
            name);
    }
    qn_log("%s: %s: unknown field: ignored", what, name);
    return QN_OK;
}

/* Where the number of this name goes; NULL: it is no number of sampling. */
static float *number_field(qn_sampling *sampling, const char *name)
{
    const struct {
        const char *name;
        float *value;
    } fields[] = {
        {"temperature", &sampling->temperature},
        {"top_p", &sampling->top_p},
        {"min_p", &sampling->min_p},
        {"repetition_penalty", &sampling->repetition_penalty},
        {"presence_penalty", &sampling->presence_penalty},
        {"frequency_penalty", &sampling->frequency_penalty},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].name, name) == 0) {
            return fields[i].value;
        }
    }
    return NULL;
}

qn_status qn_generation_config_apply(qn_generation_config *config, const json_t *fields, size_t vocab_size,
                                     const char *what, bool refuse_others, qn_error *err)
{
    if (!json_is_object(fields)) {
        return qn_fail(err, QN_BAD_INPUT, "%s: expected a JSON object, got %s", what, qn_json_type_name(fields));
    }
    qn_sampling *sampling = &config->sampling;
    bool greedy = false;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)fields, name, value)
    {
        qn_status status = QN_OK;
        if (json_is_null(value)) {
            continue;
        }
        float *number = number_field(sampling, name);
        if (strcmp(name, "eos_token_id") == 0) {
            status = apply_eos(config, value, vocab_size, what, err);
        } else if (number != NULL) {
            status = apply_number(number, name, value, what, err);
        } else if (strcmp(name, "top_k") == 0) {
            status = apply_top_k(config, value, what, err);
        } else if (strcmp(name, "do_sample") == 0) {
            status = json_is_boolean(value) ? QN_OK : wrong_type(what, name, "a boolean", value, err);
            greedy = json_is_false(value);
        } else {
            status = other_field(name, value, what, refuse_others, err);
        }
        if (status != QN_OK) {
            return status;
        }
    }
    if (greedy) {
        sampling->temperature = 0.0F;
    }
    if (qn_sampling_check(sampling, err) != QN_OK) {
        err->status = QN_BAD_INPUT;
        return qn_error_prefix(err, "%s", what);
    }
    return QN_OK;
}

qn_status qn_generation_config_read(const char *model_dir, const qn_config *config, qn_generation_config *out,
                                    qn_error *err)
{
    qn_generation_config_default(config, out);
    char *path = qn_path_join(model_dir, "generation_config.json");
    if (path == NULL) {
        return qn_fail_memory(err, "path of generation_config.json", strlen(model_dir));
    }
    qn_status status = QN_OK;
    json_t *fields = NULL;
    if (access(path, F_OK) == 0 || errno != ENOENT) {
        status = qn_json_parse_file(path, FILE_LIMIT_BYTES, &fields, err);
    }
    if (status == QN_OK && fields != NULL) {
        status = qn_generation_config_apply(out, fields, config->vocab_size, path, false, err);
    }
    json_decref(fields);
    qn_free(path);
    return status;
}
