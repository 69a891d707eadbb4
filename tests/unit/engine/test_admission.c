/* What becomes of blocks: shared, stored, and found again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine_internal.h"
#include "unit/engine/support.h"

enum { BLOCK_TOKENS = 16 };

static char folder[] = "/tmp/quern-admission-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_it(void **state)
{
    char command[sizeof folder + 16];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static qn_engine *open_with_store(size_t blocks)
{
    const qn_engine_options options = {.model_dir = "tests/data/oracle/tiny-mtp",
                                       .without_text = true,
                                       .threads = 1,
                                       .max_model_len = blocks * BLOCK_TOKENS,
                                       .block_size = BLOCK_TOKENS,
                                       .max_num_seqs = 1,
                                       .prefix_caching = true,
                                       .num_speculative_tokens = 1,
                                       .kv_store_dir = folder,
                                       .kv_store_bytes = 1 << 28};
    return open_engine(&options, NULL);
}

static size_t cached_of(qn_engine *engine, const int32_t *ids, size_t count)
{
    const qn_request request = {.prompt_ids = ids,
                                .prompt_count = count,
                                .max_tokens = 1,
                                .sampling = qn_sampling_greedy(),
                                .ignore_eos = true};
    qn_result result = run_engine(engine, &request, NULL);
    size_t cached = result.timings.cached_tokens;
    qn_result_free(&result);
    return cached;
}

/* All blocks that a single step fills reach the disk, in a cache that is hardly larger than they are. */
static void test_a_prompt_of_one_step_is_stored_whole(void **state)
{
    static const size_t sizes[] = {7, 16};
    int32_t ids[16 * BLOCK_TOKENS];
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        size_t blocks = sizes[s], whole = blocks / 2, count = whole * BLOCK_TOKENS + 1;
        for (size_t i = 0; i < count; i++) {
            ids[i] = (int32_t)(3 + (i * 7 + s) % 90);
        }
        qn_engine *engine = open_with_store(blocks);
        assert_int_equal(cached_of(engine, ids, count), 0);
        qn_engine_close(engine);
        engine = open_with_store(blocks);
        assert_int_equal(cached_of(engine, ids, count), whole * BLOCK_TOKENS);
        assert_int_equal(cached_of(engine, ids, count), whole * BLOCK_TOKENS);
        qn_engine_close(engine);
    }
}

/* A plain cache needs no fingerprint, for which the program itself would be read. */
static void test_requests_in_memory_share_blocks(void **state)
{
    int32_t ids[3 * BLOCK_TOKENS + 1];
    (void)state;
    for (size_t i = 0; i < 3 * BLOCK_TOKENS + 1; i++) {
        ids[i] = (int32_t)(3 + i % 50);
    }
    const qn_engine_options options = {.model_dir = "tests/data/oracle/tiny-mtp",
                                       .without_text = true,
                                       .threads = 1,
                                       .max_model_len = 8 * BLOCK_TOKENS,
                                       .block_size = BLOCK_TOKENS,
                                       .prefix_caching = true};
    qn_engine *engine = open_engine(&options, NULL);
    assert_int_equal(cached_of(engine, ids, 3 * BLOCK_TOKENS), 0);
    /* at least one token of a prompt is computed, though all of its blocks are known */
    assert_int_equal(cached_of(engine, ids, 3 * BLOCK_TOKENS), 2 * BLOCK_TOKENS);
    assert_int_equal(cached_of(engine, ids, 3 * BLOCK_TOKENS + 1), 3 * BLOCK_TOKENS);
    qn_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_prompt_of_one_step_is_stored_whole, make_folder, remove_it),
        cmocka_unit_test(test_requests_in_memory_share_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
