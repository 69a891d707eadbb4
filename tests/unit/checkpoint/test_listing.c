#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/listing.h"
#include "fixture.h"

static qn_listing *list(const char *path)
{
    qn_listing *listing = NULL;
    qn_error err;
    if (qn_listing_open(path, &listing, &err) != QN_OK)
        fail_msg("%s", err.message);
    return listing;
}

static const qn_listed_file *file_named(const qn_listing *l, const char *name)
{
    for (size_t i = 0; i < l->file_count; i++) {
        if (strcmp(l->files[i].name, name) == 0)
            return &l->files[i];
    }
    fail_msg("%s is not listed", name);
    return NULL;
}

static void make_empty_file(const fixture *f, const char *name)
{
    fixture_write(f, name, "", 0);
}

static void remove_file(const fixture *f, const char *name)
{
    char path[512];
    fixture_path(f, name, path);
    assert_int_equal(unlink(path), 0);
}

static void test_whole_checkpoint(void **state)
{
    (void)state;
    qn_listing *l = list("tests/data/oracle/tiny-sharded");
    assert_int_equal(l->kind, QN_LISTING_FOLDER);
    assert_true(l->has_config && l->has_index && !l->converting);
    assert_int_equal(l->config.num_hidden_layers, 5);
    assert_string_equal(l->quantization, "");
    assert_int_equal(l->file_count, 3); /* the goldens beside them are not named like weights */
    assert_int_equal(l->missing_count, 0);
    uint64_t bytes = 0;
    size_t tensors = 0;
    for (size_t i = 0; i < l->file_count; i++) {
        assert_int_equal(l->files[i].state, QN_FILE_WHOLE);
        assert_int_equal(l->files[i].bytes, l->files[i].whole_bytes);
        assert_int_equal(l->files[i].first_tensor, tensors);
        tensors += l->files[i].tensors;
    }
    assert_int_equal(tensors, l->tensor_count);
    for (size_t i = 0; i < l->tensor_count; i++) {
        const qn_listed_tensor *t = &l->tensors[i];
        bytes += t->bytes;
        assert_true(t->whole);
        assert_true(i == 0 || t->file > t[-1].file || t->offset == t[-1].offset + t[-1].bytes);
    }
    assert_true(l->has_index_bytes);
    assert_int_equal(bytes, l->index_bytes);
    char *path = qn_listing_file_path(l, 1);
    assert_string_equal(path, "tests/data/oracle/tiny-sharded/model-00002-of-00003.safetensors");
    qn_free(path);
    qn_listing_close(l);
}

static void test_download_that_goes_on(void **state)
{
    (void)state;
    fixture f;
    fixture_copy(&f, "tiny-sharded");
    remove_file(&f, "model-00001-of-00003.safetensors");
    size_t whole = fixture_size(&f, "model-00002-of-00003.safetensors");
    fixture_truncate(&f, "model-00002-of-00003.safetensors", whole - 1);
    fixture_truncate(&f, "model-00003-of-00003.safetensors", 100);
    qn_listing *l = list(f.dir);
    assert_int_equal(file_named(l, "model-00001-of-00003.safetensors")->state, QN_FILE_MISSING);
    const qn_listed_file *cut = file_named(l, "model-00002-of-00003.safetensors");
    assert_int_equal(cut->state, QN_FILE_CUT);
    assert_int_equal(cut->bytes, whole - 1);
    assert_int_equal(cut->whole_bytes, whole);
    assert_int_equal(l->tensor_count, cut->tensors);
    assert_true(l->tensors[0].whole && !l->tensors[l->tensor_count - 1].whole);
    const qn_listed_file *broken = file_named(l, "model-00003-of-00003.safetensors");
    assert_int_equal(broken->state, QN_FILE_UNREADABLE);
    assert_non_null(strstr(broken->problem, "it is truncated"));
    assert_int_equal(l->missing_count + l->tensor_count, 251); /* each tensor of the index is one or the other */
    qn_listing_close(l);
    make_empty_file(&f, "model-00001-of-00003.safetensors");
    fixture_remove(&f);
}

static void call_fp8(json_t *root, const void *context)
{
    (void)context;
    json_object_set_new(root, "quantization_config", json_pack("{s:s, s:s}", "quant_method", "fp8", "format", "e\n4"));
}

static void test_foreign_dtypes_are_listed_as_spelled(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,3],\"data_offsets\":[0,6]},"
                               "\"b\":{\"dtype\":\"\\u0001\",\"shape\":[],\"data_offsets\":[6,7]}}";
    uint8_t blob[8 + sizeof text - 1 + 7] = {sizeof text - 1};
    memcpy(blob + 8, text, sizeof text - 1);
    fixture f;
    fixture_copy(&f, "tiny-dense");
    fixture_write(&f, "model.safetensors", blob, sizeof blob);
    fixture_edit_json(&f, "config.json", call_fp8, NULL);
    qn_listing *l = list(f.dir);
    assert_true(l->has_config);
    assert_string_equal(l->quantization, "fp8 e\n4");
    assert_int_equal(l->tensor_count, 2);
    assert_string_equal(l->tensors[0].dtype, "F8_E4M3");
    assert_int_equal(l->tensors[0].elements, 6);
    assert_int_equal(l->tensors[0].shape[1], 3);
    assert_string_equal(l->tensors[1].dtype, "\\x01");
    assert_int_equal(l->files[0].state, QN_FILE_WHOLE);
    qn_listing_close(l);
    fixture_remove(&f);
}

