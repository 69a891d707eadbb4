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
#include "convert/carry.h"

static char root[] = "/tmp/quern-carry-XXXXXX", source[64], destination[64], lines[4096];

static void keep_line(void *context, const char *line)
{
    (void)context;
    strncat(lines, line, sizeof lines - strlen(lines) - 1);
    strncat(lines, "\n", sizeof lines - strlen(lines) - 1);
}

static int make_folders(void **state)
{
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(source, sizeof source, "%s/source", root);
    snprintf(destination, sizeof destination, "%s/destination", root);
    lines[0] = '\0';
    qn_log_set_sink(keep_line, NULL);
    return mkdir(source, 0700) || mkdir(destination, 0700);
}

static int remove_folders(void **state)
{
    (void)state;
    char command[128];
    qn_log_set_sink(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void put(const char *dir, const char *name, const char *text)
{
    char path[256];
    qn_error err;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(qn_file_write(path, text, strlen(text), &err), QN_OK);
}

static bool is_there(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", destination, name);
    return access(path, F_OK) == 0;
}

static void test_rule_of_names(void **state)
{
    (void)state;
    static const char *const taken[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "vocab.txt",
                                        "generation_config.json",
                                        "LICENSE",
                                        "License.rst",
                                        "NOTICE-2",
                                        "copying",
                                        "tokenizer.model",
                                        "USAGE.md",
                                        "modeling.py"};
    static const char *const left[] = {"config.json",
                                       "README.md",
                                       "readme.MD",
                                       "model.safetensors.index.json",
                                       "pytorch_model.bin.index.json",
                                       "quern-manifest.json",
                                       "hf_quant_config.json",
                                       "model.safetensors",
                                       "LICENSE.safetensors",
                                       ".hidden.json",
                                       ".gitattributes",
                                       "pytorch_model.bin",
                                       "model.gguf",
                                       "picture.png",
                                       "a\nb.json",
                                       ".json",
                                       ""};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (!qn_carry_takes(taken[i]))
            fail_msg("%s is not carried", taken[i]);
    }
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        if (qn_carry_takes(left[i]))
            fail_msg("%s is carried", left[i]);
    }
}

static void fill_source(void)
{
    char path[256], blob[256];
    put(source, "config.json", "{}");
    put(source, "README.md", "# release");
    put(source, "tokenizer.json", "{\"a\": 1}");
    put(source, "LICENSE", "licence");
    put(source, "model.safetensors", "weights");
    put(source, ".gitattributes", "x");
    put(source, "picture.png", "x");
    put(root, "blob", "linked");
    snprintf(path, sizeof path, "%s/vocab.txt", source);
    snprintf(blob, sizeof blob, "%s/blob", root);
    assert_int_equal(symlink(blob, path), 0);
    snprintf(path, sizeof path, "%s/figures", source);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/pipe.json", source);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void test_files_are_copied_and_entered(void **state)
{
    (void)state;
    fill_source();
    qn_manifest *manifest = NULL;
    qn_error err = {0};
    assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
    assert_int_equal(qn_carry(source, destination, manifest, &err), QN_OK);
    assert_int_equal(qn_manifest_count(manifest), 3);
    assert_string_equal(qn_manifest_at(manifest, 0)->name, "LICENSE");
    const qn_manifest_file *linked = qn_manifest_find(manifest, "vocab.txt");
    assert_true(linked->bytes == 6 && qn_hash_equal(linked->hash, qn_hash_bytes("linked", 6)));
    assert_true(is_there("tokenizer.json") && is_there("LICENSE") && is_there("vocab.txt"));
    assert_false(is_there("README.md") || is_there("config.json") || is_there("picture.png"));
    struct stat info;
    char path[256];
    snprintf(path, sizeof path, "%s/vocab.txt", destination);
    assert_true(lstat(path, &info) == 0 && S_ISREG(info.st_mode)); /* the content, no link into a cache */
    assert_non_null(strstr(lines, "picture.png: is not carried along"));
    assert_non_null(strstr(lines, "figures: is a folder"));
    assert_non_null(strstr(lines, "pipe.json: is no regular file"));
    assert_null(strstr(lines, "model.safetensors"));
    assert_null(strstr(lines, "README.md"));
    qn_manifest_free(manifest);
}

static void test_a_huge_file_stays_with_a_line(void **state)
{
    (void)state;
    char path[256];
    put(source, "huge.json", "");
    snprintf(path, sizeof path, "%s/huge.json", source);
    assert_int_equal(truncate(path, (off_t)QN_CARRY_LIMIT_BYTES + 1), 0);
    qn_manifest *manifest = NULL;
    qn_error err = {0};
    assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
    assert_int_equal(qn_carry(source, destination, manifest, &err), QN_OK);
    assert_int_equal(qn_manifest_count(manifest), 0);
    assert_non_null(strstr(lines, "huge.json: has more than 67108864 bytes"));
    qn_manifest_free(manifest);
}

static void test_every_failure_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    put(source, "tokenizer.json", "{\"a\": 1}");
    qn_error err = {0};
    for (qn_fault_kind kind = 0; kind < QN_FAULT_KINDS; kind++) {
        long seen = 1;
        for (long n = 1; seen >= n; n++) {
            qn_manifest *manifest = NULL;
            assert_int_equal(qn_manifest_new(&manifest, &err), QN_OK);
            qn_fault_arm(kind, n);
            qn_status status = qn_carry(source, destination, manifest, &err);
            seen = qn_fault_seen(kind);
            qn_fault_disarm();
            assert_true(status == QN_OK || status == err.status);
            assert_true(seen >= n || status == QN_OK);
            qn_manifest_free(manifest);
        }
    }
    assert_int_equal(qn_carry("/nonexistent", destination, NULL, &err), QN_BAD_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_of_names),
        cmocka_unit_test_setup_teardown(test_files_are_copied_and_entered, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(test_a_huge_file_stays_with_a_line, make_folders, remove_folders),
        cmocka_unit_test_setup_teardown(test_every_failure_is_told_and_leaks_nothing, make_folders, remove_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
