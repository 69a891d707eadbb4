/* Opening an engine: what it refuses and how it says so, what it tells before it allocates, defaults, and faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/json.h"
#include "unit/engine/support.h"

static qn_engine_options tiny_options(void)
{
    return (qn_engine_options){.model_dir = "models/quern-tiny", .threads = 1, .max_model_len = 256};
}

static void refused(const qn_engine_options *options, qn_status status, const char *field, const char *says)
{
    qn_engine *engine = NULL;
    qn_error err;
    clear_log();
    assert_int_equal(qn_engine_open(options, &engine, &err), status);
    assert_null(engine);
    assert_string_equal(err.field, field);
    if (strstr(err.message, says) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, says);
    }
}

static void refuses_options_that_cannot_be(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    options.max_model_len = 8193;
    refused(&options, QN_USAGE, "max-model-len", "max_position_embeddings");
    options = tiny_options();
    options.num_speculative_tokens = QN_MAX_SPECULATIVE_TOKENS + 1;
    refused(&options, QN_USAGE, "speculative-config", "out of range");
    options.num_speculative_tokens = -1;
    refused(&options, QN_USAGE, "speculative-config", "out of range");
    options = tiny_options();
    options.repetition = (qn_repetition_limits){.max_ngram = QN_REPETITION_MAX_NGRAM + 1, .repeats = 4};
    refused(&options, QN_USAGE, "--repetition-guard", "out of range");
    options = tiny_options();
    options.block_size = 100;
    refused(&options, QN_USAGE, "", "power of two");
    options = tiny_options();
    options.threads = QN_POOL_MAX_THREADS + 1;
    refused(&options, QN_USAGE, "", "threads");
    options = tiny_options();
    json_t *override = json_pack("{s:f}", "top_p", 7.0);
    options.override_generation_config = override;
    refused(&options, QN_USAGE, "top_p", "top_p");
    json_decref(override);
}

static void refuses_directories_that_are_no_model(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    options.model_dir = "/nonexistent";
    refused(&options, QN_BAD_INPUT, "", "/nonexistent");
    options.model_dir = "tests/data/oracle/tiny-dense"; /* no tokenizer */
    refused(&options, QN_BAD_INPUT, "", "tokenizer.json");
    options.without_text = true;
    options.num_speculative_tokens = 1;
    refused(&options, QN_USAGE, "speculative-config", "no MTP layer");
}

static void tells_what_it_will_hold(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    options.max_num_batched_tokens = 32;
    options.load = QN_LOAD_MAPPED;
    qn_engine *engine = open_engine(&options, NULL);
    assert_non_null(strstr(logged_lines(), "memory: weights 8.3 MiB"));
    assert_non_null(strstr(logged_lines(), "pack-dense: off: weights are mapped"));
    assert_non_null(strstr(logged_lines(), "256 tokens in blocks of 128"));
    assert_non_null(strstr(logged_lines(), "32 rows"));
    assert_non_null(strstr(logged_lines(), "memory: in all"));
    assert_int_equal(qn_engine_max_model_len(engine), 256);
    assert_true(qn_engine_load_us(engine) > 0);
    qn_engine_close(engine);
}

static void packed_weights_are_counted_as_packed(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    options.load = QN_LOAD_RESIDENT;
    options.pack_dense = QN_PACK_OFF;
    qn_engine_close(open_engine(&options, NULL));
    assert_non_null(strstr(logged_lines(), "memory: weights 8.3 MiB"));
    options.pack_dense = QN_PACK_ON;
    qn_engine_close(open_engine(&options, NULL));
    assert_non_null(strstr(logged_lines(), "memory: weights 7.9 MiB"));
    options.load = QN_LOAD_MAPPED;
    refused(&options, QN_USAGE, "pack-dense", "--load mapped");
}

/* Twice the context, about twice the cache; every kind of buffer grows with what it depends on. */
static size_t planned_bytes(const qn_engine_options *options)
{
    qn_engine *engine = open_engine(options, NULL);
    const char *sum = strstr(logged_lines(), "in all");
    assert_non_null(sum);
    sum = strchr(sum, '(');
    assert_non_null(sum);
    size_t bytes = (size_t)strtoull(sum + 1, NULL, 10);
    qn_engine_close(engine);
    return bytes;
}

static void the_plan_follows_the_options(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    size_t plain = planned_bytes(&options);
    options.max_model_len = 4096;
    size_t longer = planned_bytes(&options);
    assert_true(longer > plain + (4096 - 256) * 7 * 96 * 2);
    options = tiny_options();
    options.num_speculative_tokens = 4;
    assert_true(planned_bytes(&options) > plain + (size_t)4 * 2 * 1536 * sizeof(float));
    options = tiny_options();
    options.max_num_batched_tokens = 16;
    assert_true(planned_bytes(&options) < plain);
}

static void takes_defaults_from_the_checkpoint(void **state)
{
    (void)state;
    qn_engine_options options = tiny_options();
    options.max_model_len = 0;
    qn_engine *engine = open_engine(&options, NULL);
    assert_int_equal(qn_engine_max_model_len(engine), 8192);
    size_t count;
    const int32_t *eos = qn_engine_eos(engine, &count);
    assert_int_equal(count, 3);
    assert_int_equal(eos[0], 1515);
    assert_true(qn_engine_default_sampling(engine).temperature == 0.0F);
    assert_non_null(qn_engine_tokenizer(engine));
    qn_engine_close(engine);

    json_t *override = json_pack("{s:f, s:i}", "temperature", 0.25, "eos_token_id", 7);
    options.override_generation_config = override;
    engine = open_engine(&options, NULL);
    assert_true(qn_engine_default_sampling(engine).temperature == 0.25F);
    eos = qn_engine_eos(engine, &count);
    assert_int_equal(count, 4);
    assert_int_equal(eos[3], 7);
    qn_engine_close(engine);
    json_decref(override);
}

static void check_faults(qn_fault_kind kind, const char *what)
{
    qn_engine_options options = tiny_options();
    options.num_speculative_tokens = 2;
    long failures = 0;
    clear_log();
    for (long n = 1;; n += n < 100 ? 1 : n / 10) { /* all of the first, then ever fewer */
        qn_engine *engine = NULL;
        qn_error err;
        qn_fault_arm(kind, n);
        qn_status status = qn_engine_open(&options, &engine, &err);
        qn_fault_disarm();
        if (status == QN_OK) {
            qn_engine_close(engine);
            print_message("%ld %s failed in turn\n", failures, what);
            return;
        }
        assert_null(engine);
        assert_int_equal(status, QN_RESOURCE);
        failures++;
        clear_log();
    }
}

static void every_allocation_and_read_may_fail(void **state)
{
    (void)state;
    check_faults(QN_FAULT_ALLOC, "allocations");
    check_faults(QN_FAULT_READ, "reads");
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_options_that_cannot_be),
        cmocka_unit_test(refuses_directories_that_are_no_model),
        cmocka_unit_test(tells_what_it_will_hold),
        cmocka_unit_test(packed_weights_are_counted_as_packed),
        cmocka_unit_test(the_plan_follows_the_options),
        cmocka_unit_test(takes_defaults_from_the_checkpoint),
        cmocka_unit_test(every_allocation_and_read_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
