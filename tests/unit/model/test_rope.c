/* Frequencies against transformers', bit for bit; rotations against complex multiplication. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "model/rope.h"

static double number_or(json_t *object, const char *name, double otherwise)
{
    json_t *value = json_object_get(object, name);
    return value ? json_number_value(value) : otherwise;
}

/* As config_rope.c fills it. */
static qn_config config_of(json_t *entry)
{
    json_t *p = json_object_get(entry, "rope_parameters");
    json_t *truncate = json_object_get(p, "truncate");
    qn_config config = {.qk_nope_head_dim = (size_t)number_or(entry, "qk_nope_head_dim", 0),
                        .qk_rope_head_dim = (size_t)number_or(entry, "qk_rope_head_dim", 0)};
    config.rope = (qn_rope_parameters){
        .rope_type = strcmp(json_string_value(json_object_get(p, "rope_type")), "yarn") == 0 ? QN_ROPE_YARN
                                                                                             : QN_ROPE_DEFAULT,
        .rope_theta = number_or(p, "rope_theta", 0),
        .factor = number_or(p, "factor", 0),
        .beta_fast = number_or(p, "beta_fast", 32),
        .beta_slow = number_or(p, "beta_slow", 1),
        .attention_factor = number_or(p, "attention_factor", -1),
        .mscale = number_or(p, "mscale", 0),
        .mscale_all_dim = number_or(p, "mscale_all_dim", 0),
        .original_max_position_embeddings = (size_t)number_or(p, "original_max_position_embeddings", 0),
        .truncate = !json_is_false(truncate)};
    return config;
}

static void test_parameters_as_transformers_computes_them(void **state)
{
    (void)state;
    json_t *table;
    qn_error err;
    assert_int_equal(qn_json_parse_file("tests/data/yarn/rope.json", 1 << 20, &table, &err), QN_OK);
    assert_true(json_array_size(table) >= 10);
    for (size_t i = 0; i < json_array_size(table); i++) {
        json_t *entry = json_array_get(table, i), *frequencies = json_object_get(entry, "inv_freq");
        qn_config config = config_of(entry);
        qn_rope rope;
        assert_int_equal(qn_rope_make(&config, &rope, &err), QN_OK);
        assert_int_equal(rope.pairs, json_array_size(frequencies));
        for (size_t pair = 0; pair < rope.pairs; pair++)
            if (rope.inv_freq[pair] != (float)json_number_value(json_array_get(frequencies, pair)))
                fail_msg("entry %zu, pair %zu: %.9g instead of %.9g", i, pair, (double)rope.inv_freq[pair],
                         json_number_value(json_array_get(frequencies, pair)));
        assert_true(rope.attention_factor == (float)number_or(entry, "attention_factor", 0));
        assert_true(rope.softmax_scale == (float)number_or(entry, "softmax_scale", 0));
    }
    json_decref(table);
}

static void test_default_frequencies_of_the_oracle(void **state)
{
    (void)state;
    qn_safetensors *file;
    qn_error err;
    qn_rope rope;
    qn_config config = {.qk_nope_head_dim = 64, .qk_rope_head_dim = 32};
    config.rope = (qn_rope_parameters){.rope_type = QN_ROPE_DEFAULT, .rope_theta = 8000000};
    assert_int_equal(qn_safetensors_open("tests/data/oracle/tiny-dense/golden-7.safetensors", &file, &err), QN_OK);
    const qn_tensor *golden = qn_safetensors_find(file, "rope_inv_freq");
    assert_non_null(golden);
    assert_int_equal(qn_rope_make(&config, &rope, &err), QN_OK);
    assert_int_equal(golden->bytes, rope.pairs * sizeof(float));
    assert_memory_equal(golden->data, rope.inv_freq, golden->bytes);
    qn_safetensors_close(file);
}

static void test_rotates_pairs_in_place(void **state)
{
    (void)state;
    qn_error err;
    qn_rope rope;
    qn_config config = {.qk_nope_head_dim = 8, .qk_rope_head_dim = 8};
    config.rope = (qn_rope_parameters){.rope_type = QN_ROPE_DEFAULT, .rope_theta = 10000};
    assert_int_equal(qn_rope_make(&config, &rope, &err), QN_OK);
    float cosines[4], sines[4], x[8] = {1, 2, -3, 4, 0.5f, -0.25f, 7, 0};
    const float before[8] = {1, 2, -3, 4, 0.5f, -0.25f, 7, 0};
    qn_rope_angles(&rope, 131071, cosines, sines);
    qn_rope_rotate(x, cosines, sines, rope.pairs);
    for (size_t i = 0; i < 4; i++) {
        double angle = (double)(131071.0f * rope.inv_freq[i]);
        assert_true(fabs(before[2 * i] * cos(angle) - before[2 * i + 1] * sin(angle) - x[2 * i]) < 1e-6);
        assert_true(fabs(before[2 * i + 1] * cos(angle) + before[2 * i] * sin(angle) - x[2 * i + 1]) < 1e-6);
    }
    qn_rope_angles(&rope, 0, cosines, sines);
    for (size_t i = 0; i < 4; i++)
        assert_true(cosines[i] == 1.0f && sines[i] == 0.0f);
}

static void test_refuses_what_is_not_finite(void **state)
{
    (void)state;
    qn_error err;
    qn_rope rope;
    qn_config config = {.qk_nope_head_dim = 8, .qk_rope_head_dim = 8};
    config.rope = (qn_rope_parameters){.rope_type = QN_ROPE_DEFAULT, .rope_theta = NAN};
    assert_int_equal(qn_rope_make(&config, &rope, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "rope_parameters"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_as_transformers_computes_them),
        cmocka_unit_test(test_default_frequencies_of_the_oracle),
        cmocka_unit_test(test_rotates_pairs_in_place),
        cmocka_unit_test(test_refuses_what_is_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
