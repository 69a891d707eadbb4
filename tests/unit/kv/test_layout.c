/* A block's regions lie one behind the other, aligned, without overlap; what cannot be is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kv/layout.h"

static void test_regions_follow_each_other(void **state)
{
    (void)state;
    static const bool has_indexer[3] = {true, false, true};
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 3, 9, 5, 0, has_indexer, &layout, &err), QN_OK);
    /* 16 rows of 9 BF16 values take 288 bytes, rounded up to 320; of 5 values 160, rounded up to 192 */
    assert_int_equal(layout.latent_offset[0], 0);
    assert_int_equal(layout.index_offset[0], 320);
    assert_int_equal(layout.latent_offset[1], 512);
    assert_true(layout.index_offset[1] == SIZE_MAX);
    assert_int_equal(layout.latent_offset[2], 832);
    assert_int_equal(layout.index_offset[2], 1152);
    assert_int_equal(layout.block_bytes, 4096);
    assert_int_equal(layout.block_tokens, 16);
    assert_int_equal(layout.layer_count, 3);
}

static void test_released_sizes(void **state)
{
    (void)state;
    bool has_indexer[79];
    size_t full = 0;
    for (size_t layer = 0; layer < 79; layer++) {
        has_indexer[layer] = layer < 3 || layer % 4 == 2 || layer == 78;
        full += has_indexer[layer];
    }
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 128, 79, 576, 128, 0, has_indexer, &layout, &err), QN_OK);
    assert_int_equal(layout.block_bytes, 128 * 2 * (79 * 576 + full * 128));
}

static void test_final_norm_comes_last(void **state)
{
    (void)state;
    static const bool has_indexer[1] = {true};
    qn_kv_layout layout;
    qn_error err;
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 1, 9, 5, 0, has_indexer, &layout, &err), QN_OK);
    assert_true(layout.hidden_offset == SIZE_MAX);
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 1, 9, 5, 7, has_indexer, &layout, &err), QN_OK);
    assert_int_equal(layout.hidden_width, 7);
    assert_int_equal(layout.hidden_offset, 512);
    assert_int_equal(layout.block_bytes, 4096);
    /* 3584 bytes fill the block up, and one value more takes another 4096 */
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 1, 9, 5, 896, has_indexer, &layout, &err), QN_OK);
    assert_int_equal(layout.block_bytes, 4096);
    assert_int_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 1, 9, 5, 897, has_indexer, &layout, &err), QN_OK);
    assert_int_equal(layout.block_bytes, 8192);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_BF16, 16, 1, 9, 5, SIZE_MAX, has_indexer, &layout, &err), QN_OK);
}

static void test_refuses_what_cannot_be(void **state)
{
    (void)state;
    static const bool has_indexer[QN_KV_MAX_LAYERS];
    static const size_t bad_block_tokens[] = {0, 8, 24, 100, 2048};
    qn_kv_layout layout;
    qn_error err;
    for (size_t i = 0; i < sizeof bad_block_tokens / sizeof bad_block_tokens[0]; i++)
        assert_int_equal(qn_kv_layout_make(QN_DTYPE_F32, bad_block_tokens[i], 1, 8, 8, 0, has_indexer, &layout, &err),
                         QN_USAGE);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_F16, 16, 1, 8, 8, 0, has_indexer, &layout, &err), QN_OK);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_F32, 16, 0, 8, 8, 0, has_indexer, &layout, &err), QN_OK);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_F32, 16, QN_KV_MAX_LAYERS + 1, 8, 8, 0, has_indexer, &layout, &err),
                         QN_OK);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_F32, 16, 1, 0, 8, 0, has_indexer, &layout, &err), QN_OK);
    assert_int_not_equal(qn_kv_layout_make(QN_DTYPE_F32, 16, 1, 8, SIZE_MAX, 0, has_indexer, &layout, &err), QN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regions_follow_each_other),
        cmocka_unit_test(test_released_sizes),
        cmocka_unit_test(test_final_norm_comes_last),
        cmocka_unit_test(test_refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
