#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/async_reader.h"
#include "base/fault.h"
#include "base/random.h"
#include "read_file.h"

enum { READS = 50, LONGEST = 5 * QN_DIRECT_ALIGNMENT };

static const uint64_t PATIENCE_US = 60000000;

static qn_async_reader *new_reader(size_t depth, uint64_t patience_us)
{
    qn_async_reader *reader = NULL;
    qn_error err = {0};
    if (qn_async_reader_new(depth, patience_us, &reader, &err) != QN_OK)
        fail_msg("%s", err.message);
    return reader;
}

static qn_async_read read_of(const qn_direct_reader *file, uint64_t offset, size_t bytes)
{
    qn_async_read read = {.file = file, .offset = offset, .bytes = bytes};
    read.buffer = qn_direct_buffer_new(qn_direct_buffer_bytes(bytes));
    assert_non_null(read.buffer);
    return read;
}

static void free_read(qn_async_read *read)
{
    qn_direct_buffer_free(read->buffer, qn_direct_buffer_bytes(read->bytes));
}

static void expect_content(const qn_async_read *read)
{
    assert_memory_equal(qn_async_read_data(read), read_file_content + read->offset, read->bytes);
}

static void read_all_ways(bool buffered, size_t depth)
{
    qn_direct_reader *file = open_read_file(buffered);
    qn_async_reader *reader = new_reader(depth, PATIENCE_US);
    qn_async_read reads[READS];
    uint64_t seed = qn_random_seed();
    qn_error err = {0};
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < READS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = 1 + (seed >> 33) % LONGEST, offset = (seed >> 13) % (READ_FILE_BYTES - bytes + 1);
        reads[i] = read_of(file, i == 0 ? READ_FILE_BYTES - bytes : offset, bytes);
        qn_async_reader_start(reader, &reads[i], i % 3 == 0);
    }
    for (size_t i = 0; i < READS; i += 5)
        qn_async_reader_start(reader, &reads[i], true);
    for (size_t i = READS; i-- > 0;) {
        if (qn_async_reader_wait(reader, &reads[i], &err) != QN_OK)
            fail_msg("%s", err.message);
        expect_content(&reads[i]);
    }
    assert_int_equal(qn_async_reader_wait_any(reader, NULL, &err), QN_OK);
    for (size_t i = 0; i < READS; i++)
        free_read(&reads[i]);
    qn_async_reader_free(reader);
    qn_direct_reader_close(file);
}

static void test_any_ranges_at_any_depth(void **state)
{
    (void)state;
    for (size_t depth = 1; depth <= (size_t)2 * READS; depth = 3 * depth + 1) {
        read_all_ways(false, depth);
        read_all_ways(true, depth);
    }
}

static void test_urgent_reads_pass_those_that_wait(void **state)
{
    (void)state;
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(1, PATIENCE_US);
    qn_async_read hoped[3], urgent = read_of(file, 5, 100);
    qn_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        hoped[i] = read_of(file, i * QN_DIRECT_ALIGNMENT, QN_DIRECT_ALIGNMENT);
        qn_async_reader_start(reader, &hoped[i], false);
    }
    qn_async_reader_poll(reader); /* the first is under way now: there is room for one */
    qn_async_reader_start(reader, &urgent, true);
    qn_async_reader_start(reader, &hoped[2], true);
    assert_int_equal(qn_async_reader_wait(reader, &urgent, &err), QN_OK);
    assert_int_equal(hoped[0].state, QN_ASYNC_DONE);
    assert_int_equal(hoped[1].state, QN_ASYNC_QUEUED);
    assert_int_equal(qn_async_reader_wait(reader, &hoped[2], &err), QN_OK);
    assert_int_equal(qn_async_reader_wait(reader, &hoped[1], &err), QN_OK);
    for (size_t i = 0; i < 3; i++) {
        expect_content(&hoped[i]);
        free_read(&hoped[i]);
    }
    free_read(&urgent);
    qn_async_reader_free(reader);
    qn_direct_reader_close(file);
}

