#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "scratch_folder.h"
#include "synth/synth.h"

static const char TINY[] = "models/quern-tiny", CONFIG[] = "tests/data/oracle/tiny-sharded/config.json";

static char scratch[SCRATCH_PATH_BYTES], destination[SCRATCH_PATH_BYTES];

static int make_scratch(void **state)
{
    (void)state;
    scratch_make(scratch);
    scratch_path(scratch, "out", destination);
    return 0;
}

static int remove_scratch(void **state)
{
    (void)state;
    scratch_remove(scratch);
    return 0;
}

static qn_synth_options options_for(const char *source)
{
    return (qn_synth_options){
        .source = source, .destination = destination, .max_shard_bytes = QN_SYNTH_DEFAULT_SHARD_BYTES, .threads = 2};
}

static bool has(const char *name)
{
    char path[SCRATCH_PATH_BYTES];
    scratch_path(destination, name, path);
    return access(path, F_OK) == 0;
}

/* Opens what was written as a model would: every tensor of the config and no other. */
static void check_opens(size_t tensors)
{
    qn_checkpoint *checkpoint = NULL;
    qn_error err;
    if (qn_checkpoint_open(destination, &checkpoint, &err) != QN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(qn_checkpoint_tensor_count(checkpoint), tensors);
    qn_checkpoint_close(checkpoint);
}

static void test_a_folder_with_its_tokenizer(void **state)
{
    (void)state;
    const qn_synth_options options = options_for(TINY);
    qn_synth_result result;
    qn_error err;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_true(result.files == 1 && result.format == QN_SYNTH_BF16 && result.weights > 4000000);
    assert_true(has("tokenizer.json") && has("chat_template.jinja") && has("generation_config.json"));
    assert_false(has("model.safetensors.index.json"));
    check_opens(result.tensors);
}

static void test_a_config_in_several_files(void **state)
{
    (void)state;
    qn_synth_options options = options_for(CONFIG);
    options.max_shard_bytes = 200000;
    qn_synth_result result;
    qn_error err;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_true(result.files > 3 && has("model.safetensors.index.json") && !has("tokenizer.json"));
    check_opens(result.tensors);
}

static void test_cuts_show_in_the_config(void **state)
{
    (void)state;
    qn_synth_options options = options_for(TINY);
    options.cut = (qn_synth_cut){.layers = 2, .moves_sparse = true, .experts = 3, .vocab = 1000, .without_mtp = true};
    qn_synth_result result;
    qn_error err;
    qn_checkpoint *checkpoint = NULL;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_false(has("tokenizer.json"));
    assert_int_equal(qn_checkpoint_open(destination, &checkpoint, &err), QN_OK);
    const qn_config *config = qn_checkpoint_config(checkpoint);
    assert_true(config->num_hidden_layers == 2 && config->n_routed_experts == 3 && config->layer_is_sparse[0]);
    assert_true(config->num_nextn_predict_layers == 0 && config->vocab_size == 1000);
    qn_checkpoint_close(checkpoint);
}

static void test_formats(void **state)
{
    (void)state;
    qn_synth_options options = options_for("tests/data/oracle/tiny-sparse-mxfp4-ct");
    qn_synth_result result;
    qn_error err;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_int_equal(result.format, QN_SYNTH_MXFP4);
    check_opens(result.tensors);
    uint64_t bytes = result.bytes;
    scratch_remove(destination);
    options.source = "tests/data/oracle/tiny-sparse-mxfp4-quark"; /* of the same model */
    options.format = QN_SYNTH_MXFP4;
    options.max_shard_bytes = 300000;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_true(result.bytes == bytes && result.files > 1);
    check_opens(result.tensors);
    scratch_remove(destination);
    options.format = QN_SYNTH_BF16;
    assert_int_equal(qn_synth_write(&options, &result, &err), QN_OK);
    assert_true(result.bytes > bytes);
    check_opens(result.tensors);
}

static uint64_t hash_of(const qn_synth_options *options)
{
    qn_synth_result result;
    qn_error err;
    char name[SCRATCH_PATH_BYTES];
    assert_int_equal(qn_synth_write(options, &result, &err), QN_OK);
    uint64_t hash = scratch_hash(destination);
    snprintf(name, sizeof name, "%.400s/%llu", scratch, (unsigned long long)hash);
    if (rename(destination, name) != 0) /* there is one like it already */
        scratch_remove(destination);
    return hash;
}

static void test_bytes_follow_from_the_seed(void **state)
{
    (void)state;
    qn_synth_options options = options_for(TINY);
    uint64_t hash = hash_of(&options);
    options.threads = 5;
    assert_true(hash_of(&options) == hash);
    options.seed = 1;
    assert_true(hash_of(&options) != hash);
}

static qn_status fails(const qn_synth_options *options, const char *reason)
{
    qn_synth_result result;
    qn_error err;
    qn_status status = qn_synth_write(options, &result, &err);
    assert_int_not_equal(status, QN_OK);
    if (!strstr(err.message, reason))
        fail_msg("%s", err.message);
    return status;
}

static void test_what_is_refused_leaves_nothing(void **state)
{
    (void)state;
    qn_synth_options options = options_for("tests/data/oracle/none");
    assert_int_equal(fails(&options, "no such file"), QN_BAD_INPUT);
    options = options_for("models/quern-tiny/tokenizer_config.json");
    assert_int_equal(fails(&options, "model_type"), QN_BAD_INPUT);
    options = options_for("tests/data/oracle/tiny-sparse-mxfp4-quark");
    assert_int_equal(fails(&options, "--format"), QN_USAGE);
    options = options_for(TINY);
    options.cut.layers = 100;
    assert_int_equal(fails(&options, "--layers 100"), QN_USAGE);
    assert_int_equal(access(destination, F_OK), -1);

    options = options_for(TINY);
    options.destination = "/proc/none/out";
    assert_int_equal(fails(&options, "cannot be made"), QN_USAGE);
    options.destination = CONFIG; /* a file */
    assert_int_equal(fails(&options, "cannot be listed"), QN_USAGE);
    options.destination = TINY;
    assert_int_equal(fails(&options, "is not empty"), QN_USAGE);
    assert_int_equal(access("models/quern-tiny/model.safetensors", F_OK), 0);
}

/* 1.5 TB: more than the memory of a machine that runs tests has. */
static void test_a_disk_without_room_is_told_first(void **state)
{
    (void)state;
    qn_synth_options options = options_for("tests/data/glm-5.3");
    options.destination = "/dev/shm/quern-synth-unit-test";
    struct statvfs disk;
    if (statvfs("/dev/shm", &disk) != 0 || disk.f_bavail * disk.f_frsize > UINT64_C(1500000000000))
        skip();
    assert_int_equal(fails(&options, "bytes free and this takes 1506"), QN_RESOURCE);
    assert_int_equal(access(options.destination, F_OK), -1);
}

static void test_each_failure_leaves_nothing(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ, QN_FAULT_WRITE};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        qn_status status = QN_RESOURCE;
        for (long nth = 1; status != QN_OK; nth = nth < 40 ? nth + 1 : nth * 6 / 5) {
            qn_synth_options options = options_for(TINY);
            options.cut.layers = 1;
            options.max_shard_bytes = 500000;
            options.threads = 1;
            qn_synth_result result;
            qn_error err;
            qn_fault_arm(kinds[k], nth);
            status = qn_synth_write(&options, &result, &err);
            bool reached = qn_fault_seen(kinds[k]) >= nth;
            qn_fault_disarm();
            assert_true(reached || status == QN_OK);
            if (status != QN_OK) {
                assert_int_equal(status, QN_RESOURCE);
                assert_int_equal(access(destination, F_OK), -1);
            }
        }
        scratch_remove(destination);
    }
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        EACH(test_a_folder_with_its_tokenizer),       EACH(test_a_config_in_several_files),
        EACH(test_cuts_show_in_the_config),           EACH(test_formats),
        EACH(test_bytes_follow_from_the_seed),        EACH(test_what_is_refused_leaves_nothing),
        EACH(test_a_disk_without_room_is_told_first), EACH(test_each_failure_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
