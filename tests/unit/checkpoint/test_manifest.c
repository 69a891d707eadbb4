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

static const qn_manifest_tensor TENSORS[] = {
    {"model.layers.0.mlp.experts.0.gate_proj.weight_packed", {1, 2}},
    {"a \"name\" with \\ and \xc3\xa4", {UINT64_MAX, 0}},
};
static const qn_manifest_file WEIGHTS = {.name = "model-00001-of-00002.safetensors",
                                         .bytes = 123456789012,
                                         .hash = {3, 4},
                                         .tensors = TENSORS,
                                         .tensor_count = 2};
static const qn_manifest_file CONFIG = {.name = "config.json", .bytes = 0, .hash = {5, 6}};

static qn_manifest *filled(int backwards)
{
    qn_manifest *m = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&m, &err), QN_OK);
    assert_int_equal(qn_manifest_add(m, backwards ? &CONFIG : &WEIGHTS, &err), QN_OK);
    assert_int_equal(qn_manifest_add(m, backwards ? &WEIGHTS : &CONFIG, &err), QN_OK);
    assert_int_equal(qn_manifest_set(m, "rule", "rtn", &err), QN_OK);
    assert_int_equal(qn_manifest_set(m, "importance", "", &err), QN_OK);
    assert_int_equal(qn_manifest_set(m, "rule", "least-error", &err), QN_OK);
    return m;
}

static void test_text_is_the_documented_one_whatever_the_order(void **state)
{
    (void)state;
    static const char EXPECTED[] =
        "{\"format\": \"quern-manifest\", \"version\": 1,\n"
        " \"settings\": {\n"
        "  \"rule\": \"least-error\",\n"
        "  \"importance\": \"\"},\n"
        " \"files\": [\n"
        " {\"name\": \"config.json\", \"bytes\": 0, \"hash\": \"00000000000000050000000000000006\"},\n"
        " {\"name\": \"model-00001-of-00002.safetensors\", \"bytes\": 123456789012, \"header\": "
        "\"00000000000000030000000000000004\", \"tensors\": {\n"
        "  \"model.layers.0.mlp.experts.0.gate_proj.weight_packed\": \"00000000000000010000000000000002\",\n"
        "  \"a \\\"name\\\" with \\\\ and \xc3\xa4\": \"ffffffffffffffff0000000000000000\"}}]}\n";
    for (int backwards = 0; backwards < 2; backwards++) {
        qn_manifest *m = filled(backwards);
        qn_buffer text = {0};
        qn_manifest_format(m, &text);
        assert_string_equal(qn_buffer_string(&text), EXPECTED);
        qn_buffer_free(&text);
        qn_manifest_free(m);
    }
}

static void test_written_manifest_reads_back_the_same(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-manifest-XXXXXX";
    close(mkstemp(path));
    qn_manifest *m = filled(0), *back = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_write(m, path, &err), QN_OK);
    assert_int_equal(qn_manifest_read(path, &back, &err), QN_OK);
    qn_buffer first = {0}, second = {0};
    qn_manifest_format(m, &first);
    qn_manifest_format(back, &second);
    assert_string_equal(qn_buffer_string(&first), qn_buffer_string(&second));
    qn_buffer_free(&first);
    qn_buffer_free(&second);

    assert_int_equal(qn_manifest_count(back), 2);
    assert_string_equal(qn_manifest_at(back, 0)->name, "config.json");
    assert_null(qn_manifest_at(back, 0)->tensors);
    const qn_manifest_file *weights = qn_manifest_find(back, WEIGHTS.name);
    assert_ptr_equal(weights, qn_manifest_at(back, 1));
    assert_true(weights->bytes == WEIGHTS.bytes && weights->tensor_count == 2);
    assert_string_equal(weights->tensors[1].name, TENSORS[1].name);
    assert_true(qn_hash_equal(weights->tensors[1].hash, TENSORS[1].hash));
    assert_null(qn_manifest_find(back, "model.safetensors"));
    const char *value = NULL;
    assert_int_equal(qn_manifest_setting_count(back), 2);
    assert_string_equal(qn_manifest_setting_at(back, 1, &value), "importance");
    assert_string_equal(value, "");
    assert_string_equal(qn_manifest_setting(back, "rule"), "least-error");
    assert_null(qn_manifest_setting(back, "encoder"));
    qn_manifest_free(back);
    qn_manifest_free(m);
    unlink(path);
}

static void test_entry_is_a_document_that_merges(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-manifest-XXXXXX";
    close(mkstemp(path));
    qn_error err;
    qn_manifest *m = NULL;
    assert_int_equal(qn_manifest_new(&m, &err), QN_OK);
    assert_int_equal(qn_manifest_entry_write(&WEIGHTS, path, &err), QN_OK);
    assert_int_equal(qn_manifest_entry_read(path, m, &err), QN_OK);
    assert_true(qn_hash_equal(qn_manifest_find(m, WEIGHTS.name)->hash, WEIGHTS.hash));
    assert_int_equal(qn_manifest_entry_read(path, m, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "model-00001-of-00002.safetensors: is listed twice"));
    assert_int_equal(qn_manifest_count(m), 1);
    assert_int_equal(qn_manifest_entry_write(&CONFIG, path, &err), QN_OK);
    assert_int_equal(qn_manifest_entry_read(path, m, &err), QN_OK);
    assert_int_equal(qn_manifest_count(m), 2);
    qn_manifest_free(m);
    unlink(path);
}

