#include <fcntl.h>
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
#include "checkpoint/view_map.h"

enum { PATH_BYTES = 256 };

static const char SHARDED[] = "tests/data/oracle/tiny-sharded";
static const char *const FILES[] = {"config.json", "model-00001-of-00003.safetensors",
                                    "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
                                    "model.safetensors.index.json"};

static qn_checkpoint *open_sharded(void)
{
    qn_checkpoint *checkpoint = NULL;
    qn_error err = {0};
    if (qn_checkpoint_open(SHARDED, &checkpoint, &err) != QN_OK)
        fail_msg("%s", err.message);
    return checkpoint;
}

static void expect_byte(const qn_view_map *map, const uint8_t *data, const char *file_name)
{
    size_t file = SIZE_MAX;
    uint64_t offset = 0;
    uint8_t byte = 0;
    assert_true(qn_view_map_find(map, data, &file, &offset));
    assert_non_null(strstr(map->files[file].path, file_name));
    FILE *in = fopen(map->files[file].path, "rb");
    assert_non_null(in);
    assert_int_equal(fseek(in, (long)offset, SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, in), 1);
    fclose(in);
    assert_int_equal(byte, *data);
}

static void test_each_tensor_is_found_where_it_lies(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    qn_error err;
    assert_int_equal(qn_view_map_make(checkpoint, &map, &err), QN_OK);
    assert_true(map.count > 1);
    for (size_t i = 0; i < qn_checkpoint_tensor_count(checkpoint); i++) {
        const char *name;
        const qn_tensor *tensor = qn_checkpoint_tensor(checkpoint, i, &name);
        if (tensor->bytes == 0)
            continue;
        expect_byte(&map, tensor->data, name);
        expect_byte(&map, tensor->data + tensor->bytes / 2, name);
        expect_byte(&map, tensor->data + tensor->bytes - 1, name);
    }
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

static void test_what_is_no_tensor_is_not_found(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    qn_error err;
    size_t file;
    uint64_t offset;
    uint8_t own = 0;
    assert_int_equal(qn_view_map_make(checkpoint, &map, &err), QN_OK);
    assert_false(qn_view_map_find(&map, &own, &file, &offset));
    for (size_t i = 0; i < map.count; i++) {
        assert_false(qn_view_map_find(&map, map.files[i].start, &file, &offset)); /* the header's length */
        assert_false(qn_view_map_find(&map, map.files[i].data - 1, &file, &offset));
    }
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

static void path_in(const char *dir, const char *name, char path[PATH_BYTES])
{
    assert_in_range(snprintf(path, PATH_BYTES, "%s/%s", dir, name), 1, PATH_BYTES - 1);
}

static void copy_file(const char *from_dir, const char *to_dir, const char *name)
{
    char path[PATH_BYTES];
    char *content = NULL;
    size_t bytes = 0;
    qn_error err;
    path_in(from_dir, name, path);
    assert_int_equal(qn_file_read(path, 1 << 24, &content, &bytes, &err), QN_OK);
    path_in(to_dir, name, path);
    assert_int_equal(qn_file_write(path, content, bytes, &err), QN_OK); /* beside, and then over what is there */
    qn_free(content);
}

/* Of the same size, and with the same bytes even: nobody can tell without reading all of it. */
static void exchange(const char *dir)
{
    copy_file(SHARDED, dir, FILES[2]);
}

static void set_time(const char *dir)
{
    char path[PATH_BYTES];
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    path_in(dir, FILES[1], path);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void cut_off(const char *dir)
{
    char path[PATH_BYTES];
    struct stat info;
    path_in(dir, FILES[3], path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 1), 0);
}

/* Opens the checkpoint, does that to it, and opens its files. */
static void expect_refusal(void (*change)(const char *dir), const char *file_name)
{
    char dir[] = "/tmp/quern-view-map-XXXXXX", path[PATH_BYTES];
    qn_checkpoint *checkpoint = NULL;
    qn_view_map map;
    qn_direct_reader **files = NULL;
    qn_error err = {0};
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++)
        copy_file(SHARDED, dir, FILES[i]);
    assert_int_equal(qn_checkpoint_open(dir, &checkpoint, &err), QN_OK);
    assert_int_equal(qn_view_map_make(checkpoint, &map, &err), QN_OK);
    assert_int_equal(qn_view_map_open_files(&map, "test", &files, &err), QN_OK);
    qn_view_map_close_files(&map, files);
    change(dir);
    files = NULL;
    assert_int_equal(qn_view_map_open_files(&map, "test", &files, &err), QN_BAD_INPUT);
    assert_null(files);
    assert_non_null(strstr(err.message, file_name));
    assert_non_null(strstr(err.message, "start again"));
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        path_in(dir, FILES[i], path);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

static void test_a_file_that_was_exchanged_or_changed_is_refused(void **state)
{
    (void)state;
    expect_refusal(exchange, FILES[2]);
    expect_refusal(set_time, FILES[1]);
    expect_refusal(cut_off, FILES[3]);
}

static void test_every_failing_allocation_is_told(void **state)
{
    (void)state;
    qn_checkpoint *checkpoint = open_sharded();
    qn_view_map map;
    long refused = 0;
    qn_status status;
    do {
        qn_error err = {0};
        qn_fault_arm(QN_FAULT_ALLOC, refused + 1);
        status = qn_view_map_make(checkpoint, &map, &err);
        qn_fault_disarm();
        assert_true(status == QN_OK || (status == QN_RESOURCE && map.count == 0));
        refused += status != QN_OK;
    } while (status != QN_OK);
    assert_true(refused >= 3);
    qn_view_map_free(&map);
    qn_checkpoint_close(checkpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_tensor_is_found_where_it_lies),
        cmocka_unit_test(test_what_is_no_tensor_is_not_found),
        cmocka_unit_test(test_a_file_that_was_exchanged_or_changed_is_refused),
        cmocka_unit_test(test_every_failing_allocation_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
