#include "server/generation_fields.h"

#include <string.h>

#include "base/json.h"
#include "base/json_wide.h"
#include "base/memory.h"
#include "base/size.h"

static const qn_field steering_fields[] = {
    {.name = "top_k"},
    {.name = "min_p"},
    {.name = "seed"},
    {.name = "min_tokens"},
    {.name = "ignore_eos"},
    {.name = "stop_token_ids"},
    {.name = "presence_penalty"},
    {.name = "frequency_penalty"},
    {.name = "repetition_penalty"},
    {.name = "logit_bias"},
    {.name = "priority"},
    {.name = "cache_salt"},
    {.name = "timeout"},
    {.name = "request_id"},
    {.name = "thinking_token_budget"},
    {.name = "length_penalty", .rule = QN_FIELD_NEUTRAL, .neutral = "1"},
    {.name = "include_stop_str_in_output", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "skip_special_tokens", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "spaces_between_special_tokens", .rule = QN_FIELD_NEUTRAL, .neutral = "true"},
    {.name = "allowed_token_ids", .rule = QN_FIELD_NEUTRAL},
    {.name = "bad_words", .rule = QN_FIELD_NEUTRAL, .neutral = "[]"},
    {.name = "use_beam_search", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "truncate_prompt_tokens", .rule = QN_FIELD_NEUTRAL},
    {.name = "guided_decoding_backend", .rule = QN_FIELD_NEUTRAL},
    {.name = "guided_whitespace_pattern", .rule = QN_FIELD_NEUTRAL},
    {.name = "structural_tag", .rule = QN_FIELD_NEUTRAL},
    {.name = "logits_processors", .rule = QN_FIELD_NEUTRAL},
    {.name = "return_tokens_as_token_ids", .rule = QN_FIELD_NEUTRAL, .neutral = "false"},
    {.name = "kv_transfer_params", .rule = QN_FIELD_NEUTRAL},
    {.name = "vllm_xargs", .rule = QN_FIELD_NEUTRAL},
};

const qn_field_table qn_steering_fields = {.fields = steering_fields,
                                           .count = sizeof steering_fields / sizeof steering_fields[0]};

enum { PENALTY_MAX = 2, REPETITION_PENALTY_MAX = 100, BIAS_MAX = 100 };

/* A reading in progress. */
typedef struct reader {
    const json_t *document;
    const qn_generation_limits *limits;
    qn_generation_fields *out;
} reader;

static qn_status wrong_type(const json_t *value, const char *name, const char *wanted, qn_error *err)
{
    return qn_fail_field(err, QN_USAGE, name, "%s: %s given: send %s", name, qn_json_type_name(value), wanted);
}

static qn_status read_lengths(reader *r, qn_error *err)
{
    static const char *const names[] = {"max_tokens", "max_completion_tokens"}; /* the later one wins */
    for (size_t i = 0; i < 2; i++) {
        int64_t value = -1;
        qn_status status = qn_field_integer(r->document, names[i], r->limits->may_be_empty ? 0 : 1, INT64_MAX, &value,
                                            err);
        if (status != QN_OK) {
            return status;
        }
        if (value >= 0) {
            r->out->max_tokens = (size_t)value;
            r->out->max_tokens_field = names[i];
        }
    }
    int64_t least = 0;
    qn_status status = qn_field_integer(r->document, "min_tokens", 0, INT64_MAX, &least, err);
    r->out->min_tokens = (size_t)least;
    if (status == QN_OK && r->out->max_tokens_field != NULL && r->out->min_tokens > r->out->max_tokens) {
        status = qn_fail_field(err, QN_USAGE, "min_tokens", "min_tokens: %zu is more than %s: send at most %zu",
                               r->out->min_tokens, r->out->max_tokens_field, r->out->max_tokens);
    }
    return status == QN_OK ? qn_field_boolean(r->document, "ignore_eos", &r->out->ignore_eos, err) : status;
}

