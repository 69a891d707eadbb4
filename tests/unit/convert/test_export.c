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
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "convert/export.h"

static char root[] = "/tmp/quern-export-XXXXXX", source[64], destination[64];

static void drop_line(void *context, const char *line)
{
    (void)context;
    (void)line;
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[256];
    qn_error err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(qn_file_write(path, text, strlen(text), &err), QN_OK);
}

static char *get(const char *name)
{
    char path[256], *text = NULL;
    size_t bytes = 0;
    qn_error err;
    snprintf(path, sizeof path, "%s/%s", destination, name);
    return qn_file_read(path, 1 << 20, &text, &bytes, &err) == QN_OK ? text : NULL;
}

static int make_folders(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(source, sizeof source, "%s/source", root);
    snprintf(destination, sizeof destination, "%s/destination", root);
    qn_log_set_sink(drop_line, NULL);
    if (mkdir(source, 0700) || mkdir(destination, 0700))
        return -1;
    put(source, "config.json", "{\n  \"rms_norm_eps\": 1e-05\n}\n");
    put(source, "README.md", "---\nlicense: mit\n---\n# GLM\n");
    put(source, "LICENSE", "MIT");
    put(source, "generation_config.json", "{}");
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    char command[128];
    qn_log_set_sink(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static qn_manifest *weights(void)
{
    static const qn_manifest_tensor first[] = {{"b", {1, 1}}, {"a.weight", {2, 2}}}, second[] = {{"a", {3, 3}}};
    static const qn_manifest_file files[] = {
        {.name = "model-00001-of-00002.safetensors", .bytes = 9, .tensors = first, .tensor_count = 2},
        {.name = "model-00002-of-00002.safetensors", .bytes = 9, .tensors = second, .tensor_count = 1}};
    qn_manifest *manifest = NULL;
    qn_error err;
    assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
    assert_int_equal(qn_manifest_add(manifest, &files[1], &err), QN_OK);
    assert_int_equal(qn_manifest_add(manifest, &files[0], &err), QN_OK);
    assert_int_equal(qn_manifest_set(manifest, "rule", "ocp", &err), QN_OK);
    return manifest;
}

static qn_status export(qn_error *err)
{
    qn_manifest *manifest = weights();
    const qn_export_plan plan = {
        .source = source,
        .destination = destination,
        .manifest = manifest,
        .facts = {.expert_matrices = 1, .other_tensors = 2, .expert_bytes = 100, .other_bytes = 23}};
    qn_status status = qn_export(&plan, err);
    qn_manifest_free(manifest);
    return status;
}

static void test_folder_is_complete_and_the_manifest_tells_all_of_it(void **state)
{
    (void)state;
    qn_error err = {0};
    assert_int_equal(export(&err), QN_OK);
    char *index = get("model.safetensors.index.json");
    assert_string_equal(index, "{\n"
                               "  \"metadata\": {\n"
                               "    \"total_size\": 123\n"
                               "  },\n"
                               "  \"weight_map\": {\n"
                               "    \"a\": \"model-00002-of-00002.safetensors\",\n"
                               "    \"a.weight\": \"model-00001-of-00002.safetensors\",\n"
                               "    \"b\": \"model-00001-of-00002.safetensors\"\n"
                               "  }\n"
                               "}\n");
    qn_free(index);
    char path[256];
    snprintf(path, sizeof path, "%s/%s", destination, QN_MANIFEST_NAME);
    qn_manifest *manifest = NULL;
    assert_int_equal(qn_manifest_read(path, &manifest, &err), QN_OK);
    static const char *const texts[] = {"LICENSE", "README.md", "config.json", "generation_config.json",
                                        "model.safetensors.index.json"};
    assert_int_equal(qn_manifest_count(manifest), 2 + sizeof texts / sizeof *texts);
    assert_string_equal(qn_manifest_setting(manifest, "rule"), "ocp");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const qn_manifest_file *file = qn_manifest_find(manifest, texts[i]);
        char *text = get(texts[i]);
        assert_non_null(file);
        assert_true(file->bytes == strlen(text));
        assert_true(qn_hash_equal(file->hash, qn_hash_bytes(text, strlen(text))));
        qn_free(text);
    }
    qn_manifest_free(manifest);
    char *card = get("README.md");
    assert_int_equal(strncmp(card, "---\nlicense: mit\ntags:", 22), 0);
    assert_non_null(strstr(card, ": `LICENSE`, carried"));
    qn_free(card);
}

static void test_a_second_export_gives_the_same_bytes(void **state)
{
    (void)state;
    qn_error err = {0};
    assert_int_equal(export(&err), QN_OK);
    char *first = get(QN_MANIFEST_NAME);
    assert_int_equal(export(&err), QN_OK);
    char *second = get(QN_MANIFEST_NAME);
    assert_string_equal(first, second);
    qn_free(first);
    qn_free(second);
}

/* Until the last step there is no config.json, so no reader takes the folder for a checkpoint. */
static void test_an_interrupted_export_leaves_no_checkpoint(void **state)
{
    (void)state;
    for (qn_fault_kind kind = 0; kind < QN_FAULT_KINDS; kind++) {
        long seen = 1;
        for (long n = 1; seen >= n; n++) {
            qn_error err = {0};
            char path[256];
            snprintf(path, sizeof path, "%s/config.json", destination);
            unlink(path);
            qn_manifest *manifest = weights();
            const qn_export_plan plan = {.source = source, .destination = destination, .manifest = manifest};
            qn_fault_arm(kind, n);
            qn_status status = qn_export(&plan, &err);
            seen = qn_fault_seen(kind);
            qn_fault_disarm();
            qn_manifest_free(manifest);
            assert_int_equal(access(path, F_OK) == 0, status == QN_OK);
            assert_true(seen >= n || status == QN_OK);
        }
    }
}

static void test_source_without_config_is_refused(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/config.json", source);
    unlink(path);
    qn_error err = {0};
    assert_int_equal(export(&err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "config.json: no such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_folder_is_complete_and_the_manifest_tells_all_of_it, make_folders,
                                        remove_folders),
        cmocka_unit_test_setup_teardown(test_a_second_export_gives_the_same_bytes, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(test_an_interrupted_export_leaves_no_checkpoint, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(test_source_without_config_is_refused, make_folders, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
