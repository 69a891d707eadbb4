/* Rules against the plain formula over the whole sequence, and rows behind drafts against rows behind an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "sampling/rules.h"
#include "unit/random_stream.h"

enum { MOST = 300, PROMPT = 40, ANSWER = 60, BIASES = 6, BANNED = 5 };

/* One random row and what is asked of it; everything else is derived from this. */
typedef struct row_case {
    size_t vocab_size, prompt_count, answer_count;
    float logits[MOST];
    int32_t prompt[PROMPT], answer[ANSWER], banned[BANNED];
    qn_logit_bias bias[BIASES];
    uint64_t allowed[MOST / 64 + 1];
    bool has_mask;
    size_t banned_count;
    qn_sampling sampling;
} row_case;

static float any_of(random_stream *r, const float *values, size_t count)
{
    return values[random_word(r) % count];
}

static void fill_tokens(random_stream *r, int32_t *tokens, size_t count, size_t vocab_size)
{
    for (size_t i = 0; i < count; i++) {
        tokens[i] = (int32_t)(random_word(r) % (random_word(r) % 2 == 0 ? vocab_size : 1 + vocab_size / 10));
    }
}

static void fill_case(random_stream *r, row_case *c)
{
    static const float penalties[] = {0.0F, 0.3F, -0.7F, 2.0F, -2.0F, 1e-3F};
    static const float repetitions[] = {0.0F, 1.0F, 1.1F, 0.5F, 3.0F};
    memset(c, 0, sizeof *c);
    c->vocab_size = 1 + random_word(r) % (MOST - 1);
    for (size_t i = 0; i < c->vocab_size; i++) {
        c->logits[i] = random_word(r) % 20 == 0 ? -INFINITY : (float)(5.0 * random_normal(r));
    }
    c->prompt_count = random_word(r) % PROMPT;
    c->answer_count = random_word(r) % ANSWER;
    fill_tokens(r, c->prompt, c->prompt_count, c->vocab_size);
    fill_tokens(r, c->answer, c->answer_count, c->vocab_size);
    c->banned_count = random_word(r) % 2 == 0 ? 0 : random_word(r) % BANNED;
    fill_tokens(r, c->banned, c->banned_count, c->vocab_size);
    c->sampling = qn_sampling_greedy();
    c->sampling.presence_penalty = any_of(r, penalties, 6);
    c->sampling.frequency_penalty = any_of(r, penalties, 6);
    c->sampling.repetition_penalty = any_of(r, repetitions, 5);
    c->sampling.logit_bias = c->bias;
    c->sampling.logit_bias_count = random_word(r) % 2 == 0 ? 0 : random_word(r) % BIASES;
    for (size_t i = 0; i < c->sampling.logit_bias_count; i++) {
        c->bias[i].token = (int32_t)(random_word(r) % c->vocab_size);
        c->bias[i].bias = (float)(200.0 * random_unit(r) - 100.0);
    }
    c->has_mask = random_word(r) % 2 == 0;
    uint32_t shape = random_word(r) % 4;
    for (size_t i = 0; i < MOST / 64 + 1; i++) {
        uint64_t noise = ((uint64_t)random_word(r) << 32) | random_word(r);
        c->allowed[i] = shape == 0   ? noise
                        : shape == 1 ? noise & (noise >> 7) & (noise >> 13)
                        : shape == 2 ? ~UINT64_C(0)
                                     : 0;
    }
}

/* The formula, token by token over the whole sequence, in double. */
static double plain_logit(const row_case *c, int32_t token)
{
    const qn_sampling *s = &c->sampling;
    double x = (double)c->logits[token], in_answer = 0.0;
    bool seen = false, masked = c->has_mask && (c->allowed[token / 64] >> (token % 64) & 1) == 0;
    for (size_t i = 0; i < c->banned_count; i++) {
        masked = masked || c->banned[i] == token;
    }
    for (size_t i = 0; i < s->logit_bias_count; i++) {
        x += c->bias[i].token == token ? (double)c->bias[i].bias : 0.0;
    }
    for (size_t i = 0; i < c->prompt_count; i++) {
        seen = seen || c->prompt[i] == token;
    }
    for (size_t i = 0; i < c->answer_count; i++) {
        in_answer += c->answer[i] == token;
    }
    double r = s->repetition_penalty == 0.0F ? 1.0 : (double)s->repetition_penalty;
    if (seen || in_answer > 0.0) {
        x = x > 0.0 ? x / r : x * r;
    }
    x -= (double)s->frequency_penalty * in_answer;
    x -= in_answer > 0.0 ? (double)s->presence_penalty : 0.0;
    return masked ? -INFINITY : x;
}

/* The rules of a case with the last `ahead` tokens of its answer as drafts. */
static qn_token_counts *counted(const row_case *c, size_t ahead, qn_rules *rules)
{
    qn_error err;
    qn_token_counts *counts;
    assert_int_equal(qn_token_counts_new(c->prompt, c->prompt_count, &counts, &err), QN_OK);
    for (size_t i = 0; i < c->answer_count - ahead; i++) {
        assert_int_equal(qn_token_counts_add(counts, c->answer[i], &err), QN_OK);
    }
    *rules = (qn_rules){.sampling = &c->sampling,
                        .counts = counts,
                        .ahead = c->answer + c->answer_count - ahead,
                        .ahead_count = ahead,
                        .banned = c->banned,
                        .banned_count = c->banned_count,
                        .allowed = c->has_mask ? c->allowed : NULL};
    return counts;
}

