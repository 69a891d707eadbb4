#include "sampling/rules.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/size.h"

enum { WORD_BITS = 64 };

static bool penalties_matter(const qn_rules *rules)
{
    const qn_token_count *list;
    return qn_sampling_counts_tokens(rules->sampling) &&
           (rules->ahead_count > 0 || (rules->counts != NULL && qn_token_counts_list(rules->counts, &list) > 0));
}

bool qn_rules_change_anything(const qn_rules *rules)
{
    return rules->allowed != NULL || rules->banned_count > 0 || rules->sampling->logit_bias_count > 0 ||
           penalties_matter(rules);
}

static bool in_vocabulary(int32_t token, size_t vocab_size)
{
    return token >= 0 && (size_t)token < vocab_size;
}

/* Up to 64 tokens of a mask's word. A mask is mostly all or nothing, so only the rarer kind of bit is walked. */
static void mask_word(uint64_t word, const float *logits, size_t count, float *out)
{
    float row[WORD_BITS];
    memcpy(row, logits, count * sizeof *row);
    if (count < WORD_BITS) {
        word &= (UINT64_C(1) << count) - 1;
    }
    uint64_t all = count < WORD_BITS ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
    bool few_allowed = __builtin_popcountll(word) <= WORD_BITS / 2;
    uint64_t walked = few_allowed ? word : all & ~word;
    for (size_t i = 0; i < count; i++) {
        out[i] = few_allowed ? -INFINITY : row[i];
    }
    while (walked != 0) {
        int bit = __builtin_ctzll(walked);
        out[bit] = few_allowed ? row[bit] : -INFINITY;
        walked &= walked - 1;
    }
}

static void copy_allowed(const uint64_t *allowed, const float *logits, size_t vocab_size, float *out)
{
    for (size_t start = 0; start < vocab_size; start += WORD_BITS) {
        mask_word(allowed[start / WORD_BITS], logits + start, qn_min_size(WORD_BITS, vocab_size - start), out + start);
    }
}

/* A masked logit stays masked, any other stays finite. */
static float bounded(float before, float after)
{
    after = after < -FLT_MAX ? -FLT_MAX : after;
    after = after > FLT_MAX ? FLT_MAX : after;
    return before == -INFINITY ? before : after;
}

static void add_bias(const qn_sampling *sampling, size_t vocab_size, float *out)
{
    for (size_t i = 0; i < sampling->logit_bias_count; i++) {
        int32_t token = sampling->logit_bias[i].token;
        if (in_vocabulary(token, vocab_size)) {
            out[token] = bounded(out[token], out[token] + sampling->logit_bias[i].bias);
        }
    }
}

/* What the penalties subtract or multiply by; off is what changes no bit. */
typedef struct penalties {
    float repetition, frequency, presence;
} penalties;

static penalties penalties_of(const qn_sampling *sampling)
{
    return (penalties){.repetition = qn_sampling_counts_prompt(sampling) ? sampling->repetition_penalty : 1.0F,
                       .frequency = sampling->frequency_penalty,
                       .presence = sampling->presence_penalty};
}

/* The logit of a token of the prompt or the answer. Selected rather than branched on: signs and counts follow no
 * pattern that a branch could be predicted by. */
static float penalised(penalties p, float logit, uint32_t in_answer)
{
    float divided = logit / p.repetition, multiplied = logit * p.repetition;
    float result = logit > 0.0F ? divided : multiplied;
    result -= p.frequency * (float)in_answer;
    result -= in_answer > 0 ? p.presence : 0.0F;
    return bounded(logit, result);
}

static void penalise_counted(const qn_rules *rules, penalties p, size_t vocab_size, float *out)
{
    const qn_token_count *list;
    size_t count = rules->counts != NULL ? qn_token_counts_list(rules->counts, &list) : 0;
    for (size_t i = 0; i < count; i++) {
        int32_t token = list[i].token;
        if (in_vocabulary(token, vocab_size)) {
            out[token] = penalised(p, out[token], list[i].in_answer);
        }
    }
}

static uint32_t occurrences_ahead(const qn_rules *rules, int32_t token)
{
    uint32_t count = 0;
    for (size_t i = 0; i < rules->ahead_count; i++) {
        count += rules->ahead[i] == token;
    }
    return count;
}

/* Tokens ahead are set aside before the counted ones get their penalties, and get theirs from both counts at once:
 * subtracting in two steps would round differently than once the drafts are counted. */
static void penalise(const qn_rules *rules, size_t vocab_size, float *out)
{
    const penalties p = penalties_of(rules->sampling);
    float aside[QN_MAX_AHEAD];
    assert(rules->ahead_count <= QN_MAX_AHEAD);
    for (size_t i = 0; i < rules->ahead_count; i++) {
        aside[i] = in_vocabulary(rules->ahead[i], vocab_size) ? out[rules->ahead[i]] : 0.0F;
    }
    penalise_counted(rules, p, vocab_size, out);
    for (size_t i = 0; i < rules->ahead_count; i++) {
        int32_t token = rules->ahead[i];
        if (in_vocabulary(token, vocab_size)) {
            uint32_t counted = rules->counts != NULL ? qn_token_counts_of(rules->counts, token).in_answer : 0;
            out[token] = penalised(p, aside[i], counted + occurrences_ahead(rules, token));
        }
    }
}

void qn_rules_apply(const qn_rules *rules, const float *logits, size_t vocab_size, float *out)
{
    if (rules->allowed != NULL) {
        copy_allowed(rules->allowed, logits, vocab_size, out);
    } else if (out != logits) {
        memcpy(out, logits, vocab_size * sizeof *out);
    }
    for (size_t i = 0; i < rules->banned_count; i++) {
        if (in_vocabulary(rules->banned[i], vocab_size)) {
            out[rules->banned[i]] = -INFINITY;
        }
    }
    add_bias(rules->sampling, vocab_size, out);
    if (penalties_matter(rules)) {
        penalise(rules, vocab_size, out);
    }
}
