#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/verify.h"
#include "fixture.h"
#include "log_lines.h"

static const qn_verify_options TWO = {.threads = 2};

static void enter(const fixture *f, qn_manifest *manifest, const char *name)
{
    char path[512], *data = NULL;
    size_t bytes = 0;
    qn_error err;
    fixture_path(f, name, path);
    assert_int_equal(qn_file_read(path, 1 << 30, &data, &bytes, &err), QN_OK);
    qn_manifest_file file = {.name = name, .bytes = bytes, .hash = qn_hash_bytes(data, bytes)};
    qn_manifest_tensor *tensors = NULL;
    qn_safetensors *header = NULL;
    if (strstr(name, ".safetensors") && !strstr(name, ".json")) {
        assert_int_equal(qn_safetensors_open_header(path, &header, &err), QN_OK);
        tensors = qn_alloc(qn_safetensors_count(header), sizeof *tensors);
        for (size_t i = 0; i < qn_safetensors_count(header); i++) {
            const qn_tensor *t = qn_safetensors_at(header, i);
            tensors[i] = (qn_manifest_tensor){t->name, qn_hash_bytes(data + t->offset, t->bytes)};
        }
        file.hash = qn_safetensors_header_hash(header);
        file.tensors = tensors;
        file.tensor_count = qn_safetensors_count(header);
    }
    assert_int_equal(qn_manifest_add(manifest, &file, &err), QN_OK);
    qn_safetensors_close(header);
    qn_free(tensors);
    qn_free(data);
}

/* A checkpoint of three files of weights with its manifest. */
static int make(void **state)
{
    static fixture f;
    static const char *const names[] = {"config.json", "model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
                                        "model.safetensors.index.json"};
    fixture_copy(&f, "tiny-sharded");
    qn_manifest *manifest = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        enter(&f, manifest, names[i]);
    char path[512];
    fixture_path(&f, QN_MANIFEST_NAME, path);
    assert_int_equal(qn_manifest_write(manifest, path, &err), QN_OK);
    qn_manifest_free(manifest);
    *state = &f;
    return 0;
}

static int clean(void **state)
{
    char path[512];
    fixture_path(*state, QN_MANIFEST_NAME, path);
    unlink(path);
    fixture_remove(*state);
    return 0;
}

static qn_status verify(const fixture *f, qn_verify_result *result, qn_error *err)
{
    log_lines_start();
    qn_status status = qn_verify(f->dir, &TWO, result, err);
    log_lines_stop();
    return status;
}

static void test_a_good_folder_passes_and_all_of_it_is_read(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    assert_int_equal(verify(*state, &r, &err), QN_OK);
    assert_true(r.files == 5 && r.tensors > 100 && r.mismatches == 0);
    uint64_t bytes = fixture_size(*state, "config.json") + fixture_size(*state, "model.safetensors.index.json");
    for (int i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-00003.safetensors", i);
        bytes += fixture_size(*state, name);
    }
    assert_true(r.bytes < bytes && r.bytes > bytes - 100000); /* headers are read apart */
}

static void test_one_flipped_bit_names_file_and_tensor(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    uint8_t byte = 0xff;
    fixture_patch_tensor(*state, "model-00003-of-00003.safetensors", "lm_head.weight", 1000, &byte, 1);
    assert_int_equal(verify(*state, &r, &err), QN_FAILED);
    assert_int_equal(r.mismatches, 1);
    assert_non_null(strstr(err.message, "1 mismatch with its manifest, the first in"));
    assert_non_null(strstr(err.message, "/model-00003-of-00003.safetensors: tensor lm_head.weight: restore"));
    assert_non_null(strstr(log_lines_text(), "tensor lm_head.weight: its bytes are not those"));
}

static void rename_tensor(json_t *root, const void *context)
{
    (void)context;
    json_object_set(root, "lm_headx.weight", json_object_get(root, "lm_head.weight"));
    json_object_del(root, "lm_head.weight");
}

static void test_every_kind_of_damage_is_told_and_counted(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    char path[512];
    uint8_t byte = 0xff;
    fixture_write(*state, "config.json", "{}", 2);
    fixture_patch_tensor(*state, "model-00001-of-00003.safetensors", "model.embed_tokens.weight", 0, &byte, 1);
    fixture_truncate(*state, "model-00002-of-00003.safetensors", 1000);
    fixture_path(*state, "model.safetensors.index.json", path);
    unlink(path);
    assert_int_equal(verify(*state, &r, &err), QN_FAILED);
    assert_int_equal(r.mismatches, 4);
    assert_non_null(strstr(err.message, "4 mismatches with its manifest, the first in"));
    assert_non_null(strstr(err.message, "/config.json: restore"));
    assert_non_null(strstr(log_lines_text(), "config.json: has 2 bytes, and the manifest says"));
    assert_non_null(
        strstr(log_lines_text(), "00001-of-00003.safetensors: tensor model.embed_tokens.weight: its bytes"));
    assert_non_null(strstr(log_lines_text(), "00002-of-00003.safetensors: has 1000 bytes"));
    assert_non_null(strstr(log_lines_text(), "index.json: is missing"));
}

