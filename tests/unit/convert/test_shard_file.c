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
#include "base/memory.h"
#include "convert/shard_file.h"
#include "support.h"

#define NAME "model-00001-of-00001.safetensors"

static const qn_tensor_declaration TENSORS[] = {
    {.name = "a", .dtype = QN_DTYPE_U8, .dims = 2, .shape = {100, 64}},
    {.name = "b", .dtype = QN_DTYPE_U8, .dims = 2, .shape = {100, 4}},
    {.name = "c", .dtype = QN_DTYPE_BF16, .dims = 1, .shape = {5000}},
    {.name = "d", .dtype = QN_DTYPE_F32, .dims = 1, .shape = {3}},
};
enum { COUNT = sizeof TENSORS / sizeof *TENSORS, LARGEST = 10000 };

static char folder[SUPPORT_PATH_BYTES], final_path[SUPPORT_PATH_BYTES], part_path[SUPPORT_PATH_BYTES],
    journal_path[SUPPORT_PATH_BYTES], entry_path[SUPPORT_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    support_make(folder);
    char below[SUPPORT_PATH_BYTES];
    assert_int_equal(mkdir(support_path(folder, QN_CONVERT_FOLDER, below), 0777), 0);
    support_path(folder, NAME, final_path);
    support_path(folder, QN_CONVERT_FOLDER "/" NAME ".part", part_path);
    support_path(folder, QN_CONVERT_FOLDER "/" NAME ".journal", journal_path);
    support_path(folder, QN_CONVERT_FOLDER "/" NAME ".json", entry_path);
    return 0;
}

static void empty_folder(void)
{
    unlink(final_path);
    unlink(part_path);
    unlink(journal_path);
    unlink(entry_path);
}

static int remove_folder(void **state)
{
    (void)state;
    support_remove(folder);
    return 0;
}

static void fill(size_t tensor, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(i * 31 + tensor * 7 + i / 253);
}

static qn_status write_tensor(qn_shard_file *file, size_t tensor, qn_error *err)
{
    uint8_t data[LARGEST];
    size_t bytes = (size_t)qn_shard_file_tensor_bytes(file, tensor);
    fill(tensor, data, bytes);
    qn_status status = qn_shard_file_write(file, tensor, 0, data, bytes / 3, err);
    if (status == QN_OK)
        status = qn_shard_file_write(file, tensor, bytes / 3, data + bytes / 3, bytes - bytes / 3, err);
    const qn_hash hash = qn_hash_bytes(data, bytes);
    return status == QN_OK ? qn_shard_file_commit(file, tensor, 1, &hash, err) : status;
}

/* What a run does: opens, checks or writes each tensor, finishes. Stops after `limit` tensors were written. */
static qn_status run(size_t limit, size_t *written, qn_error *err)
{
    qn_shard_file *file = NULL;
    bool done = false;
    *written = 0;
    qn_status status = qn_shard_file_done(folder, NAME, &done, err);
    if (status != QN_OK || done)
        return status;
    status = qn_shard_file_open(folder, NAME, TENSORS, COUNT, &file, err);
    for (size_t i = 0; i < COUNT && status == QN_OK; i++) {
        uint8_t buffer[1000];
        size_t tensor = (i + 2) % COUNT; /* any order */
        bool same = false;
        if (qn_shard_file_has(file, tensor))
            status = qn_shard_file_check(file, tensor, buffer, sizeof buffer, &same, err);
        if (status != QN_OK || same)
            continue;
        if (*written == limit) {
            qn_shard_file_close(file);
            return QN_OK;
        }
        status = write_tensor(file, tensor, err);
        *written += status == QN_OK;
    }
    if (status == QN_OK)
        status = qn_shard_file_finish(file, err);
    qn_shard_file_close(file);
    return status;
}

static size_t run_well(size_t limit)
{
    size_t written = 0;
    qn_error err;
    if (run(limit, &written, &err) != QN_OK)
        fail_msg("%s", err.message);
    return written;
}

/* The finished file has every byte, its data begin aligned, and nothing but its entry is left beside it. */
static void assert_whole(void)
{
    qn_safetensors *file = NULL;
    qn_error err;
    bool done = false;
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_OK);
    assert_true(done);
    assert_int_equal(qn_safetensors_open(final_path, &file, &err), QN_OK);
    assert_int_equal(qn_safetensors_count(file), COUNT);
    assert_int_equal(qn_safetensors_at(file, 0)->offset % QN_SHARD_DATA_ALIGNMENT, 0);
    for (size_t i = 0; i < COUNT; i++) {
        const qn_tensor *t = qn_safetensors_find(file, TENSORS[i].name);
        uint8_t expected[LARGEST];
        fill(i, expected, t->bytes);
        assert_int_equal(t->dtype, TENSORS[i].dtype);
        assert_memory_equal(t->data, expected, t->bytes);
    }
    qn_safetensors_close(file);
    assert_int_not_equal(access(part_path, F_OK), 0);
    assert_int_not_equal(access(journal_path, F_OK), 0);
    assert_int_equal(access(entry_path, F_OK), 0);
}

