#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "fixture.h"
#include "log_lines.h"

static qn_status open_and_take(const char *dir, qn_error *err)
{
    qn_checkpoint *checkpoint = NULL;
    qn_status status = qn_checkpoint_open(dir, &checkpoint, err);
    if (status == QN_OK)
        status = fixture_take_all(checkpoint, err);
    else
        assert_null(checkpoint);
    qn_checkpoint_close(checkpoint);
    return status;
}

/* The folder is refused with a message that has the text in it. */
static void expect_refused(const char *dir, const char *message)
{
    qn_error err = {.message = "accepted"};
    qn_status status = open_and_take(dir, &err);
    if (status != QN_BAD_INPUT || !strstr(err.message, message))
        fail_msg("status %d: %s, not \"%s\"", status, err.message, message);
}

static void test_every_reference_checkpoint(void **state)
{
    (void)state;
    static const char *const names[] = {
        "tests/data/oracle/tiny-dense",
        "tests/data/oracle/tiny-sparse",
        "tests/data/oracle/tiny-grouped",
        "tests/data/oracle/tiny-mtp",
        "tests/data/oracle/tiny-sharded",
        "tests/data/oracle/tiny-long",
        "tests/data/oracle/tiny-sparse-mxfp4-ct",
        "tests/data/oracle/tiny-sparse-mxfp4-fused",
        "tests/data/oracle/tiny-sparse-mxfp4-quark",
        "models/quern-tiny",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        qn_error err;
        log_lines_start();
        if (open_and_take(names[i], &err) != QN_OK)
            fail_msg("%s", err.message);
        assert_int_equal(log_lines_stop(), 0);
    }
    qn_checkpoint_close(NULL);
}

static void test_lists_tensors_by_file_and_offset(void **state)
{
    (void)state;
    qn_checkpoint *c = NULL;
    qn_error err;
    assert_int_equal(qn_checkpoint_open("tests/data/oracle/tiny-sharded", &c, &err), QN_OK);
    assert_string_equal(qn_checkpoint_dir(c), "tests/data/oracle/tiny-sharded");
    const char *before = "";
    const uint8_t *end = NULL;
    for (size_t i = 0; i < qn_checkpoint_tensor_count(c); i++) {
        const char *file;
        const qn_tensor *t = qn_checkpoint_tensor(c, i, &file);
        int order = strcmp(before, file);
        assert_true(order <= 0);
        if (order == 0)
            assert_ptr_equal(t->data, end);
        before = file;
        end = t->data + t->bytes;
    }
    assert_string_equal(before, "model-00003-of-00003.safetensors");
    assert_true(qn_checkpoint_has(c, "model.norm.weight"));
    assert_false(qn_checkpoint_has(c, "model.norm.bias"));
    qn_checkpoint_close(c);
}

static void test_takes_each_kind(void **state)
{
    (void)state;
    qn_checkpoint *c = NULL;
    qn_error err;
    qn_matrix m;
    float *v = NULL;
    assert_int_equal(qn_checkpoint_open("tests/data/oracle/tiny-sparse-mxfp4-quark", &c, &err), QN_OK);
    assert_int_equal(qn_checkpoint_take_matrix(c, "lm_head.weight", 512, 96, &m, &err), QN_OK);
    assert_true(m.dtype == QN_DTYPE_BF16 && m.rows == 512 && m.cols == 96 && !m.scales);
    assert_int_equal(qn_checkpoint_take_vector(c, "model.layers.3.mlp.gate.e_score_correction_bias", 16, &v, &err),
                     QN_OK);
    assert_true(v[0] != 0 && v[0] < 1 && v[0] > -1);
    qn_free(v);
    assert_int_equal(qn_checkpoint_take_matrix(c, "lm_head.weight", 96, 512, &m, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "tiny-sparse-mxfp4-quark/model.safetensors: tensor lm_head.weight: is BF16 "
                                        "[512, 96], expected BF16, F16 or F32 [96, 512]: use the config.json"));
    assert_int_equal(qn_checkpoint_take_matrix(c, "model.norm.weight", 96, 1, &m, &err), QN_BAD_INPUT);
    assert_int_equal(qn_checkpoint_take_vector(c, "lm_head.weight", 512, &v, &err), QN_BAD_INPUT);
    assert_int_equal(qn_checkpoint_take_matrix(c, "lm_tail.weight", 1, 2, &m, &err), QN_BAD_INPUT);
    assert_string_equal(err.message, "tests/data/oracle/tiny-sparse-mxfp4-quark: tensor lm_tail.weight: is missing "
                                     "(expected BF16, F16 or F32 [1, 2]): fetch the checkpoint again");
    /* a quantised weight outside of the experts would be taken by this call */
    assert_int_equal(qn_checkpoint_take_matrix(c, "model.layers.3.mlp.experts.0.gate_proj.weight", 32, 48, &m, &err),
                     QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "quern takes MXFP4 for routed experts only"));
    assert_int_equal(qn_checkpoint_finish(c, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "has no place in the model of config.json (nor "));
    qn_checkpoint_close(c);

    assert_int_equal(qn_checkpoint_open("tests/data/oracle/tiny-sparse-mxfp4-ct", &c, &err), QN_OK);
    assert_int_equal(qn_checkpoint_take_matrix(c, "model.layers.3.mlp.experts.0.gate_proj.weight", 32, 96, &m, &err),
                     QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "experts.0.gate_proj.weight_packed: is quantised, and quern takes MXFP4 for"));
    qn_checkpoint_close(c);
}

