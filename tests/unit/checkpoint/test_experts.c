/* The five layouts of routed experts, each against the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/checkpoint.h"
#include "fixture.h"

enum { EXPERTS = 16, HIDDEN = 96, INNER = 32 };
static const char PREFIX[] = "model.layers.3.mlp.experts";

typedef struct taken {
    qn_checkpoint *checkpoint;
    qn_matrix gate[EXPERTS], up[EXPERTS], down[EXPERTS];
    qn_error err;
    qn_status status;
} taken;

static void take(const char *dir, const char *prefix, taken *out)
{
    out->checkpoint = NULL;
    out->status = qn_checkpoint_open(dir, &out->checkpoint, &out->err);
    if (out->status == QN_OK)
        out->status = qn_checkpoint_take_experts(out->checkpoint, prefix, out->gate, out->up, out->down, &out->err);
}

static void assert_same_rows(const qn_matrix *a, const qn_matrix *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    for (size_t row = 0; row < a->rows; row++) {
        float x[HIDDEN], y[HIDDEN];
        qn_matrix_row_to_f32(a, row, x);
        qn_matrix_row_to_f32(b, row, y);
        assert_memory_equal(x, y, a->cols * sizeof *x);
    }
}

static void test_mxfp4_layouts_hold_the_same_bits(void **state)
{
    (void)state;
    static const char *const dirs[] = {"tests/data/oracle/tiny-sparse-mxfp4-ct",
                                       "tests/data/oracle/tiny-sparse-mxfp4-fused",
                                       "tests/data/oracle/tiny-sparse-mxfp4-quark"};
    for (size_t layer = 3; layer <= 8; layer++) { /* the last is MTP's */
        static taken layouts[3];
        char prefix[64];
        snprintf(prefix, sizeof prefix, "model.layers.%zu.mlp.experts", layer);
        for (size_t i = 0; i < 3; i++) {
            take(dirs[i], prefix, &layouts[i]);
            assert_int_equal(layouts[i].status, QN_OK);
        }
        for (size_t e = 0; e < EXPERTS; e++) {
            const qn_matrix *first = &layouts[0].gate[e];
            assert_true(first->dtype == QN_DTYPE_MXFP4 && first->rows == INNER && first->cols == HIDDEN);
            assert_true(layouts[1].down[e].rows == HIDDEN && layouts[1].down[e].cols == INNER);
            for (size_t i = 1; i < 3; i++) {
                assert_same_rows(&layouts[i].gate[e], &layouts[0].gate[e]);
                assert_same_rows(&layouts[i].up[e], &layouts[0].up[e]);
                assert_same_rows(&layouts[i].down[e], &layouts[0].down[e]);
            }
        }
        for (size_t i = 0; i < 3; i++)
            qn_checkpoint_close(layouts[i].checkpoint);
    }
}

/* Writes model.safetensors with layer 3's experts fused, in a folder with tiny-sparse's config; all else is left out.
 */
static void write_fused(const fixture *f, const taken *plain)
{
    size_t matrix_bytes = 2 * HIDDEN * INNER, bytes = 0;
    char header[512];
    int length = snprintf(header, sizeof header,
                          "{\"%s.gate_up_proj\":{\"dtype\":\"BF16\",\"shape\":[16,64,96],\"data_offsets\":[0,%zu]},"
                          "\"%s.down_proj\":{\"dtype\":\"BF16\",\"shape\":[16,96,32],\"data_offsets\":[%zu,%zu]}}",
                          PREFIX, 2 * EXPERTS * matrix_bytes, PREFIX, 2 * EXPERTS * matrix_bytes,
                          3 * EXPERTS * matrix_bytes);
    uint64_t header_bytes = (uint64_t)length;
    uint8_t *file = qn_alloc(8 + header_bytes + 3 * EXPERTS * matrix_bytes, 1);
    assert_non_null(file);
    memcpy(file, &header_bytes, 8);
    memcpy(file + 8, header, header_bytes);
    bytes = 8 + header_bytes;
    for (size_t e = 0; e < EXPERTS; e++) {
        memcpy(file + bytes, plain->gate[e].data, matrix_bytes);
        memcpy(file + bytes + matrix_bytes, plain->up[e].data, matrix_bytes);
        bytes += 2 * matrix_bytes;
    }
    for (size_t e = 0; e < EXPERTS; e++) {
        memcpy(file + bytes, plain->down[e].data, matrix_bytes);
        bytes += matrix_bytes;
    }
    fixture_write(f, "model.safetensors", file, bytes);
    qn_free(file);
}

