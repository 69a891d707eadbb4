#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/hash.h"

/* The values of the reference program: `printf '' | xxhsum -H128`, and so on. */
static void test_known_values(void **state)
{
    (void)state;
    char text[QN_HASH_TEXT_BYTES];
    assert_string_equal(qn_hash_text(qn_hash_bytes("", 0), text), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(qn_hash_text(qn_hash_bytes("a", 1), text), "a96faf705af16834e6c632b61e964e1f");
    assert_string_equal(qn_hash_text(qn_hash_bytes("quern", 5), text), "d483a383bc596930ea0d8941912eac6d");
}

static void test_the_split_into_pieces_has_no_influence(void **state)
{
    (void)state;
    enum { BYTES = 5000 };
    static uint8_t data[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 31 >> 3);
    qn_hasher *hasher = qn_hasher_new();
    assert_non_null(hasher);
    for (size_t step = 1; step < 1200; step = step * 3 + 1) {
        qn_hasher_reset(hasher);
        for (size_t at = 0; at < BYTES; at += step)
            qn_hasher_update(hasher, data + at, at + step < BYTES ? step : BYTES - at);
        assert_true(qn_hash_equal(qn_hasher_finish(hasher), qn_hash_bytes(data, BYTES)));
    }
    qn_hasher_reset(hasher);
    qn_hasher_update(hasher, NULL, 0);
    assert_true(qn_hash_equal(qn_hasher_finish(hasher), qn_hash_bytes("", 0)));
    qn_hasher_free(hasher);
    qn_hasher_free(NULL);
}

static void test_one_flipped_bit_changes_the_hash(void **state)
{
    (void)state;
    uint8_t data[300] = {0};
    qn_hash before = qn_hash_bytes(data, sizeof data);
    for (size_t i = 0; i < sizeof data * 8; i += 7) {
        data[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(qn_hash_equal(before, qn_hash_bytes(data, sizeof data)));
        data[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}

static void test_text_round_trip_and_refusals(void **state)
{
    (void)state;
    char text[QN_HASH_TEXT_BYTES];
    qn_hash hash = {.high = 0x0123456789abcdefu, .low = 0x00000000fedcba98u}, back = {0};
    assert_string_equal(qn_hash_text(hash, text), "0123456789abcdef00000000fedcba98");
    assert_true(qn_hash_parse(text, 32, &back));
    assert_true(qn_hash_equal(hash, back));
    assert_false(qn_hash_parse(text, 31, &back));
    assert_false(qn_hash_parse("0123456789abcdef00000000fedcba980", 33, &back));
    assert_false(qn_hash_parse("0123456789ABCDEF00000000fedcba98", 32, &back));
    assert_false(qn_hash_parse("0123456789abcde 00000000fedcba98", 32, &back));
    assert_false(qn_hash_parse("g123456789abcdef00000000fedcba98", 32, &back));
    assert_false(qn_hash_parse("", 0, &back));
}

static void test_no_memory_gives_no_hasher(void **state)
{
    (void)state;
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    qn_hasher *hasher = qn_hasher_new();
    qn_fault_disarm();
    assert_null(hasher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_the_split_into_pieces_has_no_influence),
        cmocka_unit_test(test_one_flipped_bit_changes_the_hash),
        cmocka_unit_test(test_text_round_trip_and_refusals),
        cmocka_unit_test(test_no_memory_gives_no_hasher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
