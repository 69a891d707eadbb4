#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "synth/files.h"

static qn_catalogue *catalogue_of(const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    qn_error err;
    qn_config config;
    qn_catalogue *catalogue = NULL;
    assert_int_equal(qn_file_read(path, 1 << 20, &text, &bytes, &err), QN_OK);
    assert_int_equal(qn_config_parse(text, bytes, path, &config, &err), QN_OK);
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_OK);
    qn_free(text);
    return catalogue;
}

/* Every tensor in one file, in order; no file above the limit that has more than one, and none that its successor's
 * first tensor would have fitted into. */
static void check_files(const qn_synth_files *files, uint64_t limit)
{
    assert_int_equal(files->first[0], 0);
    assert_int_equal(files->first[files->count], qn_catalogue_count(files->catalogue));
    uint64_t total = 0;
    for (size_t f = 0; f < files->count; f++) {
        uint64_t bytes = 0;
        assert_true(files->first[f] < files->first[f + 1]);
        for (size_t i = files->first[f]; i < files->first[f + 1]; i++)
            bytes += qn_synth_bytes(files, qn_catalogue_at(files->catalogue, i));
        assert_true(bytes <= limit || files->first[f + 1] - files->first[f] == 1);
        if (f + 1 < files->count)
            assert_true(bytes + qn_synth_bytes(files, qn_catalogue_at(files->catalogue, files->first[f + 1])) > limit);
        total += bytes;
    }
    assert_true(total == files->bytes);
}

static void test_files_are_filled_in_order(void **state)
{
    (void)state;
    qn_catalogue *catalogue = catalogue_of("tests/data/glm-5.3/config.json");
    static const uint64_t limits[] = {UINT64_C(5000000000), 1000000000, 12345, UINT64_MAX};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        for (int mxfp4 = 0; mxfp4 < 2; mxfp4++) {
            qn_synth_files files;
            qn_error err;
            qn_status status = qn_synth_files_plan(catalogue, mxfp4, limits[i], &files, &err);
            if (limits[i] == 12345) { /* a file for each tensor */
                assert_int_equal(status, QN_USAGE);
                assert_string_equal(err.field, "max-shard-size");
                continue;
            }
            assert_int_equal(status, QN_OK);
            check_files(&files, limits[i]);
            const uint64_t experts = UINT64_C(76) * 256 * 3 * 2048 * 6144, others = 753329921024 - experts;
            assert_true(files.bytes == 2 * others + (mxfp4 ? experts * 17 / 32 : 2 * experts) + 4 * 19456);
            qn_synth_files_free(&files);
        }
    }
    qn_catalogue_free(catalogue);
}

static void test_names_of_files_and_parts(void **state)
{
    (void)state;
    qn_catalogue *catalogue = catalogue_of("tests/data/oracle/tiny-sparse/config.json");
    qn_synth_files files;
    qn_error err;
    char name[QN_SYNTH_FILE_NAME_BYTES];
    assert_int_equal(qn_synth_files_plan(catalogue, true, UINT64_MAX, &files, &err), QN_OK);
    assert_string_equal(qn_synth_file_name(&files, 0, name), "model.safetensors");
    qn_synth_part parts[QN_SYNTH_MAX_PARTS];
    const qn_catalogue_tensor *down = qn_catalogue_find(catalogue, "model.layers.3.mlp.experts.1.down_proj.weight");
    assert_int_equal(qn_synth_parts(&files, down, parts), 2);
    assert_string_equal(parts[0].name, "model.layers.3.mlp.experts.1.down_proj.weight_packed");
    assert_string_equal(parts[1].name, "model.layers.3.mlp.experts.1.down_proj.weight_scale");
    assert_true(parts[0].dtype == QN_DTYPE_U8 && parts[0].shape[1] == down->shape[1] / 2);
    assert_true(parts[1].dtype == QN_DTYPE_U8 && parts[1].shape[1] == down->shape[1] / 32);
    const qn_catalogue_tensor *bias = qn_catalogue_find(catalogue, "model.layers.3.mlp.gate.e_score_correction_bias");
    assert_int_equal(qn_synth_parts(&files, bias, parts), 1);
    assert_true(parts[0].dtype == QN_DTYPE_F32 && parts[0].dims == 1 && parts[0].shape[0] == bias->shape[0]);
    qn_synth_files_free(&files);

    assert_int_equal(qn_synth_files_plan(catalogue, false, 100000, &files, &err), QN_OK);
    char expected[QN_SYNTH_FILE_NAME_BYTES];
    snprintf(expected, sizeof expected, "model-00002-of-%05zu.safetensors", files.count);
    assert_string_equal(qn_synth_file_name(&files, 1, name), expected);
    assert_int_equal(qn_synth_parts(&files, down, parts), 1);
    qn_synth_files_free(&files);
    qn_catalogue_free(catalogue);
}

static void test_inputs_that_are_no_blocks(void **state)
{
    (void)state;
    qn_config config = {.vocab_size = 64,
                        .hidden_size = 64,
                        .moe_intermediate_size = 48,
                        .intermediate_size = 64,
                        .num_hidden_layers = 1,
                        .num_attention_heads = 1,
                        .q_lora_rank = 8,
                        .kv_lora_rank = 8,
                        .qk_nope_head_dim = 8,
                        .qk_rope_head_dim = 8,
                        .v_head_dim = 8,
                        .index_n_heads = 1,
                        .index_head_dim = 8,
                        .n_routed_experts = 2,
                        .n_shared_experts = 1,
                        .layer_is_sparse = {true},
                        .layer_has_indexer = {true}};
    qn_catalogue *catalogue = NULL;
    qn_synth_files files;
    qn_error err;
    assert_int_equal(qn_catalogue_new(&config, &catalogue, &err), QN_OK);
    assert_int_equal(qn_synth_files_plan(catalogue, true, UINT64_MAX, &files, &err), QN_USAGE);
    assert_non_null(strstr(err.message, "experts.0.down_proj.weight has 48 inputs"));
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_synth_files_plan(catalogue, false, UINT64_MAX, &files, &err), QN_RESOURCE);
    qn_fault_disarm();
    qn_catalogue_free(catalogue);
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_filled_in_order),
        cmocka_unit_test(test_names_of_files_and_parts),
        cmocka_unit_test(test_inputs_that_are_no_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