static void test_fused_experts_are_the_same(void **state)
{
    (void)state;
    static taken plain, fused;
    take("tests/data/oracle/tiny-sparse", PREFIX, &plain);
    assert_int_equal(plain.status, QN_OK);
    fixture f;
    fixture_copy(&f, "tiny-sparse");
    write_fused(&f, &plain);
    take(f.dir, PREFIX, &fused);
    if (fused.status != QN_OK)
        fail_msg("%s", fused.err.message);
    for (size_t e = 0; e < EXPERTS; e++) {
        assert_same_rows(&fused.gate[e], &plain.gate[e]);
        assert_same_rows(&fused.up[e], &plain.up[e]);
        assert_same_rows(&fused.down[e], &plain.down[e]);
    }
    assert_int_equal(qn_checkpoint_finish(fused.checkpoint, &fused.err), QN_OK);
    qn_checkpoint_close(fused.checkpoint);
    qn_checkpoint_close(plain.checkpoint);
    fixture_remove(&f);
}

typedef struct change {
    const char *checkpoint, *tensor;
    const char *rename;  /* new name, or NULL */
    const char *dtype;   /* and, if not NULL, new dtype ... */
    int shape[4];        /* ... and shape, up to a 0 */
    const char *quant;   /* new quantization_config, "null" for none, NULL: as it is */
    const char *message; /* expected; NULL: accepted */
} change;

static void edit_header(json_t *root, const void *context)
{
    const change *c = context;
    json_t *entry = json_incref(json_object_get(root, c->tensor));
    assert_non_null(entry);
    if (c->rename) {
        json_object_del(root, c->tensor);
        json_object_set(root, c->rename, entry);
    }
    if (c->dtype)
        json_object_set_new(entry, "dtype", json_string(c->dtype));
    if (c->shape[0]) {
        json_t *shape = json_array();
        for (size_t i = 0; i < 4 && c->shape[i]; i++)
            json_array_append_new(shape, json_integer(c->shape[i]));
        json_object_set_new(entry, "shape", shape);
    }
    json_decref(entry);
}

static void edit_config(json_t *root, const void *context)
{
    json_object_set_new(root, "quantization_config", json_loads(context, JSON_DECODE_ANY, NULL));
}

#define CT "tiny-sparse-mxfp4-ct"
#define FUSED "tiny-sparse-mxfp4-fused"
#define QUARK "tiny-sparse-mxfp4-quark"
#define E "model.layers.3.mlp.experts"

