#include "sampling/sampling.h"

#include <math.h>

static const float HIGHEST_PENALTY = 2.0F, HIGHEST_BIAS = 100.0F;

qn_sampling qn_sampling_greedy(void)
{
    return (qn_sampling){.temperature = 0.0F, .top_p = 1.0F, .repetition_penalty = 1.0F};
}

static qn_status check_penalty(const char *field, float value, qn_error *err)
{
    if (!(fabsf(value) <= HIGHEST_PENALTY)) {
        return qn_fail_field(err, QN_USAGE, field, "%s: %g is out of range: give a number from -2 to 2", field,
                             (double)value);
    }
    return QN_OK;
}

static qn_status check_penalties(const qn_sampling *sampling, qn_error *err)
{
    qn_status status = check_penalty("presence_penalty", sampling->presence_penalty, err);
    if (status == QN_OK) {
        status = check_penalty("frequency_penalty", sampling->frequency_penalty, err);
    }
    if (status == QN_OK && (!(sampling->repetition_penalty >= 0.0F) || !isfinite(sampling->repetition_penalty))) {
        return qn_fail_field(err, QN_USAGE, "repetition_penalty",
                             "repetition_penalty: %g is out of range: give a number above 0",
                             (double)sampling->repetition_penalty);
    }
    return status;
}

static qn_status check_bias(const qn_sampling *sampling, qn_error *err)
{
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        qn_logit_bias one = sampling->logit_bias[i];
        if (one.token < 0) {
            return qn_fail_field(err, QN_USAGE, "logit_bias", "logit_bias: %ld is no token: give token ids from 0 up",
                                 (long)one.token);
        }
        if (!(fabsf(one.bias) <= HIGHEST_BIAS)) {
            return qn_fail_field(err, QN_USAGE, "logit_bias",
                                 "logit_bias: %g for token %ld is out of range: give a number from -100 to 100",
                                 (double)one.bias, (long)one.token);
        }
    }
    return QN_OK;
}

qn_status qn_sampling_check(const qn_sampling *sampling, qn_error *err)
{
    if (!(sampling->temperature >= 0.0F) || !isfinite(sampling->temperature)) {
        return qn_fail_field(err, QN_USAGE, "temperature", "temperature: %g is out of range: give a number from 0 up",
                             (double)sampling->temperature);
    }
    if (!(sampling->top_p > 0.0F && sampling->top_p <= 1.0F)) {
        return qn_fail_field(err, QN_USAGE, "top_p", "top_p: %g is out of range: give a number above 0, at most 1",
                             (double)sampling->top_p);
    }
    if (!(sampling->min_p >= 0.0F && sampling->min_p <= 1.0F)) {
        return qn_fail_field(err, QN_USAGE, "min_p", "min_p: %g is out of range: give a number from 0 to 1",
                             (double)sampling->min_p);
    }
    if (sampling->top_k < -1) {
        return qn_fail_field(err, QN_USAGE, "top_k", "top_k: %ld is out of range: give a count, or 0 or -1 for all",
                             (long)sampling->top_k);
    }
    qn_status status = check_penalties(sampling, err);
    return status == QN_OK ? check_bias(sampling, err) : status;
}

qn_status qn_sampling_check_tokens(const qn_sampling *sampling, size_t vocab_size, qn_error *err)
{
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        int32_t token = sampling->logit_bias[i].token;
        if (token < 0 || (size_t)token >= vocab_size) {
            return qn_fail_field(err, QN_USAGE, "logit_bias",
                                 "logit_bias: %ld is no token of this model: give ids below %zu", (long)token,
                                 vocab_size);
        }
    }
    return QN_OK;
}

bool qn_sampling_counts_prompt(const qn_sampling *sampling)
{
    return sampling->repetition_penalty != 0.0F && sampling->repetition_penalty != 1.0F;
}

bool qn_sampling_counts_tokens(const qn_sampling *sampling)
{
    return sampling->presence_penalty != 0.0F || sampling->frequency_penalty != 0.0F ||
           qn_sampling_counts_prompt(sampling);
}