static void test_what_could_not_be_read_again_is_not_added(void **state)
{
    (void)state;
    static char long_name[QN_MANIFEST_FILE_NAME_BYTES + 20];
    memset(long_name, 'n', sizeof long_name - 1);
    static const qn_manifest_tensor twice[] = {{"b", {0, 0}}, {"a", {0, 0}}, {"b", {0, 0}}};
    static const qn_manifest_tensor bad[] = {{"a\n", {0, 0}}}, none[1], empty[] = {{"", {0, 0}}};
    const qn_manifest_file files[] = {
        {.name = "config.json"},
        {.name = ""},
        {.name = "../config.json"},
        {.name = ".hidden"},
        {.name = "a\\b"},
        {.name = "a\nb"},
        {.name = "a\xff"},
        {.name = long_name},
        {.name = "model.safetensors"},
        {.name = "huge", .bytes = UINT64_MAX},
        {.name = "model.bin", .tensors = none},
        {.name = "m.safetensors", .tensors = twice, .tensor_count = 3},
        {.name = "m.safetensors", .tensors = bad, .tensor_count = 1},
        {.name = "m.safetensors", .tensors = empty, .tensor_count = 1},
        {.name = "m.safetensors", .tensors = none, .tensor_count = QN_MANIFEST_MAX_TENSORS + 1},
    };
    qn_manifest *m = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&m, &err), QN_OK);
    assert_int_equal(qn_manifest_add(m, &CONFIG, &err), QN_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        assert_int_equal(qn_manifest_add(m, &files[i], &err), QN_USAGE);
        assert_true(i == 0 || qn_manifest_entry_write(&files[i], "/nonexistent/x", &err) == QN_USAGE);
    }
    const qn_manifest_file no_tensors = {.name = "m.safetensors", .tensors = none};
    assert_int_equal(qn_manifest_add(m, &no_tensors, &err), QN_OK);
    qn_manifest_free(m);
    qn_manifest_free(NULL);
}

static void test_settings_are_few_and_short(void **state)
{
    (void)state;
    static char text[QN_MANIFEST_SETTING_BYTES + 2];
    memset(text, 'x', sizeof text - 1);
    qn_manifest *m = filled(0);
    qn_error err;
    assert_int_equal(qn_manifest_set(m, "a", text, &err), QN_USAGE);
    assert_int_equal(qn_manifest_set(m, text, "a", &err), QN_USAGE);
    assert_int_equal(qn_manifest_set(m, "", "a", &err), QN_USAGE);
    assert_int_equal(qn_manifest_set(m, "a", "\xff", &err), QN_USAGE);
    for (int i = 2; i <= QN_MANIFEST_MAX_SETTINGS; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        assert_int_equal(qn_manifest_set(m, name, name, &err), i < QN_MANIFEST_MAX_SETTINGS ? QN_OK : QN_USAGE);
    }
    qn_manifest_free(m);
}

static void test_number_of_files_is_bounded(void **state)
{
    (void)state;
    qn_manifest *m = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&m, &err), QN_OK);
    for (int i = QN_MANIFEST_MAX_FILES; i >= 0; i--) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        qn_manifest_file file = {.name = name};
        assert_int_equal(qn_manifest_add(m, &file, &err), i > 0 ? QN_OK : QN_USAGE);
    }
    for (size_t i = 1; i < qn_manifest_count(m); i++)
        assert_true(strcmp(qn_manifest_at(m, i - 1)->name, qn_manifest_at(m, i)->name) < 0);
    qn_manifest_free(m);
}

/* Everything once: write, read, add. */
static qn_status round_trip(const char *path, qn_error *err)
{
    qn_manifest *m = NULL, *back = NULL;
    qn_status status = qn_manifest_new(&m, err);
    if (status == QN_OK)
        status = qn_manifest_add(m, &CONFIG, err);
    if (status == QN_OK)
        status = qn_manifest_set(m, "rule", "rtn", err);
    if (status == QN_OK)
        status = qn_manifest_entry_write(&WEIGHTS, path, err);
    if (status == QN_OK)
        status = qn_manifest_entry_read(path, m, err);
    if (status == QN_OK)
        status = qn_manifest_write(m, path, err);
    if (status == QN_OK)
        status = qn_manifest_read(path, &back, err);
    qn_manifest_free(m);
    qn_manifest_free(back);
    return status;
}

static void test_every_failure_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    char path[] = "/tmp/quern-manifest-XXXXXX";
    close(mkstemp(path));
    for (qn_fault_kind kind = 0; kind < QN_FAULT_KINDS; kind++) {
        long seen = 1;
        for (long n = 1; seen >= n; n++) {
            qn_error err = {0};
            qn_fault_arm(kind, n);
            qn_status status = round_trip(path, &err);
            seen = qn_fault_seen(kind);
            qn_fault_disarm();
            if (seen < n)
                assert_int_equal(status, QN_OK);
            else if (status != QN_OK) /* syncing a folder may fail and is not told */
                assert_true(status == err.status && err.message[0]);
        }
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_the_documented_one_whatever_the_order),
        cmocka_unit_test(test_written_manifest_reads_back_the_same),
        cmocka_unit_test(test_entry_is_a_document_that_merges),
        cmocka_unit_test(test_what_could_not_be_read_again_is_not_added),
        cmocka_unit_test(test_settings_are_few_and_short),
        cmocka_unit_test(test_number_of_files_is_bounded),
        cmocka_unit_test(test_every_failure_is_told_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