static void test_each_bad_expert(void **state)
{
    (void)state;
    static const change rows[] = {
        {CT,
         E ".0.gate_proj.weight_packed",
         "x",
         NULL,
         {0},
         NULL,
         ": tensor " E ".0.gate_proj.weight_packed: is missing (expected U8 [32, 48])"},
        {CT,
         E ".7.down_proj.weight_scale",
         "x",
         NULL,
         {0},
         NULL,
         ": tensor " E ".7.down_proj.weight_scale: is missing (expected U8 [96, 1])"},
        {CT, E ".7.down_proj.weight_packed", NULL, NULL, {48, 32}, NULL, "is U8 [48, 32], expected U8 [96, 16]"},
        {CT, E ".7.up_proj.weight_scale", NULL, NULL, {96}, NULL, "is U8 [96], expected U8 [32, 3]"},
        {CT, E ".7.up_proj.weight_packed", NULL, "BF16", {32, 24}, NULL, "is BF16 [32, 24], expected U8 [32, 48]"},
        {CT,
         E ".0.up_proj.weight_packed",
         NULL,
         NULL,
         {0},
         "null",
         "tensors " E ".*: are MXFP4 as compressed-tensors names it, and config.json's quantization_config says "
         "nothing of it"},
        {CT,
         E ".0.up_proj.weight_packed",
         NULL,
         NULL,
         {0},
         "{\"quant_method\":\"mxfp4\"}",
         "are MXFP4 as compressed-tensors names it, and config.json's quantization_config says gpt-oss"},
        {QUARK, E ".0.gate_proj.weight", NULL, NULL, {0}, "null", "are MXFP4 as quark names it"},
        {QUARK,
         E ".0.gate_proj.weight_scale",
         "x",
         NULL,
         {0},
         NULL,
         ": tensor " E ".0.gate_proj.weight_scale: is missing (expected U8 [32, 3])"},
        {QUARK, E ".9.gate_proj.weight", NULL, "BF16", {32, 24}, NULL, "is BF16 [32, 24], expected U8 [32, 48]"},
        {FUSED,
         E ".gate_up_proj_blocks",
         NULL,
         NULL,
         {16, 64, 6, 8},
         NULL,
         "is U8 [16, 64, 6, 8], expected U8 [16, 64, 3, 16]"},
        {FUSED,
         E ".gate_up_proj_scales",
         "x",
         NULL,
         {0},
         NULL,
         "gate_up_proj_scales: is missing (expected U8 [16, 64, 3])"},
        {FUSED, E ".down_proj_blocks", "x", NULL, {0}, NULL, "down_proj_blocks: is missing"},
        {FUSED, E ".gate_up_proj_blocks", "x", NULL, {0}, NULL, "gate_up_proj_blocks: is missing"},
        {FUSED, E ".down_proj_scales", NULL, NULL, {16, 32, 3}, NULL, "expected U8 [16, 96, 1]"},
        {FUSED, E ".down_proj_scales", NULL, NULL, {0}, "null", "are MXFP4 as gpt-oss names it"},
        /* other tools write gpt-oss names too */
        {FUSED,
         E ".down_proj_scales",
         NULL,
         NULL,
         {0},
         "{\"quant_method\":\"compressed-tensors\",\"format\":"
         "\"mxfp4-pack-quantized\"}",
         NULL},
        {"tiny-sparse",
         E ".0.up_proj.weight",
         "x",
         NULL,
         {0},
         NULL,
         "0.up_proj.weight: is missing (expected BF16, F16"},
        {"tiny-sparse",
         E ".5.up_proj.weight",
         NULL,
         "F16",
         {0},
         NULL,
         "tensor " E ".5.up_proj.weight: is F16, and gate_proj of expert 0 is BF16"},
        /* plain experts are fine whatever the config claims: some layers are left in BF16 */
        {"tiny-sparse", E ".5.up_proj.weight", NULL, NULL, {0}, "{\"quant_method\":\"mxfp4\"}", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static taken t;
        fixture f;
        fixture_copy(&f, rows[i].checkpoint);
        fixture_edit_header(&f, "model.safetensors", edit_header, &rows[i]);
        if (rows[i].quant)
            fixture_edit_json(&f, "config.json", edit_config, rows[i].quant);
        take(f.dir, PREFIX, &t);
        if (!rows[i].message) {
            if (t.status != QN_OK)
                fail_msg("%s", t.err.message);
        } else if (t.status != QN_BAD_INPUT || !strstr(t.err.message, rows[i].message)) {
            fail_msg("row %zu: %s, not \"%s\"", i, t.status == QN_OK ? "accepted" : t.err.message, rows[i].message);
        }
        qn_checkpoint_close(t.checkpoint);
        fixture_remove(&f);
    }
}

static void test_layers_without_any_expert(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *message;
    } rows[] = {
        {"tests/data/oracle/tiny-sparse", "tensor model.layers.0.mlp.experts.0.gate_proj.weight: is missing"},
        {"tests/data/oracle/tiny-sparse-mxfp4-ct", "experts.0.gate_proj.weight_packed: is missing"},
        {"tests/data/oracle/tiny-sparse-mxfp4-quark", "experts.0.gate_proj.weight: is missing (expected U8 [32, 48])"},
        {"tests/data/oracle/tiny-sparse-mxfp4-fused", "experts.gate_up_proj_blocks: is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static taken t;
        take(rows[i].dir, "model.layers.0.mlp.experts", &t);
        assert_int_equal(t.status, QN_BAD_INPUT);
        if (!strstr(t.err.message, rows[i].message))
            fail_msg("%s, not \"%s\"", t.err.message, rows[i].message);
        qn_checkpoint_close(t.checkpoint);
    }
}

static void set_hidden_size(json_t *root, const void *context)
{
    (void)context;
    json_object_set_new(root, "hidden_size", json_integer(80));
}

static void test_inputs_that_are_no_whole_blocks(void **state)
{
    (void)state;
    static const char *const names[] = {CT, FUSED};
    for (size_t i = 0; i < 2; i++) {
        static taken t;
        fixture f;
        fixture_copy(&f, names[i]);
        fixture_edit_json(&f, "config.json", set_hidden_size, NULL);
        take(f.dir, PREFIX, &t);
        assert_int_equal(t.status, QN_BAD_INPUT);
        assert_non_null(strstr(t.err.message, "it has 80 inputs by config.json, and MXFP4 needs a multiple of 32"));
        qn_checkpoint_close(t.checkpoint);
        fixture_remove(&f);
    }
}

static void test_bad_scales_are_refused_at_open(void **state)
{
    (void)state;
    static const struct {
        const char *checkpoint, *tensor;
        size_t at;
        const char *message;
    } rows[] = {
        {CT, E ".7.down_proj.weight_scale", 5, E ".7.down_proj.weight_scale: its scale byte at row 5, block 0 is 255"},
        {QUARK, E ".7.gate_proj.weight_scale", 4,
         E ".7.gate_proj.weight_scale: its scale byte at row 1, block 1 is 255"},
        {FUSED, E ".gate_up_proj_scales", 64 * 3, E ".gate_up_proj_scales: its scale byte at row 64, block 0 is 255"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static const uint8_t not_a_number = 255, zeros[96];
        static taken t;
        fixture f;
        fixture_copy(&f, rows[i].checkpoint);
        fixture_patch_tensor(&f, "model.safetensors", rows[i].tensor, rows[i].at, &not_a_number, 1);
        take(f.dir, PREFIX, &t);
        assert_int_equal(t.status, QN_BAD_INPUT);
        if (!strstr(t.err.message, rows[i].message))
            fail_msg("%s, not \"%s\"", t.err.message, rows[i].message);
        fixture_patch_tensor(&f, "model.safetensors", rows[i].tensor, rows[i].at, zeros, 1);
        if (i < 2) {
            fixture_patch_tensor(&f, "model.safetensors", rows[i].tensor, 0, zeros, 96);
            take(f.dir, PREFIX, &t);
            assert_int_equal(t.status, QN_BAD_INPUT);
            assert_non_null(strstr(t.err.message, "the scales are all zero"));
        }
        fixture_remove(&f);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mxfp4_layouts_hold_the_same_bits),
        cmocka_unit_test(test_fused_experts_are_the_same),
        cmocka_unit_test(test_each_bad_expert),
        cmocka_unit_test(test_layers_without_any_expert),
        cmocka_unit_test(test_inputs_that_are_no_whole_blocks),
        cmocka_unit_test(test_bad_scales_are_refused_at_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