static void test_config_that_is_refused_tells_why(void **state)
{
    (void)state;
    fixture f;
    fixture_copy(&f, "tiny-sharded");
    fixture_write(&f, "config.json", "{\"model_type\":\"llama\"}", 22);
    fixture_write(&f, "model.safetensors.index.json", "{}", 2);
    qn_listing *l = list(f.dir);
    assert_true(!l->has_config && !l->has_index);
    assert_non_null(strstr(l->config_problem, "model_type is \"llama\""));
    assert_non_null(strstr(l->index_problem, "has no weight_map"));
    assert_int_equal(l->file_count, 3); /* without an index all weights are looked at */
    assert_true(l->tensor_count > 200);
    qn_listing_close(l);
    fixture_remove(&f);
}

static void test_strays_are_told_and_left_alone(void **state)
{
    (void)state;
    fixture f;
    fixture_copy(&f, "tiny-dense");
    make_empty_file(&f, "model-00001-of-00003.safetensors");
    qn_listing *l = list(f.dir);
    assert_int_equal(l->file_count, 2);
    assert_int_equal(l->files[0].state, QN_FILE_WHOLE);
    assert_int_equal(l->files[1].state, QN_FILE_STRAY);
    assert_null(l->files[1].problem);
    qn_listing_close(l);
    fixture_remove(&f);
}

static void test_unfinished_conversion(void **state)
{
    (void)state;
    static const char *const names[] = {"state.json", "model-00001-of-00085.safetensors.json",
                                        "model-00002-of-00085.safetensors.json",
                                        "model-00003-of-00085.safetensors.part",
                                        "model-00003-of-00085.safetensors.journal"};
    enum { NAMES = sizeof names / sizeof *names };
    char dir[] = "/tmp/quern-listing-XXXXXX", path[128];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/.quern-convert", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/.quern-convert/%s", dir, names[i]);
        fclose(fopen(path, "w"));
    }
    qn_listing *l = list(dir);
    assert_true(l->converting);
    assert_int_equal(l->converted_files, 2);
    assert_int_equal(l->started_files, 1);
    assert_int_equal(l->planned_files, 85);
    qn_listing_close(l);
    for (size_t i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/.quern-convert/%s", dir, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/.quern-convert", dir);
    rmdir(path);
    assert_int_equal(rmdir(dir), 0);
}

static void test_single_files(void **state)
{
    (void)state;
    qn_listing *l = list("tests/data/oracle/tiny-sharded/model-00002-of-00003.safetensors");
    assert_int_equal(l->kind, QN_LISTING_WEIGHTS);
    assert_int_equal(l->file_count, 1);
    assert_string_equal(l->files[0].name, "model-00002-of-00003.safetensors");
    assert_true(l->tensor_count > 0 && !l->has_config);
    char *path = qn_listing_file_path(l, 0);
    assert_string_equal(path, l->path);
    qn_free(path);
    qn_listing_close(l);
    l = list("tests/data/oracle/tiny-sharded/config.json");
    assert_int_equal(l->kind, QN_LISTING_CONFIG);
    assert_true(l->has_config && l->file_count == 0);
    qn_listing_close(l);
}

static void test_nothing_gives_an_empty_listing(void **state)
{
    (void)state;
    static const char *const paths[] = {"/nowhere/at/all", "tests/data/oracle/README.md", "tests", "", "/dev/null"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        qn_listing *l = list(paths[i]);
        assert_true(l->file_count == 0 && l->tensor_count == 0 && !l->has_config && !l->has_index);
        qn_listing_close(l);
    }
    qn_listing_close(NULL);
}

static void test_lack_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    bool hit = true;
    for (long n = 1; hit; n++) {
        qn_listing *l = NULL;
        qn_error err;
        qn_fault_arm(QN_FAULT_ALLOC, n);
        qn_status status = qn_listing_open("tests/data/oracle/tiny-dense", &l, &err);
        hit = qn_fault_seen(QN_FAULT_ALLOC) >= n;
        qn_fault_disarm();
        assert_true(status == QN_OK || (hit && status == QN_RESOURCE));
        if (status == QN_OK) /* what failed was the try of direct reads, or nothing */
            qn_listing_close(l);
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_checkpoint),
        cmocka_unit_test(test_download_that_goes_on),
        cmocka_unit_test(test_foreign_dtypes_are_listed_as_spelled),
        cmocka_unit_test(test_config_that_is_refused_tells_why),
        cmocka_unit_test(test_strays_are_told_and_left_alone),
        cmocka_unit_test(test_unfinished_conversion),
        cmocka_unit_test(test_single_files),
        cmocka_unit_test(test_nothing_gives_an_empty_listing),
        cmocka_unit_test(test_lack_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