static void test_what_is_no_checkpoint(void **state)
{
    (void)state;
    char path[512];
    expect_refused("tests/data/none", "tests/data/none: no such folder: check the path (nothing is downloaded");
    expect_refused("", "config.json: no such file");
    expect_refused("tests/data/oracle/README.md", "README.md: is not a folder");
    expect_refused("tests/data/oracle", "tests/data/oracle/config.json: no such file");

    fixture f;
    fixture_copy(&f, "tiny-dense");
    fixture_path(&f, "model.safetensors", path);
    assert_int_equal(unlink(path), 0);
    expect_refused(f.dir, "has neither model.safetensors nor model.safetensors.index.json");
    assert_int_equal(symlink("model.safetensors", path), 0);
    expect_refused(f.dir, "model.safetensors: cannot open (Too many levels of symbolic links)");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("gone", path), 0);
    expect_refused(f.dir, "model.safetensors: no such file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    expect_refused(f.dir, "model.safetensors: is a folder");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    expect_refused(f.dir, "model.safetensors: is a device or pipe");
    assert_int_equal(unlink(path), 0);
    fixture_write(&f, "model.safetensors", "", 0);
    expect_refused(f.dir, "model.safetensors: has 0 bytes, too few");
    fixture_write(&f, "config.json", "", 0);
    expect_refused(f.dir, "config.json: invalid JSON");
    fixture_path(&f, "config.json", path);
    assert_int_equal(truncate(path, 17 << 20), 0);
    expect_refused(f.dir, "config.json: is larger than the 16777216 bytes");
    fixture_remove(&f);
}

/* Edits of a header or a document: sets or (value NULL) removes a member of an object, or renames it. */
typedef struct change {
    const char *object, *member, *value, *rename;
} change;

static void apply(json_t *root, const void *context)
{
    const change *c = context;
    json_t *object = c->object ? json_object_get(root, c->object) : root;
    assert_non_null(object);
    if (c->rename) {
        json_t *moved = json_incref(json_object_get(object, c->member));
        assert_non_null(moved);
        json_object_del(object, c->member);
        json_object_set_new(object, c->rename, moved);
    } else if (c->value) {
        json_object_set_new(object, c->member, json_loads(c->value, JSON_DECODE_ANY, NULL));
    } else {
        assert_int_equal(json_object_del(object, c->member), 0);
    }
}