static qn_status read_sampling(reader *r, qn_error *err)
{
    qn_sampling *sampling = &r->out->sampling;
    qn_status status = qn_field_float(r->document, "temperature", 0, 2, &sampling->temperature, err);
    if (status == QN_OK) {
        status = qn_field_float(r->document, "top_p", 0, 1, &sampling->top_p, err);
    }
    if (status == QN_OK && !(sampling->top_p > 0)) {
        status = qn_fail_field(err, QN_USAGE, "top_p", "top_p: 0 leaves no token: send more than 0, at most 1");
    }
    if (status == QN_OK) {
        status = qn_field_float(r->document, "min_p", 0, 1, &sampling->min_p, err);
    }
    int64_t top_k = sampling->top_k, seed = 0;
    if (status == QN_OK) {
        status = qn_field_integer(r->document, "top_k", -1, INT32_MAX, &top_k, err);
        sampling->top_k = (int32_t)top_k;
    }
    if (status == QN_OK) {
        status = qn_field_integer(r->document, "seed", INT64_MIN, INT64_MAX, &seed, err);
        r->out->seed_given = qn_field_get(r->document, "seed") != NULL;
        sampling->seed = (uint64_t)seed;
    }
    return status;
}

static qn_status read_penalties(reader *r, qn_error *err)
{
    qn_sampling *sampling = &r->out->sampling;
    qn_status status = qn_field_float(r->document, "presence_penalty", -PENALTY_MAX, PENALTY_MAX,
                                      &sampling->presence_penalty, err);
    if (status == QN_OK) {
        status = qn_field_float(r->document, "frequency_penalty", -PENALTY_MAX, PENALTY_MAX,
                                &sampling->frequency_penalty, err);
    }
    if (status == QN_OK) {
        status = qn_field_float(r->document, "repetition_penalty", 0, REPETITION_PENALTY_MAX,
                                &sampling->repetition_penalty, err);
    }
    bool given = qn_field_get(r->document, "repetition_penalty") != NULL; /* a default of 0 means none */
    if (status == QN_OK && given && !(sampling->repetition_penalty > 0)) {
        status = qn_fail_field(err, QN_USAGE, "repetition_penalty",
                               "repetition_penalty: 0 is no factor: send more than 0; 1 changes nothing");
    }
    return status;
}

/* A token id as a key: digits without a leading zero, so that no two keys mean the same. */
static bool read_id(const char *text, size_t vocab_size, int32_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] != '\0' || (text[0] == '0' && digits > 1)) {
        return false;
    }
    int32_t id = 0;
    for (size_t i = 0; i < digits; i++) {
        id = id * 10 + (text[i] - '0');
    }
    *out = id;
    return (size_t)id < vocab_size;
}

static qn_status read_bias(const reader *r, const char *key, const json_t *value, qn_logit_bias *out, qn_error *err)
{
    static const char name[] = "logit_bias";
    if (!read_id(key, r->limits->vocab_size, &out->token)) {
        return qn_fail_field(err, QN_USAGE, name, "logit_bias: key %.40s: send token ids below %zu", key,
                             r->limits->vocab_size);
    }
    if (!json_is_number(value)) {
        return qn_fail_field(err, QN_USAGE, name, "logit_bias: %s for token %s: send numbers", qn_json_type_name(value),
                             key);
    }
    double bias = json_number_value(value);
    if (!(bias >= -BIAS_MAX && bias <= BIAS_MAX)) {
        return qn_fail_field(err, QN_USAGE, name, "logit_bias: %g for token %s: send -%d to %d", bias, key, BIAS_MAX,
                             BIAS_MAX);
    }
    out->bias = (float)bias;
    return QN_OK;
}