static void test_written_at_once(void **state)
{
    (void)state;
    bool done = true;
    qn_error err;
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_OK);
    assert_false(done);
    assert_int_equal(run_well(COUNT), COUNT);
    assert_whole();
    assert_int_equal(run_well(COUNT), 0);
}

static void test_goes_on_where_it_stopped(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(run_well(1), 1);
        if (i + 1 < COUNT)
            assert_int_not_equal(access(final_path, F_OK), 0);
    }
    assert_int_equal(run_well(COUNT), 0);
    assert_whole();
}

static void change_byte(const char *path, off_t from_end)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, -from_end, SEEK_END);
    int byte = fgetc(file);
    fseek(file, -from_end, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void test_changed_data_are_written_anew(void **state)
{
    (void)state;
    assert_int_equal(run_well(3), 3);
    change_byte(part_path, 12 + 5000); /* in the middle of c, which was the first to be written */
    assert_int_equal(run_well(COUNT), 2);
    assert_whole();
}

static void test_a_part_cut_off_is_made_whole(void **state)
{
    (void)state;
    static const off_t lengths[] = {0, 100, 5000, 15000};
    for (size_t i = 0; i < 4; i++) {
        empty_folder();
        assert_int_equal(run_well(3), 3);
        assert_int_equal(truncate(part_path, lengths[i]), 0);
        assert_true(run_well(COUNT) >= 1);
        assert_whole();
    }
}

static void test_a_lost_journal_begins_anew(void **state)
{
    (void)state;
    assert_int_equal(run_well(3), 3);
    unlink(journal_path);
    assert_int_equal(run_well(COUNT), COUNT);
    assert_whole();
}

static void test_a_lost_part_begins_anew(void **state)
{
    (void)state;
    assert_int_equal(run_well(3), 3);
    unlink(part_path);
    assert_int_equal(run_well(COUNT), COUNT);
    assert_whole();
}

static void test_other_tensors_begin_anew(void **state)
{
    (void)state;
    assert_int_equal(run_well(3), 3);
    qn_tensor_declaration other[COUNT];
    memcpy(other, TENSORS, sizeof other);
    other[2].dtype = QN_DTYPE_F16;
    qn_shard_file *file = NULL;
    qn_error err;
    assert_int_equal(qn_shard_file_open(folder, NAME, other, COUNT, &file, &err), QN_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_false(qn_shard_file_has(file, i));
    qn_shard_file_close(file);
}

static void test_a_file_that_is_not_as_entered_is_refused(void **state)
{
    (void)state;
    qn_error err;
    bool done = false;
    assert_int_equal(run_well(COUNT), COUNT);
    change_byte(final_path, 16812 + 100); /* in the header's padding */
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_BAD_INPUT);
    change_byte(final_path, 16812 + 100);
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_OK);
    struct stat info;
    assert_int_equal(stat(final_path, &info), 0);
    assert_int_equal(truncate(final_path, info.st_size - 1), 0);
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, NAME));
    assert_int_equal(qn_file_write(entry_path, "{}", 2, &err), QN_OK);
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_BAD_INPUT);
    unlink(entry_path);
    assert_int_equal(qn_shard_file_done(folder, NAME, &done, &err), QN_BAD_INPUT);
    assert_non_null(strstr(err.message, "was not made by this conversion"));
}

static void test_more_commits_than_are_in_flight(void **state)
{
    (void)state;
    enum { MANY = 100 };
    qn_tensor_declaration many[MANY];
    char names[MANY][8];
    qn_shard_file *file = NULL;
    qn_error err;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        many[i] = (qn_tensor_declaration){.name = names[i], .dtype = QN_DTYPE_U8, .dims = 1, .shape = {1000}};
    }
    assert_int_equal(qn_shard_file_open(folder, NAME, many, MANY, &file, &err), QN_OK);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(write_tensor(file, i, &err), QN_OK);
    assert_int_equal(qn_shard_file_finish(file, &err), QN_OK);
    qn_shard_file_close(file);
}

/* After a failure anywhere, the same run goes on to the same file. */
static void test_each_fault_is_survived(void **state)
{
    (void)state;
    static const qn_fault_kind kinds[] = {QN_FAULT_ALLOC, QN_FAULT_READ, QN_FAULT_WRITE};
    for (size_t k = 0; k < 3; k++) {
        for (size_t before = 0; before < 3; before += 2) { /* tensors of an earlier run */
            bool reached = true;
            size_t failures = 0;
            for (long nth = 1; reached; nth++) {
                empty_folder();
                run_well(before);
                size_t written;
                qn_error err;
                qn_fault_arm(kinds[k], nth);
                qn_status status = run(COUNT, &written, &err);
                reached = qn_fault_seen(kinds[k]) >= nth;
                qn_fault_disarm();
                assert_true(status == QN_OK || status == QN_RESOURCE);
                failures += status != QN_OK;
                run_well(COUNT);
                assert_whole();
            }
            assert_true(failures >= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_written_at_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_goes_on_where_it_stopped, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_changed_data_are_written_anew, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_part_cut_off_is_made_whole, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_lost_journal_begins_anew, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_lost_part_begins_anew, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_other_tensors_begin_anew, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_not_as_entered_is_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_more_commits_than_are_in_flight, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_each_fault_is_survived, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