static void rows_equal_the_plain_formula(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    row_case c;
    float out[MOST], before[MOST];
    for (int round = 0; round < 3000; round++) {
        fill_case(&r, &c);
        qn_rules rules;
        qn_token_counts *counts = counted(&c, 0, &rules);
        memcpy(before, c.logits, sizeof before);
        qn_rules_apply(&rules, c.logits, c.vocab_size, out);
        assert_memory_equal(before, c.logits, sizeof before);
        bool changed = false;
        for (size_t i = 0; i < c.vocab_size; i++) {
            double want = plain_logit(&c, (int32_t)i);
            if (isinf(want)) {
                assert_true(isinf(out[i]) && out[i] < 0.0F);
            } else {
                assert_true(fabs((double)out[i] - want) < 1e-4);
            }
            changed = changed || out[i] != c.logits[i];
        }
        assert_true(!changed || qn_rules_change_anything(&rules));
        qn_rules_apply(&rules, c.logits, c.vocab_size, c.logits); /* in place */
        assert_memory_equal(out, c.logits, c.vocab_size * sizeof *out);
        qn_token_counts_free(counts);
    }
}

static void drafts_ahead_weigh_as_the_answer_will(void **state)
{
    (void)state;
    random_stream r = {.seed = qn_random_seed(), .next = 0};
    print_message("seed %llu\n", (unsigned long long)r.seed);
    row_case c;
    float want[MOST], got[MOST];
    for (int round = 0; round < 2000; round++) {
        fill_case(&r, &c);
        qn_rules rules;
        qn_token_counts *counts = counted(&c, 0, &rules);
        qn_rules_apply(&rules, c.logits, c.vocab_size, want);
        qn_token_counts_free(counts);
        size_t most = c.answer_count < QN_MAX_AHEAD ? c.answer_count : QN_MAX_AHEAD;
        counts = counted(&c, random_word(&r) % (most + 1), &rules);
        qn_rules_apply(&rules, c.logits, c.vocab_size, got);
        assert_memory_equal(want, got, c.vocab_size * sizeof *got);
        qn_token_counts_free(counts);
    }
}

/* Penalties at the edge of float32 leave numbers that sampling can work with. */
static void huge_logits_stay_finite(void **state)
{
    (void)state;
    float logits[4] = {3e38F, -3e38F, -INFINITY, 1.0F}, out[4];
    qn_logit_bias bias[2] = {{.token = 0, .bias = 100.0F}, {.token = 2, .bias = 100.0F}};
    static const float repetitions[] = {1e-30F, 1e30F, 1e-45F};
    qn_error err;
    for (size_t i = 0; i < 3; i++) {
        qn_sampling s = qn_sampling_greedy();
        s.repetition_penalty = repetitions[i];
        s.frequency_penalty = -2.0F;
        s.logit_bias = bias, s.logit_bias_count = 2;
        const int32_t prompt[4] = {0, 1, 2, 3};
        qn_token_counts *counts;
        assert_int_equal(qn_token_counts_new(prompt, 4, &counts, &err), QN_OK);
        for (int32_t token = 0; token < 4; token++) {
            assert_int_equal(qn_token_counts_add(counts, token, &err), QN_OK);
        }
        qn_rules rules = {.sampling = &s, .counts = counts};
        qn_rules_apply(&rules, logits, 4, out);
        assert_true(isfinite(out[0]) && isfinite(out[1]) && isfinite(out[3]));
        assert_true(isinf(out[2]) && out[2] < 0.0F);
        qn_token_counts_free(counts);
    }
}

static void ids_outside_of_the_vocabulary_change_nothing(void **state)
{
    (void)state;
    const int32_t strange[3] = {-1, 5, INT32_MAX};
    float logits[5] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, out[5];
    qn_logit_bias bias[3] = {{-1, 1.0F}, {5, 1.0F}, {INT32_MAX, 1.0F}};
    qn_error err;
    qn_token_counts *counts;
    assert_int_equal(qn_token_counts_new(strange, 3, &counts, &err), QN_OK);
    qn_sampling s = qn_sampling_greedy();
    s.repetition_penalty = 2.0F, s.presence_penalty = 1.0F;
    s.logit_bias = bias, s.logit_bias_count = 3;
    qn_rules rules = {
        .sampling = &s, .counts = counts, .ahead = strange, .ahead_count = 3, .banned = strange, .banned_count = 3};
    qn_rules_apply(&rules, logits, 5, out);
    assert_memory_equal(logits, out, sizeof out);
    qn_token_counts_free(counts);
}

static void what_is_off_changes_nothing(void **state)
{
    (void)state;
    qn_error err;
    qn_token_counts *counts;
    const int32_t tokens[1] = {0};
    qn_sampling s = qn_sampling_greedy();
    assert_int_equal(qn_token_counts_new(tokens, 1, &counts, &err), QN_OK);
    qn_rules rules = {.sampling = &s, .counts = counts, .ahead = tokens, .ahead_count = 1};
    assert_false(qn_rules_change_anything(&rules));
    s.presence_penalty = 1.0F;
    assert_true(qn_rules_change_anything(&rules));
    rules.ahead_count = 0, rules.counts = NULL;
    assert_false(qn_rules_change_anything(&rules));
    rules.ahead_count = 1; /* the answer's first tokens are all drafts */
    float logits[1] = {3.0F}, out[1];
    qn_rules_apply(&rules, logits, 1, out);
    assert_true(out[0] == 2.0F);
    qn_token_counts_free(counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_the_plain_formula), cmocka_unit_test(drafts_ahead_weigh_as_the_answer_will),
        cmocka_unit_test(huge_logits_stay_finite),      cmocka_unit_test(ids_outside_of_the_vocabulary_change_nothing),
        cmocka_unit_test(what_is_off_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