/* Overwrites bytes of a file without changing its size. */
static void overwrite(const fixture *f, const char *name, long at, const char *text)
{
    char path[512];
    fixture_path(f, name, path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void test_a_changed_or_damaged_header_is_a_mismatch(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    overwrite(*state, "model-00001-of-00003.safetensors", 8, "?");
    assert_int_equal(verify(*state, &r, &err), QN_FAILED);
    assert_non_null(strstr(log_lines_text(), "its header is damaged"));
    fixture_edit_header(*state, "model-00003-of-00003.safetensors", rename_tensor, NULL);
    assert_int_equal(verify(*state, &r, &err), QN_FAILED);
    assert_int_equal(r.mismatches, 2);
}

static void test_lines_are_bounded_and_the_count_is_not(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    const fixture *f = *state;
    char path[512];
    fixture_path(f, "model-00001-of-00003.safetensors", path);
    qn_safetensors *header = NULL;
    assert_int_equal(qn_safetensors_open_header(path, &header, &err), QN_OK);
    size_t count = qn_safetensors_count(header);
    for (size_t i = 0; i < count; i++) {
        static const uint8_t bytes[] = {0x12, 0x34, 0x56, 0x78};
        fixture_patch_tensor(f, "model-00001-of-00003.safetensors", qn_safetensors_at(header, i)->name, 0, bytes, 4);
    }
    qn_safetensors_close(header);
    log_lines_start();
    assert_int_equal(qn_verify(f->dir, &TWO, &r, &err), QN_FAILED);
    assert_true(count > QN_VERIFY_LINES);
    assert_int_equal(log_lines_stop(), QN_VERIFY_LINES + 1);
    assert_int_equal(r.mismatches, count);
}

static void test_a_folder_without_manifest_is_bad_input(void **state)
{
    qn_verify_result r;
    qn_error err = {0};
    char path[512];
    fixture_path(*state, QN_MANIFEST_NAME, path);
    unlink(path);
    assert_int_equal(verify(*state, &r, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "/quern-manifest.json: there is no such file"));
    fixture_write(*state, QN_MANIFEST_NAME, "{", 1);
    assert_int_equal(verify(*state, &r, &err), QN_BAD_INPUT);
    assert_int_equal(qn_verify("/nonexistent", &TWO, &r, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "/nonexistent: is no folder"));
}

static void test_stopping_is_no_verdict(void **state)
{
    const fixture *f = *state;
    qn_verify_result r;
    qn_error err = {0};
    atomic_bool stop = true;
    const qn_verify_options options = {.threads = 1, .stop = &stop};
    assert_int_equal(qn_verify(f->dir, &options, &r, &err), QN_CANCELLED);
}

static void test_every_failure_is_told_and_leaks_nothing(void **state)
{
    const fixture *f = *state;
    const qn_verify_options options = {.threads = 1};
    for (qn_fault_kind kind = 0; kind <= QN_FAULT_READ; kind++) {
        long seen = 1;
        for (long n = 1; seen >= n; n += n < 60 ? 1 : 17) {
            qn_verify_result r;
            qn_error err = {0};
            log_lines_start();
            qn_fault_arm(kind, n);
            qn_status status = qn_verify(f->dir, &options, &r, &err);
            seen = qn_fault_seen(kind);
            qn_fault_disarm();
            log_lines_stop();
            assert_int_equal(status, seen < n ? QN_OK : err.status);
            assert_true(seen < n || status != QN_OK || kind == QN_FAULT_ALLOC);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_good_folder_passes_and_all_of_it_is_read, make, clean),
        cmocka_unit_test_setup_teardown(test_one_flipped_bit_names_file_and_tensor, make, clean),
        cmocka_unit_test_setup_teardown(test_every_kind_of_damage_is_told_and_counted, make, clean),
        cmocka_unit_test_setup_teardown(test_a_changed_or_damaged_header_is_a_mismatch, make, clean),
        cmocka_unit_test_setup_teardown(test_lines_are_bounded_and_the_count_is_not, make, clean),
        cmocka_unit_test_setup_teardown(test_a_folder_without_manifest_is_bad_input, make, clean),
        cmocka_unit_test_setup_teardown(test_stopping_is_no_verdict, make, clean),
        cmocka_unit_test_setup_teardown(test_every_failure_is_told_and_leaks_nothing, make, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
