/* A slot's parts as its reads go on, without a disk: their states are set by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/expert_slot.h"

static const size_t BYTES[QN_EXPERT_PARTS] = {9000, 300, 9000, 0, 5000, 0};

static void test_parts_never_share_memory(void **state)
{
    (void)state;
    size_t all = qn_expert_slot_bytes(BYTES);
    uint8_t *memory = qn_direct_buffer_new(all), *end = memory;
    assert_non_null(memory);
    qn_expert_slot slot;
    qn_expert_slot_make(&slot, BYTES, memory);
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (BYTES[p] == 0)
            continue;
        assert_ptr_equal(slot.parts[p].buffer, end);
        assert_int_equal(slot.parts[p].bytes, BYTES[p]);
        end += qn_direct_buffer_bytes(BYTES[p]);
    }
    assert_ptr_equal(end, memory + all);
    qn_direct_buffer_free(memory, all);
}

static uint8_t place[1 << 17]; /* nothing is read to it */

static void set_states(qn_expert_slot *slot, qn_async_state state, int error)
{
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        slot->parts[p].state = BYTES[p] > 0 ? state : QN_ASYNC_IDLE;
        slot->parts[p].error = error;
    }
}

static void test_an_expert_without_one_of_its_parts_is_not_there(void **state)
{
    (void)state;
    qn_expert_slot slot;
    assert_in_range(qn_expert_slot_bytes(BYTES), 1, sizeof place);
    qn_expert_slot_make(&slot, BYTES, place);
    assert_true(qn_expert_slot_is_untouched(&slot));
    for (size_t p = 0; p < QN_EXPERT_PARTS; p++) {
        if (BYTES[p] == 0)
            continue;
        set_states(&slot, QN_ASYNC_DONE, 0);
        assert_true(qn_expert_slot_is_there(&slot));
        assert_null(qn_expert_slot_unread(&slot));
        for (int s = QN_ASYNC_IDLE; s < QN_ASYNC_DONE; s++) {
            slot.parts[p].state = (qn_async_state)s;
            assert_false(qn_expert_slot_is_there(&slot));
            assert_false(qn_expert_slot_is_untouched(&slot));
            assert_ptr_equal(qn_expert_slot_unread(&slot), &slot.parts[p]);
            assert_int_equal(qn_expert_slot_is_under_way(&slot), s != QN_ASYNC_IDLE);
        }
    }
}

static void test_a_part_that_failed_is_told_and_is_not_there(void **state)
{
    (void)state;
    qn_expert_slot slot;
    assert_in_range(qn_expert_slot_bytes(BYTES), 1, sizeof place);
    qn_expert_slot_make(&slot, BYTES, place);
    set_states(&slot, QN_ASYNC_DONE, 0);
    assert_null(qn_expert_slot_failed(&slot));
    slot.parts[4].error = 5;
    assert_ptr_equal(qn_expert_slot_failed(&slot), &slot.parts[4]);
    assert_false(qn_expert_slot_is_there(&slot));
    assert_false(qn_expert_slot_is_under_way(&slot));
}

/* Whole blocks, wherever a part begins. */
static void test_what_is_read_is_what_its_parts_are_widened_to(void **state)
{
    (void)state;
    qn_expert_slot slot;
    qn_expert_slot_make(&slot, BYTES, place);
    assert_int_equal(qn_expert_slot_read_bytes(&slot), 12288 + 4096 + 12288 + 8192);
    slot.parts[0].offset = 4095;
    slot.parts[1].offset = 4000;
    assert_int_equal(qn_expert_slot_read_bytes(&slot), 16384 + 8192 + 12288 + 8192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_never_share_memory),
        cmocka_unit_test(test_an_expert_without_one_of_its_parts_is_not_there),
        cmocka_unit_test(test_what_is_read_is_what_its_parts_are_widened_to),
        cmocka_unit_test(test_a_part_that_failed_is_told_and_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