static void test_hopes_leave_room_and_are_forgotten(void **state)
{
    (void)state;
    enum { HOPED = 6, DEPTH = 6, AT_ONCE = DEPTH / 3 };
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(DEPTH, PATIENCE_US);
    qn_async_read hoped[HOPED], urgent = read_of(file, 5, 100);
    qn_error err = {0};
    for (size_t i = 0; i < HOPED; i++) {
        hoped[i] = read_of(file, i * QN_DIRECT_ALIGNMENT, QN_DIRECT_ALIGNMENT);
        qn_async_reader_start(reader, &hoped[i], false);
    }
    qn_async_reader_start(reader, &hoped[HOPED - 1], true); /* no hope any more */
    qn_async_reader_poll(reader);
    for (size_t i = 0; i < HOPED; i++)
        assert_int_equal(hoped[i].state, i < AT_ONCE || i == HOPED - 1 ? QN_ASYNC_UNDER_WAY : QN_ASYNC_QUEUED);
    qn_async_reader_start(reader, &urgent, true);
    qn_async_reader_forget_hoped(reader);
    for (size_t i = AT_ONCE; i + 1 < HOPED; i++)
        assert_int_equal(hoped[i].state, QN_ASYNC_IDLE);
    assert_int_equal(qn_async_reader_wait(reader, &urgent, &err), QN_OK);
    qn_async_reader_start(reader, &hoped[AT_ONCE], false); /* which may be hoped for again */
    for (size_t i = 0; i < HOPED; i++)
        assert_int_equal(qn_async_reader_wait(reader, &hoped[i], &err), QN_OK);
    assert_int_equal(qn_async_reader_bytes(reader), (AT_ONCE + 3) * QN_DIRECT_ALIGNMENT);
    for (size_t i = 0; i < HOPED; i++)
        free_read(&hoped[i]);
    free_read(&urgent);
    qn_async_reader_free(reader);
    qn_direct_reader_close(file);
}

static void test_hopes_give_way_between_two_pieces(void **state)
{
    (void)state;
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(1, PATIENCE_US);
    qn_async_read hoped = read_of(file, 100, READ_FILE_BYTES - 200), urgent = read_of(file, 5, 100);
    qn_error err = {0};
    assert_true(READ_FILE_BYTES > 2 * QN_ASYNC_HOPED_PIECE);
    qn_async_reader_start(reader, &hoped, false);
    qn_async_reader_poll(reader);
    qn_async_reader_start(reader, &urgent, true);
    assert_int_equal(qn_async_reader_wait(reader, &urgent, &err), QN_OK);
    assert_int_equal(hoped.state, QN_ASYNC_UNDER_WAY);
    assert_int_equal(hoped.got, QN_ASYNC_HOPED_PIECE);
    assert_int_equal(qn_async_reader_wait(reader, &hoped, &err), QN_OK);
    expect_content(&hoped);
    free_read(&hoped);
    free_read(&urgent);
    qn_async_reader_free(reader);
    qn_direct_reader_close(file);
}

/* Nothing is read twice, whatever becomes of a hope. */
static void test_forgotten_hopes_stop_and_go_on_where_they_were(void **state)
{
    (void)state;
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(3, PATIENCE_US);
    qn_async_read hoped = read_of(file, 100, READ_FILE_BYTES - 200);
    qn_error err = {0};
    qn_async_reader_start(reader, &hoped, false);
    qn_async_reader_poll(reader);
    qn_async_reader_forget_hoped(reader);
    assert_int_equal(hoped.state, QN_ASYNC_UNDER_WAY); /* what is under way can't be called off */
    while (hoped.state == QN_ASYNC_UNDER_WAY)
        assert_int_equal(qn_async_reader_wait_any(reader, NULL, &err), QN_OK);
    assert_int_equal(hoped.state, QN_ASYNC_IDLE);
    assert_int_equal(hoped.got, QN_ASYNC_HOPED_PIECE);

    qn_async_reader_start(reader, &hoped, false);
    qn_async_reader_poll(reader);
    qn_async_reader_forget_hoped(reader);
    qn_async_reader_start(reader, &hoped, false); /* hoped for again while its piece is under way */
    qn_async_reader_start(reader, &hoped, true);  /* and then needed */
    assert_int_equal(qn_async_reader_wait(reader, &hoped, &err), QN_OK);
    expect_content(&hoped);
    assert_int_equal(qn_async_reader_bytes(reader), READ_FILE_BYTES);

    qn_async_reader_start(reader, &hoped, false);
    qn_async_reader_poll(reader);
    assert_true(qn_async_reader_free(reader)); /* which waits for a piece, not for the rest */
    assert_true(hoped.got <= QN_ASYNC_HOPED_PIECE);
    free_read(&hoped);
    qn_direct_reader_close(file);
}