static qn_status read_biases(reader *r, qn_error *err)
{
    static const char name[] = "logit_bias";
    const json_t *object = qn_field_get(r->document, name);
    if (object == NULL) {
        return QN_OK;
    }
    if (!qn_json_is_object(object)) {
        return wrong_type(object, name, "an object of token ids and numbers", err);
    }
    size_t count = json_object_size(object);
    if (count > QN_REQUEST_MAX_BIASES) {
        return qn_fail_field(err, QN_USAGE, name, "logit_bias: %zu tokens: send at most %d", count,
                             QN_REQUEST_MAX_BIASES);
    }
    r->out->biases = qn_alloc(count, sizeof *r->out->biases);
    if (r->out->biases == NULL) {
        return qn_fail_memory(err, "logit_bias", count * sizeof *r->out->biases);
    }
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        qn_status status = read_bias(r, key, value, &r->out->biases[i++], err);
        if (status != QN_OK) {
            return status;
        }
    }
    r->out->sampling.logit_bias = r->out->biases;
    r->out->sampling.logit_bias_count = count;
    return QN_OK;
}

static qn_status add_stop(reader *r, const json_t *value, qn_error *err)
{
    qn_generation_fields *out = r->out;
    if (!json_is_string(value)) {
        return qn_fail_field(err, QN_USAGE, "stop", "stop: %s in the list: send strings", qn_json_type_name(value));
    }
    size_t bytes = json_string_length(value);
    if (bytes == 0 || bytes > QN_STOP_MAX_BYTES || strlen(json_string_value(value)) != bytes) {
        return qn_fail_field(err, QN_USAGE, "stop", "stop: a string of %zu bytes%s: send 1 to %d bytes without NUL",
                             bytes, bytes > 0 && bytes <= QN_STOP_MAX_BYTES ? " with a NUL" : "", QN_STOP_MAX_BYTES);
    }
    if (out->stop_count == QN_STOP_MAX_STRINGS) {
        return qn_fail_field(err, QN_USAGE, "stop", "stop: too many strings: send at most %d", QN_STOP_MAX_STRINGS);
    }
    out->stop[out->stop_count++] = json_string_value(value);
    return QN_OK;
}

static qn_status read_stop(reader *r, qn_error *err)
{
    const json_t *stop = qn_field_get(r->document, "stop");
    if (stop == NULL) {
        return QN_OK;
    }
    if (json_is_string(stop)) {
        return add_stop(r, stop, err);
    }
    if (!json_is_array(stop)) {
        return wrong_type(stop, "stop", "a string or a list of strings", err);
    }
    qn_status status = QN_OK;
    for (size_t i = 0; i < json_array_size(stop) && status == QN_OK; i++) {
        status = add_stop(r, json_array_get(stop, i), err);
    }
    return status;
}

static qn_status read_stop_tokens(reader *r, qn_error *err)
{
    static const char name[] = "stop_token_ids";
    const json_t *list = qn_field_get(r->document, name);
    if (list == NULL) {
        return QN_OK;
    }
    if (!json_is_array(list)) {
        return wrong_type(list, name, "a list of token ids", err);
    }
    size_t count = json_array_size(list);
    if (count > QN_MAX_STOP_TOKENS) {
        return qn_fail_field(err, QN_USAGE, name, "stop_token_ids: %zu ids: send at most %d", count,
                             QN_MAX_STOP_TOKENS);
    }
    r->out->stop_token_ids = qn_alloc(count, sizeof *r->out->stop_token_ids);
    if (r->out->stop_token_ids == NULL) {
        return qn_fail_memory(err, "stop_token_ids", count * sizeof *r->out->stop_token_ids);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= r->limits->vocab_size) {
            return qn_fail_field(err, QN_USAGE, name, "stop_token_ids: entry %zu is no token: send ids below %zu", i,
                                 r->limits->vocab_size);
        }
        r->out->stop_token_ids[i] = (int32_t)id;
    }
    r->out->stop_token_count = count;
    return QN_OK;
}

