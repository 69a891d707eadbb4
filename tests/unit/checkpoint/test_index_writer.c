#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/index.h"
#include "checkpoint/index_writer.h"

static const char FIRST[] = "model-00001-of-00002.safetensors", SECOND[] = "model-00002-of-00002.safetensors";
static const uint64_t TOTAL = 9007199254740993; /* no double */

static void test_is_read_back_whatever_the_order_of_entries(void **state)
{
    (void)state;
    qn_placed_tensor one[] = {{"b", SECOND}, {"a", FIRST}, {"c", FIRST}};
    qn_placed_tensor other[] = {{"c", FIRST}, {"a", FIRST}, {"b", SECOND}};
    qn_buffer first = {0}, second = {0};
    qn_index_format(one, 3, TOTAL, &first);
    qn_index_format(other, 3, TOTAL, &second);
    assert_string_equal(first.data, second.data);

    char dir[] = "/tmp/quern-index-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *path = qn_path_join(dir, "model.safetensors.index.json");
    qn_index index;
    qn_error err;
    assert_int_equal(qn_file_write(path, first.data, first.size, &err), QN_OK);
    assert_int_equal(qn_index_open(path, &index, &err), QN_OK);
    assert_true(index.has_total && index.total_size == TOTAL);
    assert_int_equal(index.file_count, 2);
    assert_int_equal(qn_index_count(&index), 3);
    assert_string_equal(qn_index_file_of(&index, "b"), SECOND);
    assert_string_equal(qn_index_file_of(&index, "c"), FIRST);
    qn_index_close(&index);
    unlink(path);
    qn_free(path);
    assert_int_equal(rmdir(dir), 0);
    qn_buffer_free(&first);
    qn_buffer_free(&second);
}

static void test_no_part_is_missing_in_silence_when_memory_is_short(void **state)
{
    (void)state;
    for (long nth = 1;; nth++) {
        qn_placed_tensor placed[] = {{"b", SECOND}, {"a", FIRST}};
        qn_buffer text = {0};
        qn_fault_arm(QN_FAULT_ALLOC, nth);
        qn_index_format(placed, 2, TOTAL, &text);
        bool reached = qn_fault_seen(QN_FAULT_ALLOC) >= nth, failed = text.failed;
        qn_fault_disarm();
        qn_buffer_free(&text);
        assert_true(failed == reached);
        if (!reached)
            break;
    }
}

int main(void)
{
    qn_json_init();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_is_read_back_whatever_the_order_of_entries),
                                       cmocka_unit_test(test_no_part_is_missing_in_silence_when_memory_is_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
