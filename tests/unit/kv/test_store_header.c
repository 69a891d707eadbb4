#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "store_support.h"

enum { HEADER_BYTES = 4096, CHECKSUM_AT = 8, BODY_AT = 24 };

static uint8_t data[QN_KV_HEADER_MAX_BYTES];

static void encode(void)
{
    int32_t ids[TEST_BLOCK_TOKENS];
    qn_kv_header header = test_header(3, 4);
    header.payload_checksum = (qn_hash){.high = 5, .low = 6};
    test_ids(3, 4, ids);
    memset(data, 0xff, sizeof data);
    qn_kv_header_encode(&header, ids, data);
}

static void expect_damage(size_t bytes, const char *reason)
{
    qn_kv_header header;
    qn_error err;
    assert_int_equal(qn_kv_header_parse(data, bytes, "f", &header, &err), QN_BAD_INPUT);
    assert_memory_equal(err.message, "f: ", 3);
    assert_non_null(strstr(err.message, reason));
}

/* Makes the checksum fit again, so that what was changed meets the checks behind it. */
static void seal(void)
{
    qn_hash hash = qn_hash_bytes(data + BODY_AT, HEADER_BYTES - BODY_AT);
    memcpy(data + CHECKSUM_AT, &hash.low, 8);
    memcpy(data + CHECKSUM_AT + 8, &hash.high, 8);
}

static void test_a_header_comes_back(void **state)
{
    (void)state;
    int32_t ids[TEST_BLOCK_TOKENS];
    qn_kv_header header, expected = test_header(3, 4);
    qn_error err;
    encode();
    assert_int_equal(qn_kv_header_parse(data, sizeof data, "f", &header, &err), QN_OK);
    assert_int_equal(header.block_bytes, TEST_BLOCK_BYTES);
    assert_int_equal(header.block_tokens, TEST_BLOCK_TOKENS);
    assert_true(qn_hash_equal(header.key, expected.key));
    assert_true(qn_hash_equal(header.parent, expected.parent));
    assert_true(qn_hash_equal(header.fingerprint, expected.fingerprint));
    assert_true(qn_hash_equal(header.payload_checksum, (qn_hash){.high = 5, .low = 6}));
    test_ids(3, 4, ids);
    assert_true(qn_kv_header_has_ids(data, ids, TEST_BLOCK_TOKENS));
    ids[TEST_BLOCK_TOKENS - 1]++;
    assert_false(qn_kv_header_has_ids(data, ids, TEST_BLOCK_TOKENS));
    assert_int_equal(data[HEADER_BYTES - 1], 0);
    assert_int_equal(data[HEADER_BYTES], 0xff);
}

static void test_every_cut_and_every_flipped_bit_is_seen(void **state)
{
    (void)state;
    encode();
    for (size_t bytes = 0; bytes < HEADER_BYTES; bytes++)
        expect_damage(bytes, "ends inside of its header");
    for (size_t bit = 0; bit < 8 * HEADER_BYTES; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        expect_damage(sizeof data, "");
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void test_other_formats_and_sizes_are_told(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint64_t value;
        const char *reason;
    } changes[] = {
        {0, 0, "is no KV block"},
        {24, HEADER_BYTES * 2, "sizes that no KV block has"},
        {24, UINT64_MAX, "sizes that no KV block has"},
        {32, 0, "sizes that no KV block has"},
        {32, ((uint64_t)1 << 40) + 1, "sizes that no KV block has"},
        {32, UINT64_MAX, "sizes that no KV block has"},
        {40, 0, "sizes that no KV block has"},
        {40, QN_KV_FILE_MAX_TOKENS, "sizes that no KV block has"}, /* their header is larger */
        {40, UINT64_MAX / 4 + 1, "sizes that no KV block has"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        encode();
        memcpy(data + changes[i].at, &changes[i].value, 8);
        seal();
        expect_damage(sizeof data, changes[i].reason);
    }
    encode();
    data[7] = '2';
    expect_damage(sizeof data, "another version");
}

static void test_sizes(void **state)
{
    (void)state;
    size_t bytes;
    assert_int_equal(qn_kv_header_bytes(996), 4096);
    assert_int_equal(qn_kv_header_bytes(997), 8192);
    assert_int_equal(qn_kv_header_bytes(QN_KV_FILE_MAX_TOKENS), QN_KV_HEADER_MAX_BYTES);
    assert_int_equal(qn_kv_payload_bytes(4096), 4096);
    assert_int_equal(qn_kv_payload_bytes(4097), 8192);
    assert_true(qn_kv_file_bytes(4097, 16, &bytes));
    assert_int_equal(bytes, 12288);
    assert_false(qn_kv_file_bytes(0, 16, &bytes));
    assert_false(qn_kv_file_bytes(SIZE_MAX, 16, &bytes));
    assert_false(qn_kv_file_bytes(4096, 0, &bytes));
    assert_false(qn_kv_file_bytes(4096, QN_KV_FILE_MAX_TOKENS + 1, &bytes));
}

static void test_ids_differ_by_key_model_and_sizes(void **state)
{
    (void)state;
    const qn_kv_header base = test_header(1, 1);
    qn_kv_header others[5] = {base, base, base, base, base};
    others[0].key.low++;
    others[1].fingerprint.high++;
    others[2].block_bytes++;
    others[3].block_tokens++;
    others[4].key.high++;
    for (size_t i = 0; i < 5; i++)
        assert_false(qn_hash_equal(qn_kv_header_id(&base), qn_kv_header_id(&others[i])));
    qn_kv_header child = test_header(1, 2);
    assert_true(qn_hash_equal(qn_kv_header_parent_id(&child), qn_kv_header_id(&base)));
    child.parent.low++;
    assert_true(qn_hash_equal(qn_kv_header_id(&child), qn_kv_header_id(&(qn_kv_header){
                                                           .block_bytes = TEST_BLOCK_BYTES,
                                                           .block_tokens = TEST_BLOCK_TOKENS,
                                                           .fingerprint = base.fingerprint,
                                                           .key = test_key(1, 2),
                                                       })));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_header_comes_back),
        cmocka_unit_test(test_every_cut_and_every_flipped_bit_is_seen),
        cmocka_unit_test(test_other_formats_and_sizes_are_told),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_ids_differ_by_key_model_and_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