static void test_each_bad_tensor(void **state)
{
    (void)state;
    static const struct {
        change change;
        const char *message;
    } rows[] = {
        {{"model.norm.weight", "dtype", "\"F16\"", NULL}, NULL}, /* F16 is fine, whatever it says */
        {{"model.norm.weight", "shape", "[48, 2]", NULL},
         "tensor model.norm.weight: is BF16 [48, 2], expected BF16, F16 or F32 [96]"},
        {{"model.norm.weight", "dtype", "\"U8\"", NULL}, "tensor model.norm.weight: its shape and dtype need 96 bytes"},
        {{"model.norm.weight", "dtype", "\"F8_E4M3\"", NULL}, "its dtype is F8_E4M3"},
        {{"lm_head.weight", "shape", "[96, 512]", NULL}, "tensor lm_head.weight: is BF16 [96, 512], expected"},
        {{"lm_head.weight", "data_offsets", "[0, 98304]", NULL}, "inside the tensor that ends"},
        {{NULL, "lm_head.weight", NULL, "lm_tail.weight"}, "tensor lm_head.weight: is missing"},
        {{NULL, "model.layers.3.mlp.experts.0.up_proj.weight", NULL, "model.layers.3.mlp.experts.16.up_proj.weight"},
         "tensor model.layers.3.mlp.experts.0.up_proj.weight: is missing (expected BF16, F16 or F32 [32, 96])"},
        {{NULL, "__metadata__", "{\"format\":1}", NULL}, "damaged at byte"},
        {{NULL, "model.layers.9.extra", "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}", NULL},
         "tensor model.layers.9.extra: is F32 [0] and has no place in the model of config.json: use"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        fixture_copy(&f, "tiny-dense");
        fixture_edit_header(&f, "model.safetensors", apply, &rows[i].change);
        qn_error err;
        if (rows[i].message)
            expect_refused(f.dir, rows[i].message);
        else
            assert_int_equal(open_and_take(f.dir, &err), QN_OK);
        fixture_remove(&f);
    }
}

static void test_values_that_are_no_numbers(void **state)
{
    (void)state;
    static const uint8_t nan_bf16[] = {0xC0, 0x7F}, infinity_f32[] = {0, 0, 0x80, 0xFF};
    fixture f;
    fixture_copy(&f, "tiny-dense");
    fixture_patch_tensor(&f, "model.safetensors", "model.layers.1.mlp.gate.e_score_correction_bias", 4 * 7,
                         infinity_f32, 4);
    expect_refused(f.dir, "tensor model.layers.1.mlp.gate.e_score_correction_bias: its value at index 7 is not a "
                          "finite number");
    fixture_patch_tensor(&f, "model.safetensors", "model.layers.0.input_layernorm.weight", 2 * 95, nan_bf16, 2);
    expect_refused(f.dir, "tensor model.layers.0.input_layernorm.weight: its value at index 95 is not a finite");
    fixture_remove(&f);
}

static const char INDEX[] = "model.safetensors.index.json";

static void test_each_bad_index(void **state)
{
    (void)state;
    static const struct {
        change change;
        const char *message;
    } rows[] = {
        {{NULL, "metadata", NULL, NULL}, NULL},
        {{"metadata", "total_size", NULL, NULL}, NULL},
        {{"metadata", "total_size", "5042944", NULL}, "metadata.total_size is 5042944, and the tensors have"},
        {{"metadata", "total_size", "\"5\"", NULL}, "metadata.total_size is not a whole number"},
        {{"metadata", "total_size", "-1", NULL}, "metadata.total_size is not a whole number"},
        {{"metadata", "total_size", "1.5", NULL}, "metadata.total_size is not a whole number"},
        {{"metadata", "total_size", "1e300", NULL}, "metadata.total_size is not a whole number"},
        {{NULL, "weight_map", NULL, NULL}, "has no weight_map"},
        {{NULL, "weight_map", "[]", NULL}, "has no weight_map"},
        {{NULL, "weight_map", "{}", NULL}, "has no weight_map"},
        {{"weight_map", "lm_head.weight", NULL, NULL}, "tensor lm_head.weight: the index does not list it"},
        {{"weight_map", "lm_head.weight", "\"model-00001-of-00003.safetensors\"", NULL},
         "model-00003-of-00003.safetensors: tensor lm_head.weight: the index places it in model-00001-of-00003"},
        {{"weight_map", "extra.weight", "\"model-00001-of-00003.safetensors\"", NULL},
         "model-00001-of-00003.safetensors: tensor extra.weight: is missing, though the index places it there"},
        {{"weight_map", "lm_head.weight", "\"model-00004-of-00003.safetensors\"", NULL},
         "model-00004-of-00003.safetensors: is missing, though the index names it"},
        {{"weight_map", "lm_head.weight", "\"../model-00003-of-00003.safetensors\"", NULL}, "not the plain name"},
        {{"weight_map", "lm_head.weight", "\"/etc/x.safetensors\"", NULL}, "its file is /etc/x.safetensors, not the"},
        {{"weight_map", "lm_head.weight", "\"a\\\\b.safetensors\"", NULL}, "not the plain name"},
        {{"weight_map", "lm_head.weight", "\"a\\nb.safetensors\"", NULL}, "its file is a\\x0ab.safetensors, not"},
        {{"weight_map", "lm_head.weight", "\"pytorch_model.bin\"", NULL}, "not the plain name of a .safetensors file"},
        {{"weight_map", "lm_head.weight", "\".safetensors\"", NULL}, "not the plain name"},
        {{"weight_map", "lm_head.weight", "\"\"", NULL}, "not the plain name"},
        {{"weight_map", "lm_head.weight", "3", NULL}, "its file is no string, not the plain name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture f;
        fixture_copy(&f, "tiny-sharded");
        fixture_edit_json(&f, INDEX, apply, &rows[i].change);
        qn_error err;
        if (rows[i].message)
            expect_refused(f.dir, rows[i].message);
        else if (open_and_take(f.dir, &err) != QN_OK)
            fail_msg("%s", err.message);
        fixture_remove(&f);
    }
}

static void test_shards_that_are_wrong(void **state)
{
    (void)state;
    fixture f;
    char path[512];
    fixture_copy(&f, "tiny-sharded");
    size_t bytes = fixture_size(&f, "model-00002-of-00003.safetensors");
    fixture_truncate(&f, "model-00002-of-00003.safetensors", bytes - 1);
    expect_refused(f.dir, "model-00002-of-00003.safetensors: tensor ");
    fixture_remove(&f);

    fixture_copy(&f, "tiny-sharded");
    fixture_path(&f, "model-00002-of-00003.safetensors", path);
    assert_int_equal(unlink(path), 0);
    expect_refused(f.dir, "model-00002-of-00003.safetensors: is missing, though the index names it");
    fixture_remove(&f);

    fixture_copy(&f, "tiny-sharded");
    fixture_write(&f, "model.safetensors", "", 0);
    expect_refused(f.dir, "has both model.safetensors and model.safetensors.index.json");
    fixture_remove(&f);

    /* one tensor in two shards */
    static const change second = {NULL, "model.layers.0.empty",
                                  "{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":"
                                  "[0,0]}",
                                  NULL};
    static const change listed = {"weight_map", "model.layers.0.empty", "\"model-00001-of-00003.safetensors\"", NULL};
    fixture_copy(&f, "tiny-sharded");
    fixture_edit_header(&f, "model-00001-of-00003.safetensors", apply, &second);
    fixture_edit_header(&f, "model-00002-of-00003.safetensors", apply, &second);
    fixture_edit_json(&f, INDEX, apply, &listed);
    expect_refused(f.dir, "model-00002-of-00003.safetensors: tensor model.layers.0.empty: the index places it in");
    fixture_remove(&f);
}

static void test_strays_get_a_line(void **state)
{
    (void)state;
    fixture f;
    qn_error err;
    fixture_copy(&f, "tiny-dense");
    fixture_write(&f, "model-00002-of-00003.safetensors", "x", 1);
    log_lines_start();
    assert_int_equal(open_and_take(f.dir, &err), QN_OK);
    assert_int_equal(log_lines_stop(), 1);
    assert_non_null(strstr(log_lines_text(), "/model-00002-of-00003.safetensors: is not part of the checkpoint"));
    fixture_remove(&f);
}

static void walk_faults(const char *dir, qn_fault_kind kind)
{
    qn_status status = QN_RESOURCE;
    long nth = 0;
    while (status != QN_OK) {
        qn_error err = {.status = QN_OK};
        qn_fault_arm(kind, ++nth);
        status = open_and_take(dir, &err);
        qn_fault_disarm();
        if (status != QN_OK && status != QN_RESOURCE)
            fail_msg("failing call %ld: status %d: %s", nth, status, err.message);
    }
    assert_true(nth > 5);
}

static void test_each_failing_call(void **state)
{
    (void)state;
    static const char *const dirs[] = {"tests/data/oracle/tiny-dense", "tests/data/oracle/tiny-sharded",
                                       "tests/data/oracle/tiny-sparse-mxfp4-ct"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        walk_faults(dirs[i], QN_FAULT_READ);
        walk_faults(dirs[i], QN_FAULT_ALLOC);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_reference_checkpoint),
        cmocka_unit_test(test_lists_tensors_by_file_and_offset),
        cmocka_unit_test(test_takes_each_kind),
        cmocka_unit_test(test_what_is_no_checkpoint),
        cmocka_unit_test(test_each_bad_tensor),
        cmocka_unit_test(test_values_that_are_no_numbers),
        cmocka_unit_test(test_each_bad_index),
        cmocka_unit_test(test_shards_that_are_wrong),
        cmocka_unit_test(test_strays_get_a_line),
        cmocka_unit_test(test_each_failing_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
