#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/fault.h"
#include "checkpoint/safetensors.h"
#include "scratch_folder.h"
#include "synth/weights.h"

/* Tensors of more than one piece, of odd sizes, and a row larger than a piece. */
static qn_config odd_config(void)
{
    return (qn_config){.vocab_size = 40003,
                       .hidden_size = 5,
                       .moe_intermediate_size = 33,
                       .intermediate_size = 3001,
                       .num_hidden_layers = 1,
                       .num_attention_heads = 1,
                       .q_lora_rank = 7,
                       .kv_lora_rank = 1,
                       .qk_nope_head_dim = 5,
                       .qk_rope_head_dim = 2,
                       .v_head_dim = 600005,
                       .index_n_heads = 3,
                       .index_head_dim = 11,
                       .n_routed_experts = 3,
                       .n_shared_experts = 1,
                       .tie_word_embeddings = true,
                       .layer_is_sparse = {true},
                       .layer_has_indexer = {true}};
}

static const qn_kernels *kernels;

typedef struct setup {
    char dir[SCRATCH_PATH_BYTES];
    qn_catalogue *catalogue;
    qn_synth_files files;
    qn_values *values;
} setup;

static setup open_setup(qn_config config, uint64_t max_bytes)
{
    setup s = {0};
    qn_error err;
    scratch_make(s.dir);
    assert_int_equal(qn_catalogue_new(&config, &s.catalogue, &err), QN_OK);
    assert_int_equal(qn_synth_files_plan(s.catalogue, false, max_bytes, &s.files, &err), QN_OK);
    assert_int_equal(qn_values_new(1, &s.values, &err), QN_OK);
    return s;
}

static void close_setup(setup *s)
{
    scratch_remove(s->dir);
    qn_synth_files_free(&s->files);
    qn_catalogue_free(s->catalogue);
    qn_values_free(s->values);
}

static qn_status write_to(const setup *s, qn_pool *pool, const atomic_bool *stop, qn_error *err)
{
    const qn_synth_weights weights = {
        .files = &s->files, .values = s->values, .kernels = kernels, .dir = s->dir, .stop = stop};
    return qn_synth_weights_write(&weights, pool, err);
}

static qn_status write_with(const setup *s, size_t threads, qn_error *err)
{
    qn_pool *pool = NULL;
    assert_int_equal(qn_pool_new(threads, &pool, err), QN_OK);
    qn_status status = write_to(s, pool, NULL, err);
    qn_pool_free(pool);
    return status;
}

static void test_bytes_do_not_depend_on_threads(void **state)
{
    (void)state;
    uint64_t hash = 0;
    static const size_t threads[] = {1, 3};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        setup s = open_setup(odd_config(), 1000000);
        qn_error err;
        assert_int_equal(write_with(&s, threads[i], &err), QN_OK);
        assert_int_equal(scratch_entries(s.dir), s.files.count);
        if (i == 0)
            hash = scratch_hash(s.dir);
        assert_true(scratch_hash(s.dir) == hash);
        close_setup(&s);
    }
}

static void check_matrix(const setup *s, const qn_catalogue_tensor *tensor, const qn_tensor *written)
{
    static float columns[600005], row[600005]; /* v_head_dim */
    assert_true(tensor->shape[1] <= sizeof row / sizeof *row);
    qn_values_columns(s->values, tensor, columns);
    for (size_t r = 0; r < tensor->shape[0]; r += 17) {
        qn_values_row(s->values, tensor, r, columns, row);
        for (size_t c = 0; c < tensor->shape[1]; c++) {
            uint16_t bits;
            memcpy(&bits, written->data + (r * tensor->shape[1] + c) * 2, sizeof bits);
            assert_int_equal(bits, qn_f32_to_bf16(row[c]));
        }
    }
}

static void check_vector(const setup *s, const qn_catalogue_tensor *tensor, const qn_tensor *written)
{
    for (size_t i = 0; i < tensor->shape[0]; i++) {
        float value, found;
        uint16_t bits;
        qn_values_vector(s->values, tensor, i, 1, &value);
        if (tensor->dtype == QN_DTYPE_F32) {
            memcpy(&found, written->data + 4 * i, sizeof found);
            assert_true(found == value);
        } else {
            memcpy(&bits, written->data + 2 * i, sizeof bits);
            assert_int_equal(bits, qn_f32_to_bf16(value));
        }
    }
}

static void test_each_tensor_has_its_values(void **state)
{
    (void)state;
    setup s = open_setup(odd_config(), UINT64_MAX);
    qn_error err;
    char path[SCRATCH_PATH_BYTES];
    qn_safetensors *file = NULL;
    assert_int_equal(write_with(&s, 2, &err), QN_OK);
    scratch_path(s.dir, "model.safetensors", path);
    assert_int_equal(qn_safetensors_open(path, &file, &err), QN_OK);
    assert_int_equal(qn_safetensors_count(file), qn_catalogue_count(s.catalogue));
    for (size_t i = 0; i < qn_catalogue_count(s.catalogue); i++) {
        const qn_catalogue_tensor *tensor = qn_catalogue_at(s.catalogue, i);
        const qn_tensor *written = qn_safetensors_at(file, i);
        assert_string_equal(written->name, tensor->name);
        assert_int_equal(written->dtype, tensor->dtype);
        if (tensor->dims == 2)
            check_matrix(&s, tensor, written);
        else
            check_vector(&s, tensor, written);
    }
    qn_safetensors_close(file);
    close_setup(&s);
}

static void test_each_failure_leaves_only_whole_files(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_WRITE};
    qn_config config = odd_config();
    config.v_head_dim = 11;
    config.vocab_size = 1003;
    for (size_t k = 0; k < 2; k++) {
        bool reached = true;
        for (long nth = 1; reached; nth = nth < 12 ? nth + 1 : nth * 3 / 2) {
            setup s = open_setup(config, 30000);
            qn_error err;
            qn_pool *pool = NULL;
            assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
            qn_fault_arm(kinds[k], nth);
            qn_status status = write_to(&s, pool, NULL, &err);
            reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            size_t there = scratch_entries(s.dir);
            if (status == QN_OK) /* syncing a folder may fail without harm */
                assert_int_equal(there, s.files.count);
            else
                assert_true(status == QN_RESOURCE && reached);
            for (size_t f = 0; f < there; f++) {
                char name[QN_SYNTH_FILE_NAME_BYTES], path[SCRATCH_PATH_BYTES];
                qn_safetensors *file = NULL;
                scratch_path(s.dir, qn_synth_file_name(&s.files, f, name), path);
                assert_int_equal(qn_safetensors_open(path, &file, &err), QN_OK);
                qn_safetensors_close(file);
            }
            qn_pool_free(pool);
            close_setup(&s);
        }
    }
}

static void test_stops_when_asked(void **state)
{
    (void)state;
    setup s = open_setup(odd_config(), UINT64_MAX);
    const atomic_bool stop = true;
    qn_error err;
    qn_pool *pool = NULL;
    assert_int_equal(qn_pool_new(2, &pool, &err), QN_OK);
    assert_int_equal(write_to(&s, pool, &stop, &err), QN_CANCELLED);
    assert_int_equal(scratch_entries(s.dir), 0);
    qn_pool_free(pool);
    close_setup(&s);
}

int main(void)
{
    qn_error err;
    if (qn_kernels_from_environment(&kernels, &err) != QN_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_do_not_depend_on_threads),
        cmocka_unit_test(test_each_tensor_has_its_values),
        cmocka_unit_test(test_each_failure_leaves_only_whole_files),
        cmocka_unit_test(test_stops_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