static qn_status read_choices(reader *r, qn_error *err)
{
    int64_t n = 1;
    int64_t most = QN_REQUEST_MAX_CHOICES;
    if (r->limits->max_choices > 0) {
        most = (int64_t)qn_min_size(r->limits->max_choices, QN_REQUEST_MAX_CHOICES);
    }
    qn_status status = qn_field_integer(r->document, "n", 1, most, &n, err);
    r->out->n = (size_t)n;
    if (status == QN_OK && n > 1 && r->out->sampling.temperature == 0) {
        status = qn_fail_field(err, QN_USAGE, "n",
                               "n: with temperature 0 all choices are the same: send 1, or a temperature");
    }
    return status;
}

static qn_status read_scheduling(reader *r, qn_error *err)
{
    int64_t priority = 0, prompt_logprobs = -1;
    float timeout_s = 0;
    qn_status status = qn_field_integer(r->document, "priority", INT32_MIN, INT32_MAX, &priority, err);
    r->out->priority = (int32_t)priority;
    if (status == QN_OK) {
        status = qn_field_integer(r->document, "prompt_logprobs", 0, QN_MAX_LOGPROBS, &prompt_logprobs, err);
        r->out->prompt_logprobs = (int)prompt_logprobs;
    }
    if (status == QN_OK) {
        status = qn_field_float(r->document, "timeout", 0, QN_REQUEST_MAX_TIMEOUT_S, &timeout_s, err);
    }
    if (status == QN_OK && qn_field_get(r->document, "timeout") != NULL) {
        r->out->timeout_us = (uint64_t)((double)timeout_s * 1e6);
        if (r->out->timeout_us == 0) {
            status = qn_fail_field(err, QN_USAGE, "timeout", "timeout: 0 leaves no time: send seconds, above 0");
        }
    }
    return status;
}

static qn_status read_thinking_budget(reader *r, qn_error *err)
{
    int64_t budget = -1;
    qn_status status = qn_field_integer(r->document, "thinking_token_budget", 0, INT32_MAX, &budget, err);
    r->out->has_thinking_budget = budget >= 0;
    r->out->thinking_budget = budget >= 0 ? (size_t)budget : 0;
    return status;
}

static qn_status read_names(reader *r, qn_error *err)
{
    qn_status status = qn_field_string(r->document, "request_id", &r->out->request_id, err);
    if (status == QN_OK) {
        status = qn_field_string(r->document, "cache_salt", &r->out->cache_salt, err);
    }
    if (status != QN_OK || r->out->cache_salt == NULL) {
        return status;
    }
    size_t bytes = strlen(r->out->cache_salt);
    if (bytes == 0 || bytes > QN_REQUEST_MAX_SALT_BYTES) {
        return qn_fail_field(err, QN_USAGE, "cache_salt", "cache_salt: %zu bytes: send 1 to %d", bytes,
                             QN_REQUEST_MAX_SALT_BYTES);
    }
    return QN_OK;
}

qn_status qn_generation_fields_read(const json_t *document, const qn_generation_limits *limits,
                                    qn_generation_fields *out, qn_error *err)
{
    static qn_status (*const reads[])(reader *, qn_error *) = {
        read_lengths,     read_sampling, read_penalties,  read_biases, read_stop,
        read_stop_tokens, read_choices,  read_scheduling, read_names,  read_thinking_budget,
    };
    *out = (qn_generation_fields){.sampling = limits->sampling, .n = 1, .prompt_logprobs = -1};
    reader r = {.document = document, .limits = limits, .out = out};
    qn_status status = QN_OK;
    for (size_t i = 0; i < sizeof reads / sizeof reads[0] && status == QN_OK; i++) {
        status = reads[i](&r, err);
    }
    return status;
}

void qn_generation_fields_free(qn_generation_fields *fields)
{
    qn_free(fields->stop_token_ids);
    qn_free(fields->biases);
    *fields = (qn_generation_fields){0};
}