static void test_a_cut_off_file_is_named(void **state)
{
    (void)state;
    static const size_t beyond[] = {1, 4096, 12288};
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(4, PATIENCE_US);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        qn_error err = {0};
        qn_async_read read = read_of(file, READ_FILE_BYTES - 10, 10 + beyond[i]);
        qn_async_reader_start(reader, &read, true);
        assert_int_equal(qn_async_reader_wait(reader, &read, &err), QN_BAD_INPUT);
        assert_non_null(strstr(err.message, read_file_path));
        assert_non_null(strstr(err.message, "truncated"));
        free_read(&read);
    }
    qn_async_reader_free(reader);
    qn_direct_reader_close(file);
}

static void test_a_failing_read_is_told_and_may_be_tried_again(void **state)
{
    (void)state;
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(4, PATIENCE_US);
    qn_async_read read = read_of(file, 100, 9000);
    qn_error err = {0};
    qn_async_reader_start(reader, &read, true);
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_async_reader_wait(reader, &read, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, read_file_path));
    qn_async_reader_start(reader, &read, true);
    assert_int_equal(qn_async_reader_wait(reader, &read, &err), QN_OK);
    expect_content(&read);
    qn_async_reader_start(reader, &read, true);
    qn_async_reader_poll(reader);
    assert_true(qn_async_reader_free(reader)); /* nothing is written to the buffer any more */
    free_read(&read);
    qn_direct_reader_close(file);
}

static void test_a_disk_that_never_answers_ends_the_wait(void **state)
{
    (void)state;
    qn_direct_reader *file = open_read_file(false);
    qn_async_reader *reader = new_reader(4, 1000);
    qn_async_read lost = read_of(file, 0, 4096), after = read_of(file, 4096, 4096);
    qn_error err = {0};
    qn_fault_arm(QN_FAULT_WRITE, 1);
    qn_async_reader_start(reader, &lost, true);
    assert_int_equal(qn_async_reader_wait(reader, &lost, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, read_file_path));
    assert_non_null(strstr(err.message, "no read has got on"));
    qn_async_reader_start(reader, &after, true);
    qn_status status;
    do /* as slow as the disk may be: the patience is a millisecond */
        status = qn_async_reader_wait(reader, &after, &err);
    while (status == QN_RESOURCE);
    assert_int_equal(status, QN_OK);
    expect_content(&after);
    assert_false(qn_async_reader_free(reader)); /* what was lost may yet come */
    free_read(&lost);
    free_read(&after);
    qn_direct_reader_close(file);
}

static void test_a_system_without_io_uring_is_told(void **state)
{
    (void)state;
    qn_async_reader *reader = NULL;
    qn_error err = {0};
    qn_fault_arm(QN_FAULT_READ, 1);
    assert_int_equal(qn_async_reader_new(4, PATIENCE_US, &reader, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_non_null(strstr(err.message, "io_uring_disabled"));
    qn_fault_arm(QN_FAULT_ALLOC, 1);
    assert_int_equal(qn_async_reader_new(4, PATIENCE_US, &reader, &err), QN_RESOURCE);
    qn_fault_disarm();
    assert_null(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_ranges_at_any_depth),
        cmocka_unit_test(test_urgent_reads_pass_those_that_wait),
        cmocka_unit_test(test_hopes_leave_room_and_are_forgotten),
        cmocka_unit_test(test_hopes_give_way_between_two_pieces),
        cmocka_unit_test(test_forgotten_hopes_stop_and_go_on_where_they_were),
        cmocka_unit_test(test_a_cut_off_file_is_named),
        cmocka_unit_test(test_a_failing_read_is_told_and_may_be_tried_again),
        cmocka_unit_test(test_a_disk_that_never_answers_ends_the_wait),
        cmocka_unit_test(test_a_system_without_io_uring_is_told),
    };
    return cmocka_run_group_tests(tests, make_read_file, remove_read_file);
}
